#!/usr/bin/env bash
# Measures how long training to a mean test accuracy takes: scripts/sprint.sh [CONFIG...]  [configs/sprint-98.conf, -99, -99.5]
#
# The number in a file's name is the accuracy to reach, in percent, by 30 seeds in one process. `process` is everything from
# its start to its end. `train` is the time of the networks' epochs, divided by how many train at once. Exit status 1 unless
# every mean is at least the accuracy wanted, by Student's test of one sample, one-sided, at p < 0.01.
set -euo pipefail
export CUDA_CACHE_DISABLE=1
. "$(dirname "$0")/run_words.sh"

[ $# -gt 0 ] || set -- configs/sprint-98.conf configs/sprint-99.conf configs/sprint-99.5.conf
said=$(mktemp)
trap 'rm -f "$said" "$said.jsonl"' EXIT
status=0
for config; do
  name=$(basename "$config" .conf)
  rm -f "$said.jsonl"
  start=$EPOCHREALTIME
  ./mlp-train --config "$config" --seed 1 --seeds 30 --log "$said.jsonl" >"$said"
  [ "$config" != "$1" ] || printf '%s\n\n%-16s %9s %6s %6s %9s %10s\n' "$(grep '^device ' "$said")" '' test-acc s.d. t \
    'train ms' 'process ms'
  # 2.462: t of 29 degrees of freedom at p = 0.01.
  awk -v name="$name" -v start="$start" -v end="$EPOCHREALTIME" -v at_once="$(word at once <"$said")" '
    FNR == NR { if (match($0, /"train_seconds": *[0-9.e-]+/)) train += substr($0, RSTART + 16, RLENGTH - 16); next }
    $1 == "network" && /test-acc/ { value[++n] = $NF + 0; mean += $NF / 30 }
    END {
      for (i in value) squares += (value[i] - mean) ^ 2
      deviation = sqrt(squares / 29)
      t = (mean - substr(name, match(name, /[0-9.]+$/))) / (deviation / sqrt(30) + 1e-9)
      printf "%-16s %8.3f%% %6.3f %6.2f %9.1f %10.1f\n", name, mean, deviation, t, 1000 * train / (at_once ? at_once : 1),
        1000 * (end - start)
      exit n != 30 || t < 2.462
    }' "$said.jsonl" "$said" || status=1
done
exit $status
