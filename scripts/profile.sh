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
export LC_ALL=C # a decimal point is a point

lab=${LAB:-./mlp-lab}
topic=${1-}

# complain SENTENCE: prints it and exits.
complain() {
  echo "profile: $1" >&2
  exit 1
}

find_ncu() {
  local nvcc=${NVCC:-nvcc} candidate
  for candidate in ncu "$(dirname "$(command -v "$nvcc" || echo "$nvcc")")/ncu" \
                   /usr/local/cuda/bin/ncu; do
    command -v "$candidate" && return
  done
  return 1
}

# kernels METRIC: from ncu's CSV (a line of names, one of units, one per kernel, every field in
# quotes) makes one line per kernel: its name, the metric, the bytes, the nanoseconds; "-" for what
# is missing.
# shellcheck disable=SC2016 # $0 is awk's
kernels() {
  awk -v metric="$1" '
    function value(name, text) {
      text = name in column ? field[column[name]] : ""
      gsub(/,/, "", text)
      return text == "" ? "-" : text
    }
    !/^"/ { next }
    { sub(/^"/, ""); sub(/"$/, ""); count = split($0, field, "\",\"") }
    lines++ == 0 { for (i = 1; i <= count; i++) column[field[i]] = i }
    lines > 2 {
      kernel = value("Kernel Name")
      gsub(/ /, "", kernel)
      print kernel, value(metric), value("dram__bytes.sum"), value("gpu__time_duration.sum")
    }
    END { exit lines < 3 }'
}

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

# points RUNG: the points of its sweep, one word each; nothing if it is not a sweep.
points() {
  awk -v rung="$1:" '$1 == "points" && $2 == rung { for (i = 3; i <= NF; i++) print $i }' \
    <<<"$listing"
}

# profile_rung NAME METRIC: prints its lines of the table.
profile_rung() {
  local rung=$1 metric=$2 metrics=gpu__time_duration.sum,dram__bytes.sum lines
  [ -z "$metric" ] || metrics+=,$metric
  if ! "$ncu" --csv --page raw --print-units base --print-kernel-base function \
    --nvtx --nvtx-include "$rung/" --metrics "$metrics" \
    "$lab" "$topic" --rung "$rung" --profile >"$output" 2>&1 ||
    ! lines=$(kernels "$metric" <"$output"); then
    local instead
    if grep -q '^refused, ' "$output"; then
      instead='refused at this size'
    elif grep -q 'No kernels were profiled' "$output"; then
      instead='no kernel: the copy engine did it, or nothing ran'
    else
      complain "$rung: $(reason)"
    fi
    printf '%-20s %s\n' "$rung" "$instead"
    return
  fi
  awk -v rung="$rung" -v all="$(points "$rung" | tr '\n' ' ')" -v count="$(wc -l <<<"$lines")" '
    BEGIN { named = split(all, point, " ") == count }
    { printf "%-20s %-6s %-24.24s %16s %12.2f %10.4f\n",
        rung, named ? point[NR] : "", $1, $2, $3 / 1e6, $4 / 1e6 }' <<<"$lines"
}

[ -n "$topic" ] || complain 'name a topic: scripts/profile.sh softmax'
[ -x "$lab" ] || complain "$lab is not built: that needs the CUDA Toolkit's nvcc"
listing=$("$lab" list "$topic")
ncu=$(find_ncu) ||
  complain 'Nsight Compute (ncu) is neither in PATH nor beside nvcc: install the CUDA Toolkit'
nvidia-smi -L >/dev/null 2>&1 ||
  complain 'nvidia-smi sees no GPU, so there is nothing to profile'

output=$(mktemp)
trap 'rm -f "$output"' EXIT
metric=$(awk '$1 == "metric" { sub(/:$/, "", $2); print $2 }' <<<"$listing")
sed -n '1s/^topic //p' <<<"$listing"
sed -n 's/^metric /counter: /p' <<<"$listing"
printf '%-20s %-6s %-24s %16s %12s %10s\n' rung point kernel counter 'memory, MB' 'time, ms'
while read -r rung; do
  profile_rung "$rung" "$metric"
done < <(awk '/^(rung|library|part) / { sub(/:$/, "", $2); print $2 }' <<<"$listing")
