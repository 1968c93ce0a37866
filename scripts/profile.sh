#!/usr/bin/env bash
# profile.sh TOPIC: prints a table of what the hardware counts while each rung of a topic of the lab
# runs once. Nsight Compute (ncu) reads the counter that the topic is about, the bytes that the
# memory moved, and the time; each rung runs in its own process.
#
#   NVCC  the CUDA Toolkit's compiler: ncu is looked for in PATH and beside it  [nvcc]
#
# One line per kernel; for a sweep, one per point. The times are at the fixed clock of ncu, not at
# full speed.
set -euo pipefail
# shellcheck source=scripts/run_words.sh
. "$(dirname "$0")/run_words.sh"

lab=${LAB:-./mlp-lab}
topic=${1-}

# Why ncu read nothing, from its output.
reason() {
  if grep -q ERR_NVGPUCTRPERM "$output"; then
    echo 'this user may not read the counters of the GPU (ERR_NVGPUCTRPERM): ask for' \
      'the permission, or run it as root'
  else
    echo "ncu read nothing: $(grep -m 1 -E '==(ERROR|WARNING)==|mlp-lab: ' "$output" ||
      echo 'it gives no reason')"
  fi
}

# table RUNG METRIC: from ncu's CSV (a line of names, one of units, one per kernel, every field in
# quotes) makes the lines of the rung, "-" for a counter that is missing. Fails if there is no kernel.
# shellcheck disable=SC2016 # $0 is awk's
table() {
  awk -v rung="$1" -v metric="$2" -v points="$(sed -n "s/^points $1: //p" <<<"$listing")" '
    function value(name, text) {
      text = name in column ? field[column[name]] : ""
      gsub(/[, ]/, "", text)
      return text == "" ? "-" : text
    }
    !/^"/ { next }
    { gsub(/^"|"$/, ""); count = split($0, field, "\",\"") }
    lines++ == 0 { for (i = 1; i <= count; i++) column[field[i]] = i }
    lines > 2 {
      row[lines - 2] = sprintf("%-24.24s %16s %12.2f %10.4f", value("Kernel Name"), value(metric),
        value("dram__bytes.sum") / 1e6, value("gpu__time_duration.sum") / 1e6)
    }
    END {
      named = split(points, point, " ") == lines - 2
      for (i = 1; i <= lines - 2; i++) printf "%-20s %-6s %s\n", rung, named ? point[i] : "", row[i]
      exit lines < 3
    }' "$output"
}

# profile_rung NAME METRIC: prints its lines of the table.
profile_rung() {
  if "$ncu" --csv --page raw --print-units base --print-kernel-base function --nvtx --nvtx-include "$1/" \
    --metrics "gpu__time_duration.sum,dram__bytes.sum${2:+,$2}" \
    "$lab" "$topic" --rung "$1" --profile >"$output" 2>&1 && table "$1" "$2"; then
    return
  elif grep -q '^refused, ' "$output"; then
    printf '%-20s %s\n' "$1" 'refused at this size'
  elif grep -q 'No kernels were profiled' "$output"; then
    printf '%-20s %s\n' "$1" 'no kernel: the copy engine did it, or nothing ran'
  else
    complain 1 "$1: $(reason)"
  fi
}

[ -n "$topic" ] || complain 1 'name a topic: scripts/profile.sh softmax'
[ -x "$lab" ] || complain 1 "$lab is not built: that needs the CUDA Toolkit's nvcc"
listing=$("$lab" list "$topic")
ncu=$(command -v ncu "$(dirname "$(command -v "${NVCC:-nvcc}" || echo "${NVCC:-nvcc}")")/ncu" \
  /usr/local/cuda/bin/ncu | sed -n 1p) ||
  complain 1 'Nsight Compute (ncu) is neither in PATH nor beside nvcc: install the CUDA Toolkit'
nvidia-smi -L >/dev/null 2>&1 ||
  complain 1 'nvidia-smi sees no GPU, so there is nothing to profile'

output=$(mktemp)
trap 'rm -f "$output"' EXIT
metric=$(awk '$1 == "metric" { sub(/:$/, "", $2); print $2 }' <<<"$listing")
sed -n '1s/^topic //p' <<<"$listing"
sed -n 's/^metric /counter: /p' <<<"$listing"
printf '%-20s %-6s %-24s %16s %12s %10s\n' rung point kernel counter 'memory, MB' 'time, ms'
while read -r rung; do
  profile_rung "$rung" "$metric"
done < <(awk '/^(rung|library|part) / { sub(/:$/, "", $2); print $2 }' <<<"$listing")
