#!/usr/bin/env bash
# profile.sh TOPIC [RUNG RUNG]: prints a table of what the hardware counts while each rung of a topic
# of the lab runs once. Nsight Compute (ncu) reads the counter that the topic is about, the bytes that
# the memory moved, the time, and what warps waited for; each rung runs in its own process. Two rungs
# are put side by side.
#
#   NVCC     the CUDA Toolkit's compiler: ncu is looked for in PATH and beside it  [nvcc]
#   REPORTS  the folder that keeps the reports, one for each rung, for ncu-ui      [build/profiles]
#
# One line per kernel; for a sweep, one per point. The times are at the fixed clock of ncu, not at
# full speed. docs/lab/README.md explains the waits.
set -euo pipefail
. "$(dirname "$0")/run_words.sh"

lab=${LAB:-./mlp-lab}
topic=${1-} reports=${REPORTS:-build/profiles}

# table RUNG METRIC: from ncu's CSV (a line of names, one of units, one per kernel, every field in
# quotes) makes the lines of the rung, "-" for a counter that is missing. Fails if there is no kernel.
# What the longest kernel counted goes to $output.RUNG, a name and a number on each line.
# shellcheck disable=SC2016 # $0 is awk's
table() {
  awk -v rung="$1" -v metric="$2" -v longest="$output.$1" -v points="$(sed -n "s/^points $1: //p" <<<"$listing")" '
    function value(name, text) {
      text = name in column ? field[column[name]] : ""
      gsub(/[, ]/, "", text)
      return text == "" ? "-" : text
    }
    # Of the names of waits, the last words: the three longest, and all of them in `counted`.
    function waits(counted, wait, name, short, best, text, k) {
      for (name in column) {
        if (name !~ /issue_stalled_.*_per_issue_active/ || name ~ /_selected_/) continue
        short = name
        gsub(/.*issue_stalled_|_per_issue_active.*/, "", short)
        wait[short] = counted["waits, " short] = value(name) + 0
      }
      for (k = 0; k < 3; k++) {
        best = ""
        for (name in wait) if (best == "" || wait[name] > wait[best]) best = name
        if (best != "") text = text sprintf("  %s %.1f", best, wait[best])
        delete wait[best]
      }
      return text
    }
    !/^"/ { next }
    { gsub(/^"|"$/, ""); count = split($0, field, "\",\"") }
    lines++ == 0 { for (i = 1; i <= count; i++) column[field[i]] = i }
    lines > 2 {
      split("", counted)
      counted[metric] = value(metric)
      counted["memory, MB"] = value("dram__bytes.sum") / 1e6
      counted["time, ms"] = ms = value("gpu__time_duration.sum") / 1e6
      row[lines - 2] = sprintf("%-24.24s %16s %12.2f %10.4f%s", value("Kernel Name"), value(metric),
        counted["memory, MB"], ms, waits(counted))
      if (ms <= most) next
      most = ms
      printf "" >longest
      for (name in counted) print name "|" counted[name] >longest
      close(longest)
    }
    END {
      named = split(points, point, " ") == lines - 2
      for (i = 1; i <= lines - 2; i++) printf "%-20s %-6s %s\n", rung, named ? point[i] : "", row[i]
      exit lines < 3
    }' "$output"
}

# profile_rung NAME METRIC: prints its lines of the table.
profile_rung() {
  local report=$reports/$topic-$1.ncu-rep
  if "$ncu" --export "$report" --force-overwrite --nvtx --nvtx-include "$1/" --section WarpStateStats \
    --metrics "gpu__time_duration.sum,dram__bytes.sum${2:+,$2}" \
    "$lab" "$topic" --rung "$1" --profile >"$output" 2>&1 && "$ncu" --import "$report" --csv --page raw \
    --print-units base --print-kernel-base function >>"$output" 2>&1 && table "$1" "$2"; then
    return
  elif grep -q '^refused, ' "$output"; then
    printf '%-20s %s\n' "$1" "refused:$(grep -m 1 '^refused, ' "$output" | cut -d : -f 2-)"
  elif grep -q 'No kernels were profiled' "$output"; then
    printf '%-20s %s\n' "$1" 'no kernel: the copy engine did it, or nothing ran'
  elif grep -q ERR_NVGPUCTRPERM "$output"; then
    complain 1 "$1: this user may not read the counters of the GPU (ERR_NVGPUCTRPERM): ask for the \
permission, or run it as root"
  else
    complain 1 "$1: ncu read nothing: $(grep -m 1 -E '==(ERROR|WARNING)==|mlp-lab: ' "$output" ||
      echo 'it gives no reason')"
  fi
}

# A profiler runs one kernel at a time; those of two GPUs would wait for each other for ever.
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES-0}
CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES%%,*}

[ -n "$topic" ] || complain 1 'name a topic: scripts/profile.sh softmax'
[ -x "$lab" ] || complain 1 "$lab is not built: that needs the CUDA Toolkit's nvcc"
listing=$("$lab" list "$topic")
ncu=$(command -v ncu "$(dirname "$(command -v "${NVCC:-nvcc}" || echo "${NVCC:-nvcc}")")/ncu" \
  /usr/local/cuda/bin/ncu | sed -n 1p) ||
  complain 1 'Nsight Compute (ncu) is neither in PATH nor beside nvcc: install the CUDA Toolkit'
nvidia-smi -L >/dev/null 2>&1 ||
  complain 1 'nvidia-smi sees no GPU, so there is nothing to profile'

mkdir -p "$reports"
output=$(mktemp)
trap 'rm -f "$output" "$output".*' EXIT
metric=$(awk '$1 == "metric" { sub(/:$/, "", $2); print $2 }' <<<"$listing")
sed -n '1s/^topic //p' <<<"$listing"
sed -n 's/^metric /counter: /p' <<<"$listing"
printf '%-20s %-6s %-24s %16s %12s %10s  %s\n' rung point kernel counter 'memory, MB' 'time, ms' \
  'longest waits, cycles per instruction'
while read -r rung; do
  profile_rung "$rung" "$metric"
done < <(if [ $# = 3 ]; then printf '%s\n' "$2" "$3"; else
  awk '/^(rung|library|part) / { sub(/:$/, "", $2); print $2 }' <<<"$listing"
fi)
[ $# != 3 ] || join -t '|' <(sort "$output.$2") <(sort "$output.$3") |
  awk -F '|' -v a="$2" -v b="$3" 'BEGIN { printf "\n%-56s %16s %16s %8s\n", "longest kernel", a, b, "quotient" }
    { printf "%-56s %16s %16s %8s\n", $1, $2, $3, $2 + 0 ? sprintf("%.2f", $3 / $2) : "-" }'
echo "reports: $reports/$topic-*.ncu-rep"
