#!/usr/bin/env bash
# run.sh SECONDS FOLDER runs libFuzzer on each harness that was built in FOLDER, for SECONDS. Prints a
# line for each harness:
#
#   csv            60 s   123456 executions   321 of 456 edges   0 crashes
#
# The first inputs come from tests/fuzz/corpus/NAME. New inputs go to FOLDER/found/NAME. An input that
# crashes goes to FOLDER/crash-NAME-..., and the report to FOLDER/NAME.log. The exit code is 1 if there
# was a crash.
set -euo pipefail

seconds=$1 folder=$2 failed=0
for program in "$folder"/fuzz_*; do
  [ -x "$program" ] || continue
  name=${program##*/fuzz_} log=$folder/${program##*/fuzz_}.log
  mkdir -p "$folder/found/$name"
  options=(-max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -max_len=4096
    -print_final_stats=1 -close_fd_mask=1 -artifact_prefix="$folder/crash-$name-")
  [ ! -f "tests/fuzz/$name.dict" ] || options+=(-dict="tests/fuzz/$name.dict")
  status=0 began=$(date +%s)
  "$program" "${options[@]}" "$folder/found/$name" "tests/fuzz/corpus/$name" \
    </dev/null >"$log" 2>&1 || status=$?
  awk -v name="$name" -v seconds="$(($(date +%s) - began))" -v status="$status" '
    /^INFO: Loaded 1 modules/ { edges = $5 }
    / cov: [0-9]+/            { for (i = 2; i <= NF; i++) if ($(i - 1) == "cov:") covered = $i }
    /^stat::number_of_executed_units/ { executions = $2 }
    END {
      printf "%-12s %6d s %10d executions %6d of %d edges   %d crashes\n", name, seconds,
        executions, covered, edges, status != 0
    }' <(sed 's/(\([0-9]*\) .*/\1/' "$log")
  if [ "$status" != 0 ]; then
    failed=1
    grep -E 'ERROR|SUMMARY|broken promise|runtime error|Test unit' "$log" | sed 's/^/  | /'
  fi
done
exit "$failed"
