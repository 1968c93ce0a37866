#!/usr/bin/env bash
# check_all.sh CHECK...: runs targets of the Makefile one after the other, each with its settings,
# as in "test SANITIZE=1". Prints one line per check: the minutes that it took and the last line of
# its output; all its output if it failed. The sum comes last. Exit status 1 if anything failed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 1' INT TERM HUP

duration() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

passed=0 failed=0
for check in "$@"; do
  start=$SECONDS
  read -ra words <<<"$check"
  if make WERROR=1 "${words[@]}" >"$log" 2>&1 </dev/null; then
    verdict=ok passed=$((passed + 1))
  else
    verdict=FAILED failed=$((failed + 1))
    sed 's/^/  | /' "$log"
  fi
  printf '%-6s  %5s  make %-21s  %s\n' $verdict "$(duration $((SECONDS - start)))" "$check" \
    "$(tail -n 1 "$log")"
done
echo "$passed checks passed, $failed failed, in $(duration $SECONDS) minutes"
[ $failed = 0 ]
