#!/usr/bin/env bash
# Measures how soon a network is as good as wanted: how long training to a mean test accuracy takes.
#
#   scripts/sprint.sh [CONFIG...]  [configs/sprint-98.conf configs/sprint-99.conf configs/sprint-99.5.conf]
#
#   SEEDS    networks of each, with seeds 1, 2, ...  [30]
#   PROGRAM  what is run  [./mlp-train]
#
# The number in a file's name is the accuracy to reach, in percent. One process trains all seeds
# (--seeds); nothing is compiled, cached or trained outside of what is timed. `process` is everything
# from its start to its end: CUDA's start, reading the CSV files and evaluation too. `train` is the time
# of the networks' epochs, divided by how many train at once. Exit status 1 unless every mean is at
# least the accuracy wanted, by Student's test of one sample, one-sided, at p < 0.01.
set -euo pipefail
export CUDA_CACHE_DISABLE=1
. "$(dirname "$0")/run_words.sh"

seeds=${SEEDS:-30} program=${PROGRAM:-./mlp-train}

[[ $seeds =~ ^[0-9]+$ && $seeds -ge 2 ]] || complain 2 "SEEDS must be a number of at least 2, not '$seeds'"
[ $# -gt 0 ] || set -- configs/sprint-98.conf configs/sprint-99.conf configs/sprint-99.5.conf
said=$(mktemp) log=$said.jsonl
trap 'rm -f "$said" "$log"' EXIT

# measure CONFIG: the test accuracy of each seed in percent, one a line. Sets `train` and `process`, in ms.
measure() {
  local start=$EPOCHREALTIME
  "$program" --config "$1" --seed 1 --seeds "$seeds" --log "$log" >"$said" ||
    complain 1 "$program --config $1 --seed 1 --seeds $seeds failed"
  process=$(awk -v start="$start" -v end="$EPOCHREALTIME" 'BEGIN { print 1000 * (end - start) }')
  train=$(grep -o '"train_seconds": *[0-9.e-]*' "$log" | awk -v at_once="$(word at once <"$said")" '
    { sum += $2 }
    END { print 1000 * sum / (at_once ? at_once : 1) }')
  mapfile -t accuracies < <(sed -n 's/^network .* test-acc \([0-9.]*\)%.*/\1/p' "$said")
  [ ${#accuracies[@]} = "$seeds" ] || complain 1 "$program printed ${#accuracies[@]} test accuracies of $seeds"
}

# summarize NAME GOAL: of such lines on standard input.
summarize() {
  awk -v name="$1" -v goal="$2" -v train="$train" -v process="$process" '
    # The probability that Student'"'"'s t of n degrees of freedom is above t: the finite sums of
    # Abramowitz and Stegun (1964), 26.7.3 and 26.7.4.
    function above(t, n,    k, term, sum) {
      term = n % 2 ? sqrt(n / (n + t * t)) : 1
      for (k = n % 2; k < n - 1; k += 2) {
        sum += term
        term *= (k + 1) / (k + 2) * n / (n + t * t)
      }
      sum *= t / sqrt(n + t * t)
      if (n % 2) sum = (sum + atan2(t, sqrt(n))) * 2 / atan2(0, -1)
      return sum < 1 ? (1 - sum) / 2 : 0
    }
    { value[NR] = $1; mean += $1 }
    END {
      mean /= NR
      for (r = 1; r <= NR; r++) squares += (value[r] - mean) ^ 2
      deviation = sqrt(squares / (NR - 1))
      t = deviation > 0 ? (mean - goal) / (deviation / sqrt(NR)) : mean >= goal ? "inf" : "-inf"
      p = deviation > 0 ? above(t, NR - 1) : mean < goal
      printf "%-16s %5d %8.3f%% %6.3f %6.2f %8.1e %9.1f %10.1f\n", name, NR, mean, deviation, t, p, \
        train, process
      exit p < 0.01 ? 0 : 1
    }'
}

status=0
for config; do
  name=$(basename "$config" .conf) goal=
  [[ $name =~ ([0-9]+(\.[0-9]+)?)$ ]] && goal=${BASH_REMATCH[1]}
  [ -n "$goal" ] ||
    complain 2 "the name of $config does not end in the accuracy to reach, as in sprint-99.conf"
  measure "$config"
  if [ "$config" = "$1" ]; then
    sed -n 's/^device  */device  /p' "$said"
    echo "                 seeds  test-acc   s.d.      t        p  train ms process ms"
  fi
  printf '%s\n' "${accuracies[@]}" | summarize "$name" "$goal" || status=1
done
exit $status
