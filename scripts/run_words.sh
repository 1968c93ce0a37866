# shellcheck shell=bash
# Functions for scripts that measure, which read what a run of mlp-train printed. Sourced, not run.
export LC_ALL=C # a decimal point is a point

# complain STATUS SENTENCE: ends the script.
complain() {
  echo "$(basename "$0" .sh): $2" >&2
  exit "$1"
}

# column NAME: prints this column of the table on standard input, one line per epoch. Times are in
# milliseconds, percentages have no sign, and a value that was not measured is an empty line.
column() {
  awk -v name="$1" '
    $1 == "loss" { for (i = 1; i <= NF; i++) if ($i == name) column = i + 2 }
    $1 == "epoch" && column {
      value = $column
      if (value ~ /[0-9]s$/) value *= 1000
      sub(/(ms|%|-)$/, "", value)
      print value
    }'
}

# median: prints the median of the numbers on standard input, with two digits after the point.
median() {
  sort -g | awk '{ value[NR] = $0 }
    END { if (NR) printf "%.2f", (value[int((NR + 1) / 2)] + value[int(NR / 2) + 1]) / 2 }'
}

# at_least VALUE LEAST: compares two numbers. A missing value is less.
at_least() { awk -v value="$1" -v least="$2" 'BEGIN { exit !(value >= least) }'; }

# word LINE NAME: prints, from the line that begins with LINE, the word after NAME, without its colon.
word() {
  awk -v line="$1" -v name="$2" '
    $1 == line { for (i = 1; i < NF; i++) if ($i == name) { sub(/:$/, "", $(i + 1)); print $(i + 1) } }'
}

# short_name: prints the GPU's name on standard input without maker, memory and spaces: h100 for
# "NVIDIA H100 80GB HBM3".
short_name() {
  tr '[:upper:]' '[:lower:]' | sed -E 's/nvidia|geforce|tesla|quadro//g; s/[0-9]+gb.*//; s/[^a-z0-9]//g'
}
