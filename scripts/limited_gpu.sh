#!/usr/bin/env bash
# Measures the levels of fusion that a smaller GPU would be given: a table for docs/gpus.md.
#
#   scripts/limited_gpu.sh [MULTIPROCESSORS:KB...]  [227, 163 and 99 KB of usual GPUs]
#
#   EPOCHS   of each run; the time is the median of all but the first two  [10]
#   PROGRAM  what is run  [./mlp-train]
#
# A line per pair, on MNIST with the default network at batch 64: milliseconds of an epoch at levels
# step and epoch, what auto takes, its test accuracy. Only what level epoch plans with is limited:
# it has so many blocks and so much shared memory, on the clock, the tensor cores and the L2 cache
# of the GPU at hand. Level step uses all of that GPU, so it is as fast in every line.
set -euo pipefail
. "$(dirname "$0")/run_words.sh"

epochs=${EPOCHS:-10} program=${PROGRAM:-./mlp-train}
[[ $epochs =~ ^[0-9]+$ && $epochs -ge 3 ]] || complain 2 "EPOCHS must be a number of at least 3, not '$epochs'"
[ $# -gt 0 ] || set -- 132:227 114:227 108:163 128:99 84:99 68:99 46:99 28:99 20:99
for limit; do
  [[ $limit =~ ^[0-9]+:(64|99|163|227)$ ]] ||
    complain 2 "a limit is MULTIPROCESSORS:KB, KB 64, 99, 163 or 227, not '$limit'"
done

# measure LEVEL MULTIPROCESSORS KB: the level in use, milliseconds of an epoch, test accuracy; or -
# for all three where the level cannot run.
measure() {
  local said limits=(MLP_TEST_PROCESSORS="$2")
  [ "$3" = 227 ] || limits+=(MLP_TEST_SHARED="$3")
  if ! said=$(env "${limits[@]}" "$program" --device cuda --fusion "$1" --epochs "$epochs" 2>&1); then
    [[ $said == *"--fusion epoch cannot run"* ]] && echo '- - -' && return
    echo "$said" >&2
    return 1
  fi
  echo "$(word fusion fusion <<<"$said") $(column train <<<"$said" | tail -n +3 | median)" \
    "$(column test-acc <<<"$said" | tail -n 1)%"
}

"$program" --device cuda --epochs 1 | sed -n '/^device/p'
echo
echo "| multiprocessors | KB | step, ms | epoch, ms | \`auto\` takes | test accuracy |"
echo '| ---: | ---: | ---: | ---: | --- | ---: |'
for limit; do
  processors=${limit%:*} kilobytes=${limit#*:}
  read -r _ step _ < <(measure step "$processors" "$kilobytes")
  read -r _ epoch _ < <(measure epoch "$processors" "$kilobytes")
  read -r level _ accuracy < <(measure auto "$processors" "$kilobytes")
  echo "| $processors | $kilobytes | $step | $epoch | \`$level\` | $accuracy |"
done
