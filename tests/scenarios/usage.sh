# Every program names what is wrong with its command line, prints its help, and says when it cannot.
# tests/test_options.c has the rules of values, letters and arguments.

# has NAME: the words are about this program now; skips the case if it is not built.
has() {
  MLP=$PROGRAMS/$1
  [ -x "$MLP" ] || MLP=$PROGRAMS/build/$1
  [ -x "$MLP" ] || {
    skip_ "$1 is not built"
    return 1
  }
}

# shows_help: of a width that any terminal has; and its version.
shows_help() {
  sanitized || (ulimit -s 1000 && refuses 1 'a stack of 1000 KiB is too small: ')
  ok --version
  printed 1 "^${MLP##*/} [0-9]+\.[0-9]+\.[0-9]+$"
  printed 1 ''
  ok --help
  printed 1 "^Usage: ${MLP##*/} "
  printed 0 '^.{81}'
  STDOUT=/dev/full fails 1 'No space left' --help
}

cp "$TOP"/docs/results/lab-h100.json .
touch before out err
echo * >before

case_ 'mlp-train'
if has mlp-train; then
  shows_help
  refusals 2 <<'END'
unknown option '--bogus'|--bogus
unexpected argument 'stray'|stray
END
  said "Try '$MLP --help'."
  sanitized || (ulimit -s 1024 && ok $T --epochs 1 --threads 2)
fi

case_ 'mlp-digits'
if has mlp-digits; then
  shows_help
  printed 1 '^ *--train-rows N '
  refusals 2 <<'END'
--train-rows must be a whole number from 1 to 1000000000, not '0'|--train-rows 0
--test-rows must be a whole number from 1 to 1000000000, not '-1'|--test-rows -1
unknown option '--rows'|--rows 5
unexpected argument 'more'|more
END
  refuses 2 "--seed must be a whole number from 0 to 18446744073709551615, not ''" --seed ''
fi

case_ 'mlp-lab'
if has mlp-lab; then
  shows_help
  ok softmax --help
  printed 1 '^Usage: mlp-lab TOPIC'
  refusals 2 <<'END'
name a topic|
unexpected argument 'all'|list reduce all
--rung needs one topic|all --rung online
'device' does not take options|device --check
unknown topic 'nonsense'|nonsense --from lab-h100.json
no rung 'nonsense'|softmax --rung nonsense --from lab-h100.json
no problem 'nonsense'; it has |reduce --problem nonsense --from lab-h100.json
--plot cannot be combined with --check|softmax --check --plot x.png --from lab-h100.json
--from shows what was recorded|softmax --check --from lab-h100.json
same file|all --markdown lab-h100.json --from lab-h100.json
END
fi

case_ 'mlp-lab, built with CUDA'
if has mlp-lab; then
  run list
  if [ ! -s out ]; then
    skip_ 'mlp-lab was built without CUDA'
  else
    refusals 2 <<'END'
unknown topic 'nonsense'|nonsense
unknown topic 'nonsense'|list nonsense
--size of softmax must be 'rows x width'|softmax --size 5
'cublas' is not of the problem 'bf16'|matmul --problem bf16 --rung cublas
END
  fi
fi

case_ 'mlp-bench'
if has mlp-bench; then
  shows_help
  refusals 2 <<'END'
unknown option '--nonsense'|--nonsense
--epochs must be a whole number from 1 to 1000, not '0'|--epochs 0
--batches must be whole numbers from 1 to 65536, not ''|--batches 64,
--batches must be numbers separated by commas, not '64:5'|--batches 64:5
--batches takes at most 8 numbers|--batches 1,2,3,4,5,6,7,8,9
unexpected argument 'extra'|extra
run mlp-bench twice|--trace a --json b
no use for --from|--trace a --from b
are the same file|--trace a --timeline ./a
END
fi

case_ 'mlp-scaling'
if has mlp-scaling; then
  shows_help
  refusals 2 <<'END'
unknown option '--json'|--json a
unexpected argument 'a'|a b c
--from, --markdown and --plot are needed, all three|--from a --plot b
are the same file|--from lab-h100.json --markdown lab-h100.json --plot b
END
  refuses 1 'cannot open none.json' --from none.json --markdown a --plot b
  ok --from "$TOP"/docs/results/scaling-cpu.json --markdown scaling.md --plot scaling.png
  same scaling.md "$TOP"/docs/results/scaling-cpu.md
  is_png scaling.png
  rm scaling.md scaling.png
fi

case_ 'no file was made'
echo * | diff before -
