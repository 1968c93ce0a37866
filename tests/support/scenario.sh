#!/usr/bin/env bash
# scenario.sh FILE runs a scenario and prints TAP. A scenario is a shell script that tests programs
# from outside: it runs commands and checks their output, files and exit codes.
#
# A scenario runs in a new folder with train.csv (300 rows of two pixels) and test.csv (50 rows). A
# case begins with `case_ 'what is true'` and ends where the next case begins. The first case that
# fails prints the reason and ends the scenario. A scenario uses these functions:
#
#   run ARGUMENT...            runs mlp-train. Sets $status. Standard output goes to the file out (or
#                              $STDOUT), standard error to the file err
#   ok ARGUMENT...             like run; the run must succeed and print nothing on standard error
#   prints COUNT REGEX ARG...  like ok; COUNT lines of the output must match
#   fails STATUS TEXT ARG...   like run; the run must exit with STATUS and print one line with TEXT on
#                              standard error. With STATUS 2 a line with "Try ... --help" must follow
#   refuses STATUS TEXT ARG... like fails; the run must print nothing on standard output
#   refusals STATUS ARG...     calls refuses for each line TEXT|ARGUMENTS of standard input; the line's
#                              ARGUMENTS follow ARG...
#   start ARGUMENT...          like run, but in the background. Sets $pid
#   until_ COMMAND...          waits until the command succeeds; fails if the background run ends first
#   printing COUNT REGEX       waits until COUNT lines of the background run's output match
#   finish                     waits for the end of the background run
#   interrupt SIGNAL TEXT      sends the signal to the background run, which must end soon and print a
#                              line with TEXT
#   said TEXT                  checks that the last run printed TEXT on standard error
#   printed COUNT REGEX        checks that COUNT lines of the last run's output match
#   same FILE FILE             checks that both files have the same bytes
#   absent FILE...             checks that none of the files exists
#   digits TRAIN TEST          writes TRAIN rows to digits_train.csv and TEST rows to digits_test.csv
#   value KEY FILE             prints each value of KEY in a checkpoint or log, one per line
#   network FILE               prints the tensors and accuracies of a checkpoint
#   same_network FILE FILE     checks that both checkpoints have the same tensors and accuracies
#   is_png FILE...             checks that all of the files are PNG files
#   with_header TEXT           prints a checkpoint with header TEXT and the data of standard input
#   edit SED FROM TO           copies a checkpoint; the sed script edits its header, one line of JSON
#   with_ranks                 true if RANKS=N (see below) works here; otherwise skips the case
#   process_of RANK            prints the process id of a rank of the background run
#   with_gpus ARGUMENT...      runs the program with these arguments. True if it has CUDA and there are
#                              two or more GPUs; sets $gpus to 4 or fewer. Otherwise skips the case
#   sanitized [NAME]           true if the program was built with a sanitizer (asan or tsan)
#   holds FOLDER NAME...       checks that the folder has these entries, in order, and no others
#   rows COUNT [BAD]           prints CSV rows of two pixels; the label in line BAD is too large
#   skip_ REASON               skips the case: `if ...; then skip_ 'no GPU'; else COMMANDS; fi`
#   die TEXT                   makes the case fail; TEXT is the reason
#
# $T holds the options of a run that trains on train.csv and test.csv in a millisecond. $TOP is the
# top folder of the checkout, $PROGRAMS the folder of the programs. $MLP is the program that `run`
# starts; a scenario may change it. RANKS=N before `run`, or before a function that calls it, makes
# mpirun start N processes of the program.
set -Eeuo pipefail
export LC_ALL=C

TOP=$(cd "$(dirname "$0")/../.." && pwd)
scenario=$(realpath "$1")
PROGRAMS=$(cd "${PROGRAMS:-$TOP}" && pwd)
MLP=$PROGRAMS/mlp-train
RANKED=$TOP/tests/support/mpirun.sh
T='--device cpu --threads 1 --classes 2 --hidden 4 --batch 8 --lr 0.05 --train train.csv --test test.csv'
number=0 case_now='' status=0
export TOP PROGRAMS MLP T

