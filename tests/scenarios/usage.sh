# Tests that every program says what is wrong with its command line, prints its help, and reports if
# standard output fails. tests/test_options.c tests the rules for values, letters and arguments.

# Each line has a program, its message, and the arguments that the program refuses.
cat >wrong <<'END'
mlp-train|unknown option '--bogus'|--bogus
mlp-train|unexpected argument 'stray'|stray
mlp-digits|--train-rows must be a whole number from 1 to 1000000000, not '0'|--train-rows 0
mlp-digits|unexpected argument 'more'|more
mlp-lab|name a topic|
mlp-lab|unexpected argument 'all'|list reduce all
mlp-lab|--rung needs one topic|all --rung online
mlp-lab|'list' does not take options|list --check
mlp-lab|unknown topic 'nonsense'|nonsense --from lab-h200.json
mlp-lab|no rung 'nonsense'|softmax --rung nonsense --from lab-h200.json
mlp-lab|no problem 'nonsense': 'mlp-lab list reduce'|reduce --problem nonsense --from lab-h200.json
mlp-lab|--from shows what was recorded|softmax --check --from lab-h200.json
mlp-bench|--epochs must be a whole number from 1 to 1000, not '0'|--epochs 0
mlp-bench|--batches must be at most 8 whole numbers from 1 to 65536, separated by commas, not '64,'|--batches 64,
mlp-bench|not '1,2,3,4,5,6,7,8,9'|--batches 1,2,3,4,5,6,7,8,9
mlp-bench|unexpected argument 'extra'|extra
mlp-bench|are the same file|--json a --plot a
END
cp "$TOP"/docs/results/lab-h200.json .
touch before out err
echo * >before

for program in mlp-train mlp-digits mlp-lab mlp-bench; do
  case_ $program
  MLP=$PROGRAMS/$program
  sanitized || (ulimit -s 1000 && refuses 1 'a stack of 1000 KiB is too small: ')
  prints 1 "^$program [0-9]+\.[0-9]+\.[0-9]+$" --version
  printed 1 ''
  prints 1 "^Usage: $program " --help
  printed 0 '^.{81}' # lines fit in any terminal
  STDOUT=/dev/full fails 1 'No space left' --help
  refusals 2 < <(sed -n "s/^$program|//p" wrong)
  case $program in
  mlp-train)
    said "Try '$MLP --help'."
    sanitized || (ulimit -s 1024 && ok $T --epochs 1 --threads 2)
    ;;
  mlp-lab)
    prints 1 '^Usage: mlp-lab TOPIC' softmax --help
    { sleep 0.1 && "$MLP" all --from lab-h200.json 2>err || echo $? >out; } | true # ends early, like `| head`
    [ "$(cat err out)" = 141 ]
    ;;
  esac
done

case_ 'no file was made'
echo * | diff before -

case_ 'groff has nothing to say of the manuals, and names are completed'
made=$PROGRAMS
[ -f "$made/mlp-train.1" ] || made=$PROGRAMS/build
for page in "$made"/mlp-*.1; do
  : >err
  ! command -v groff >out || groff -man -ww -Tutf8 -z "$page" 2>err
  [ ! -s err ] || die "$page: $(cat err)"
done
MLP=$PROGRAMS/mlp-train
# shellcheck source=/dev/null
. "$TOP/src/cli/mlp.bash"
_mlp "$MLP" --lr
[ "${COMPREPLY[*]}" = '--lr --lr-decay --lr-schedule' ]
