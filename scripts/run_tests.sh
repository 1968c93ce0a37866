#!/usr/bin/env bash
# run_tests.sh TEST... runs cmocka programs and scenarios (tests/support/scenario.sh). Prints one line per
# program, and all output of a program that failed. At the end it prints how many tests were skipped and
# why, and the sums:
#
#   skipped 2: there is no GPU
#   41 passed, 0 failed, 2 skipped
#
#   JOBS   number of programs that run at the same time  [the number of cores]
#
# A program that crashes or does not end within 15 minutes counts as one more failure. The exit status is
# 1 if anything failed.
set -euo pipefail
export LC_ALL=C # otherwise bash would complain in every scenario if the locale is not installed

# Reads a program's TAP output. Prints the numbers of passed, failed and skipped tests, then the reason of
# each skipped test: the line before the test's result. The plan, "1..N", shows if tests are
# missing. Versions of cmocka report "not ok 1 # SKIP name", "ok 1 # SKIP name" or "ok 1 - name # SKIP".
# shellcheck disable=SC2016 # awk expands $0
export summary='
/^1\.\.[0-9]+$/     { planned += substr($0, 4); next }
!/^(not )?ok [0-9]/ { reason = $0; next }
{
  if (/^(not )?ok [0-9]+ (# SKIP |.* # SKIP$)/) reasons[skipped++] = reason == "" ? "no reason is given" : reason
  else if (/^ok/) passed++
  else failed++
  reason = ""
}
END {
  if (passed + failed + skipped < planned || (status != 0 && !failed)) failed++
  print passed + 0, failed + 0, skipped + 0
  for (i = 0; i < skipped; i++) print reasons[i]
}'

results=$(mktemp -d)
export results
trap 'rm -rf "$results"' EXIT

# test_program PROGRAM prints the program's line and appends its counts and reasons to files in $results.
test_program() {
  local status=0 output p f s skips
  local command=("$1")
  [[ $1 != *.sh ]] || command=(tests/support/scenario.sh "$1")
  output=$(CMOCKA_MESSAGE_OUTPUT=tap timeout 900 "${command[@]}" 2>&1 </dev/null) || status=$?
  { read -r p f s; skips=$(cat); } < <(awk -v status="$status" "$summary" <<<"$output")
  {
    flock 9 # so that the output of programs does not mix
    echo "$(basename "$1"): $p passed, $f failed, $s skipped"
    if [ "$f" != 0 ]; then
      # shellcheck disable=SC2001 # bash cannot replace the start of each line
      sed 's/^/  | /' <<<"$output"
      echo "  exit status $status$([ "$status" != 124 ] || echo ', stopped after 15 minutes')"
    fi
    echo "$p $f $s" >>"$results/sums"
    [ -z "$skips" ] || echo "$skips" >>"$results/reasons"
  } 9>"$results/lock"
}
export -f test_program

JOBS=${JOBS:-$(nproc)}
# OpenMP threads that wait actively would take cores from other programs.
[ "$JOBS" = 1 ] || export OMP_WAIT_POLICY=passive

# xargs starts the programs, because background processes of this shell would ignore Ctrl-C.
# shellcheck disable=SC2016 # the inner bash expands $1
printf '%s\0' "$@" | xargs -0 -n 1 -P "$JOBS" bash -euo pipefail -c 'test_program "$1"' test_program
touch "$results/sums" "$results/reasons"
sort "$results/reasons" | uniq -c | sort -rn | sed -E 's/^ *([0-9]+) /skipped \1: /'
awk '{ passed += $1; failed += $2; skipped += $3 }
     END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped; exit failed != 0 }' \
  "$results/sums"