case_() {
  [ -z "$case_now" ] || echo "ok $number - $case_now"
  case_now=$1 number=$((number + 1))
}
skip_() {
  echo "$1"
  echo "ok $number # SKIP $case_now"
  case_now=''
}
die() {
  echo "$*" >&2
  exit 1
}
run() {
  status=0
  ${RANKS:+"$RANKED" $RANKS} "$MLP" "$@" >"${STDOUT:-out}" 2>err </dev/null || status=$?
}
ok() {
  run "$@"
  if [ "$status" != 0 ] || [ -s err ]; then die "$*: exit code $status, $(cat err)"; fi
}
prints() {
  ok "${@:3}"
  printed "$1" "$2"
}
said() { grep -qF -e "$1" err || die "'$(cat err)' does not say '$1'"; }
failed() { # STATUS TEXT: the checks of the last run that fails and interrupt share
  [ "$status" = "$1" ] || die "exit code $status, not $1: $(cat err)"
  said "$2"
  [[ $(<err) = "${MLP##*/}: "* ]] || die "$(cat err)"
  [ "$(grep -vc "^Try '.*--help'\.$" err)" = 1 ] || die "$(cat err)"
  [ -z "$(tr -d '\n -~' <err)" ] || die "not printable: $(cat -v err)"
  [ "$1" != 2 ] || [ "$(wc -l <err)" = 2 ] || die "$(cat err)"
}
fails() {
  run "${@:3}"
  (failed "$1" "$2") || die "${*:3}"
}
refuses() {
  fails "$@"
  [ ! -s out ] || die "$*: it printed $(cat out)"
}
refusals() {
  local text words
  while IFS='|' read -r text words; do
    read -ra words <<<"$words"
    refuses "$1" "$text" "${@:2}" "${words[@]}"
  done
}
start() {
  : >out
  env --default-signal=INT,TERM,HUP,QUIT ${RANKS:+"$RANKED" $RANKS} "$MLP" "$@" >"${STDOUT:-out}" 2>err </dev/null &
  pid=$!
}
until_() {
  until "$@"; do
    kill -0 "$pid" 2>/dev/null || die "it ended: $(cat err)"
    sleep 0.01
  done
}
has_printed() { [ "$(grep -cE -e "$2" out)" -ge "$1" ]; }
printing() { until_ has_printed "$@"; }
finish() {
  status=0
  wait "$pid" 2>/dev/null || status=$? # bash would print that it was killed
}
interrupt() {
  local since=$SECONDS
  kill -"$1" "$pid"
  finish
  [ $((SECONDS - since)) -le 20 ] || die "it took $((SECONDS - since)) seconds to end"
  failed $((128 + $(kill -l "$1"))) "$2"
}
printed() {
  local count
  count=$(grep -cE -e "$2" out) || true
  [ "$count" = "$1" ] || die "$count lines match $2, not $1: $(cat out)"
}
same() { cmp "$1" "$2" || die "$1 is not $2"; }
absent() {
  local file
  for file; do [ ! -e "$file" ] || die "$file exists"; done
}
digits() {
  "$PROGRAMS/mlp-digits" --train-rows "$1" --test-rows "$2" --output-dir . >out
}
header_size() { od -An -tu8 -N8 "$1"; }
header() { head -c $((8 + $(header_size "$1"))) "$1" | tail -c +9; }
value() { grep -aoE "\"$1\": *[^,}]*" "$2" | sed -E 's/^[^:]*: *"?//; s/"$//'; }
network() {
  grep -oE '"(test_accuracy|best_accuracy|best_epoch)":"[^"]*"' < <(header "$1")
  tail -c +$((9 + $(header_size "$1"))) "$1"
}
same_network() { cmp <(network "$1") <(network "$2") || die "$1 is not the network of $2"; }
with_header() {
  printf '%b\0\0\0\0\0' "$(printf '\\x%02x' $((${#1} % 256)) $((${#1} >> 8 & 255)) $((${#1} >> 16)))"
  printf %s "$1"
  cat
}
edit() {
  local text
  text=$(header "$2" | sed "$1")
  printf -v text '%-*s' $(((${#text} + 7) / 8 * 8)) "$text" # tensors must begin at a multiple of 8 bytes
  with_header "$text" < <(tail -c +$((9 + $(header_size "$2"))) "$2") >"$3"
}
is_png() {
  local file
  for file; do [ "$(head -c 4 "$file" | tail -c 3)" = PNG ] || die "$file is not a PNG"; done
}
sanitized() { grep -qE "__${1:-[at]san}_init" "$MLP"; }
holds() {
  local there
  there=$(find "$1" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort | paste -sd ' ')
  [ "$1${there:+ $there}" = "$*" ] || die "$1 holds '$there'"
}
with_ranks() {
  local why=''
  if ! command -v mpirun >out; then
    why='there is no mpirun'
  elif [ ! -e "$PROGRAMS/libmlp-ranks.so" ] && [ ! -e "$PROGRAMS/build/libmlp-ranks.so" ]; then
    why='this was built without MPI'
  elif sanitized tsan; then
    why='ThreadSanitizer does not know what MPI does'
  fi
  [ -z "$why" ] || {
    skip_ "$why"
    return 1
  }
}
process_of() {
  local folder line
  for folder in /proc/[0-9]*; do
    { read -r line <"$folder/stat"; } 2>/dev/null || continue
    [[ ${line##*) } = ?" $pid "* ]] || continue # a child of mpirun
    ! grep -qsz "^OMPI_COMM_WORLD_RANK=$1$" "$folder/environ" || echo "${folder#/proc/}"
  done
}
with_gpus() {
  gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU') || true
  [ -z "${CUDA_VISIBLE_DEVICES+set}" ] || gpus=$(wc -w <<<"${CUDA_VISIBLE_DEVICES//,/ }")
  [ "$gpus" -le 4 ] || gpus=4
  run "$@" --device cuda --epochs 1
  if [ "$gpus" -lt 2 ] || grep -q 'built without CUDA' err; then
    skip_ 'there are no two GPUs'
    return 1
  fi
}
rows() {
  awk -v count="$1" -v bad="${2:-0}" 'BEGIN {
    for (seed = row = 1; row <= count; row++) {
      seed = (seed * 16807) % 2147483647
      a = seed % 256
      print (row == bad ? 99 : a >= 128) "," a "," (a >= 128 ? a - 100 : a + 100)
    }
  }'
}

folder=$(mktemp -d)
touch "$folder/stand_in" && chmod +x "$folder/stand_in"
[ -x "$folder/stand_in" ] || { # if programs may not run in /tmp
  rm -r "$folder"
  folder=$(mktemp -d -p "$TOP/build")
}
rm -f "$folder/stand_in"
ended() {
  local code=$?
  for signal in TERM KILL; do # TERM first: mpirun needs time to end its ranks
    [ -z "$(jobs -pr)" ] || { jobs -pr | xargs kill -$signal && sleep 1; }
  done 2>/dev/null || true
  if [ -n "$case_now" ] && [ $code = 0 ]; then echo "ok $number - $case_now"; fi
  [ $code = 0 ] || echo "not ok $number - ${case_now:-before the first case}"
  [ $code != 0 ] || echo "1..$number"
  cd /
  rm -rf "$folder"
}
trap ended EXIT
trap 'echo "line $LINENO of ${BASH_SOURCE[0]}: $BASH_COMMAND" >&2' ERR
cd "$folder"
rows 300 >train.csv
rows 50 >test.csv
# shellcheck source=/dev/null
. "$scenario"
