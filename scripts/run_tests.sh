#!/usr/bin/env bash
# run_tests.sh PROGRAM...: runs cmocka programs one after the other: a line each, why a test was
# skipped, all the output of a program that failed, and last the sum:
#
#   41 passed, 0 failed, 2 skipped
#
# A program that crashes, or does not end within 5 minutes, is one more failure. Exit code 1 if
# anything failed.
set -euo pipefail

# Reads a program's TAP output. Prints "passed failed skipped", then a line for each reason to skip
# and the tests it holds for: the reason is what a test printed last. The plan, "1..N", tells when
# tests are missing.
# shellcheck disable=SC2016 # $6 is awk's
summary='
/^1\.\.[0-9]+$/   { planned += substr($0, 4); next }
/^ok [0-9]/       { passed++; reason = ""; next }
/^not ok [0-9]+ # SKIP / {
  skipped++
  if (reason == "") reason = "no reason is given"
  if (!(reason in names)) order[++reasons] = reason
  names[reason] = names[reason] " " $6
  reason = ""
  next
}
/^not ok [0-9]/   { failed++; reason = ""; next }
                  { reason = $0 }
END {
  if (passed + failed + skipped < planned || (status != 0 && !failed)) failed++
  print passed + 0, failed + 0, skipped + 0
  for (i = 1; i <= reasons; i++) print "  skipped because " order[i] ":" names[order[i]]
}'

passed=0 failed=0 skipped=0
for program in "$@"; do
  status=0
  output=$(CMOCKA_MESSAGE_OUTPUT=tap timeout 300 "$program" 2>&1 </dev/null) || status=$?
  { read -r p f s; skips=$(cat); } < <(awk -v status="$status" "$summary" <<<"$output")
  echo "$(basename "$program"): $p passed, $f failed, $s skipped"
  [ -z "$skips" ] || echo "$skips"
  if [ "$f" != 0 ]; then
    # shellcheck disable=SC2001 # a line's start is what sed is for
    sed 's/^/  | /' <<<"$output"
    echo "  exit code $status$([ "$status" != 124 ] || echo ', stopped after 5 minutes')"
  fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
