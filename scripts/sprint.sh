#!/usr/bin/env bash
# Measures how soon a network is as good as wanted: how long training to a mean test accuracy takes.
#
#   scripts/sprint.sh [CONFIG...]  [configs/sprint-98.conf configs/sprint-99.conf configs/sprint-99.5.conf]
#
#   SEEDS    processes of each, with seeds 1, 2, ...  [30]
#   PROGRAM  what is run  [./mlp-train]
#
# The number in a file's name is the accuracy to reach, in percent. A seed is a process of its own,
# started after the one before has ended; nothing is compiled, cached or trained outside of what is
# timed. `train` is the sum of the run's epochs, until the device has finished; `process` is everything
# from its start to its end: CUDA's start, reading the CSV files and evaluation too. Exit status 1 unless
# every mean is at least the accuracy wanted, by Student's test of one sample, one-sided, at p < 0.01.
set -euo pipefail
export CUDA_CACHE_DISABLE=1
# shellcheck source=scripts/run_words.sh
. "$(dirname "$0")/run_words.sh"

seeds=${SEEDS:-30} program=${PROGRAM:-./mlp-train}

[[ $seeds =~ ^[0-9]+$ && $seeds -ge 2 ]] || complain 2 "SEEDS must be a number of at least 2, not '$seeds'"
[ $# -gt 0 ] || set -- configs/sprint-98.conf configs/sprint-99.conf configs/sprint-99.5.conf
said=$(mktemp)
trap 'rm -f "$said"' EXIT

# measure CONFIG: a line per seed: test accuracy in percent; milliseconds of training, of the process.
measure() {
  local seed start end accuracy
  for ((seed = 1; seed <= seeds; seed++)); do
    start=$EPOCHREALTIME
    "$program" --config "$1" --seed "$seed" >"$said" || complain 1 "$program --config $1 --seed $seed failed"
    end=$EPOCHREALTIME
    accuracy=$(column test-acc <"$said" | tail -n 1)
    [ -n "$accuracy" ] || complain 1 "$program --config $1 --seed $seed printed no test accuracy"
    echo "$accuracy $(word total train <"$said" | sed 's/ms$//; s/s$/e3/')" \
      "$(awk -v start="$start" -v end="$end" 'BEGIN { print 1000 * (end - start) }')"
  done
}

# summarize NAME GOAL: of those lines.
summarize() {
  awk -v name="$1" -v goal="$2" '
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
    { for (c = 1; c <= 3; c++) { value[NR, c] = $c; mean[c] += $c } }
    END {
      for (c = 1; c <= 3; c++) {
        mean[c] /= NR
        for (r = 1; r <= NR; r++) squares[c] += (value[r, c] - mean[c]) ^ 2
        deviation[c] = sqrt(squares[c] / (NR - 1))
      }
      t = deviation[1] > 0 ? (mean[1] - goal) / (deviation[1] / sqrt(NR)) : mean[1] >= goal ? "inf" : "-inf"
      p = deviation[1] > 0 ? above(t, NR - 1) : mean[1] < goal
      printf "%-16s %5d %8.3f%% %6.3f %6.2f %8.1e %9.1f %6.1f %10.1f %5.1f\n", name, NR, mean[1], \
        deviation[1], t, p, mean[2], deviation[2], mean[3], deviation[3]
      exit p < 0.01 ? 0 : 1
    }'
}

status=0
for config; do
  name=$(basename "$config" .conf) goal=
  [[ $name =~ ([0-9]+(\.[0-9]+)?)$ ]] && goal=${BASH_REMATCH[1]}
  [ -n "$goal" ] ||
    complain 2 "the name of $config does not end in the accuracy to reach, as in sprint-99.conf"
  lines=$(measure "$config")
  if [ "$config" = "$1" ]; then
    sed -n 's/^device  */device  /p' "$said"
    echo "                 seeds  test-acc   s.d.      t        p  train ms   s.d. process ms  s.d."
  fi
  summarize "$name" "$goal" <<<"$lines" || status=1
done
exit $status
