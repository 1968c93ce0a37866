#!/usr/bin/env bash
# run_tests.sh PROGRAM...: runs cmocka programs one after the other. Prints one line per program,
# all the output of a program that failed, then why tests were skipped and how many, and last the sum:
#
#   skipped 2: there is no GPU
#   41 passed, 0 failed, 2 skipped
#
# A program that crashes, or does not end within 5 minutes, is one more failure. Exit status 1 if
# anything failed.
set -euo pipefail
export LC_ALL=C # with a locale that is not installed, bash would complain in each test of a script

# Reads a program's TAP output. Prints "passed failed skipped", then the reason of each skipped
# test: what it printed last. The plan, "1..N", tells when tests are missing. Versions of cmocka
# write a skipped test as "not ok 1 # SKIP name", "ok 1 # SKIP name" or "ok 1 - name # SKIP".
# shellcheck disable=SC2016 # $0 is awk's
summary='
/^1\.\.[0-9]+$/   { planned += substr($0, 4); next }
/^(not )?ok [0-9]+ (# SKIP |.* # SKIP$)/ {
  reasons[skipped++] = reason == "" ? "no reason is given" : reason
  reason = ""
  next
}
/^ok [0-9]/       { passed++; reason = ""; next }
/^not ok [0-9]/   { failed++; reason = ""; next }
                  { reason = $0 }
END {
  if (passed + failed + skipped < planned || (status != 0 && !failed)) failed++
  print passed + 0, failed + 0, skipped + 0
  for (i = 0; i < skipped; i++) print reasons[i]
}'

passed=0 failed=0 skipped=0 reasons=''
for program in "$@"; do
  status=0
  output=$(CMOCKA_MESSAGE_OUTPUT=tap timeout 300 "$program" 2>&1 </dev/null) || status=$?
  { read -r p f s; skips=$(cat); } < <(awk -v status="$status" "$summary" <<<"$output")
  echo "$(basename "$program"): $p passed, $f failed, $s skipped"
  if [ "$f" != 0 ]; then
    # shellcheck disable=SC2001 # a line's start is what sed is for
    sed 's/^/  | /' <<<"$output"
    echo "  exit status $status$([ "$status" != 124 ] || echo ', stopped after 5 minutes')"
  fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  [ -z "$skips" ] || reasons+=$skips$'\n'
done
printf %s "$reasons" | sort | uniq -c | sort -rn | sed -E 's/^ *([0-9]+) /skipped \1: /'
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
