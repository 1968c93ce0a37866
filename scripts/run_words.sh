# shellcheck shell=bash
# Functions that read the output of mlp-train, for scripts that measure. Scripts source this file.
export LC_ALL=C # numbers have a decimal point, not a comma

# complain STATUS SENTENCE prints the sentence and ends the script with STATUS.
complain() {
  echo "$(basename "$0" .sh): $2" >&2
  exit "$1"
}

# column NAME prints a column of the table on standard input, one line per epoch. Times are converted to
# milliseconds, percent signs are left out, and a value that was not measured is an empty line.
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

# median prints the median of the numbers on standard input, with two digits after the point.
median() {
  sort -g | awk '{ value[NR] = $0 }
    END { if (NR) printf "%.2f", (value[int((NR + 1) / 2)] + value[int(NR / 2) + 1]) / 2 }'
}

# at_least VALUE LEAST succeeds if VALUE >= LEAST. It fails if VALUE is empty.
at_least() { awk -v value="$1" -v least="$2" 'BEGIN { exit !(value >= least) }'; }

# word LINE NAME prints the word after NAME in the line that begins with LINE. A colon at its end is cut off.
word() {
  awk -v line="$1" -v name="$2" '
    $1 == line { for (i = 1; i < NF; i++) if ($i == name) { sub(/:$/, "", $(i + 1)); print $(i + 1) } }'
}

# short_name reads a GPU's name from standard input and prints it without maker, memory and spaces: h100
# for "NVIDIA H100 80GB HBM3".
short_name() {
  tr '[:upper:]' '[:lower:]' | sed -E 's/nvidia|geforce|tesla|quadro//g; s/[0-9]+gb.*//; s/[^a-z0-9]//g'
}
