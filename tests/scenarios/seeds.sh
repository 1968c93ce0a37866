# Tests --seeds: networks that differ only in their seed train at the same time if there are enough threads.
S="$T --threads 3 --lr 0.01 --epochs 2"

case_ 'it says what runs of those seeds say'
for seed in 5 6 7 8; do ok $S --seed $seed --log $seed.jsonl; done
ok $S --seed 5 --seeds 4 --log all.jsonl --plot all.png --save all.st
is_png all.png
printed 4 '^network  seed [5-8]  test-loss .* wrote all-[5-8].st$'
for key in seed test_loss test_accuracy; do
  same <(value $key all.jsonl) <(for seed in 5 6 7 8; do value $key $seed.jsonl; done)
done
for seed in 5 6 7 8; do value test_accuracy $seed.jsonl | tail -n 1; done | sort -g | awk '
  { v[NR] = 100 * $1; mean += v[NR] / 4 }
  END {
    for (i in v) squares += (v[i] - mean) ^ 2
    printf "acc %.2f%% ± %.2f (s.d. of 4 seeds), from %.2f%% to %.2f%%", mean, sqrt(squares / 3), v[1], v[4]
  }' >line
grep -qF "$(cat line)" out || die "no '$(cat line)' in $(cat out)"
mv out alone
ok $S --seed 6 --save one.st
same_network one.st all-6.st
ok $S --threads 1 --seed 5 --seeds 4 --save all.st
diff <(grep -E '^(network  seed|test)' alone) <(grep -E '^(network  seed|test)' out)

case_ 'validation rows judge them'
prints 1 '^val-acc [0-9.]+% ± [0-9.]+ \(s.d. of 2 seeds\),' $S --validation 0.2 --seeds 2

case_ 'ranks share them out'
if with_ranks; then
  RANKS=2 ok $S --seed 5 --seeds 4 --log ranks.jsonl --plot ranks.png
  grep -qF "$(cat line)" out
  is_png ranks.png
  for key in device_in_use seed test_loss; do same <(value $key all.jsonl | sort) <(value $key ranks.jsonl | sort); done
fi

case_ 'those on a GPU that train at once are the same however many they are'
gpu="${S/--device cpu/} --hidden 8,4 --seed 5"
ok $gpu --seeds 4
if ! grep -q '^fusion .* in each cluster' out; then
  skip_ 'there is no GPU of compute capability 9.0'
else
  printed 1 '^at once  4 networks$'
  grep -E '^network  seed [56] ' out >two
  ok $gpu --seeds 2
  grep '^network  seed' out | same two -
fi

case_ 'networks that train at once have the bits of a run alone' # but for two hidden layers of at most 300 and 100
digits 9000 100 # more rows than a staging buffer has
for more in '--batch 64 --dropout 0.3' '--batch 100'; do
  alone="${S/--device cpu/} --train digits_train.csv --test digits_test.csv --classes 10 --hidden 32 $more"
  ok $alone --seed 5 --seeds 2 --save both.st
  ok $alone --seed 6 --save alone.st
  same_network alone.st both-6.st
done

case_ 'fewer train at once where addresses are few' # stacks and arenas of threads take addresses, too
if sanitized; then
  skip_ 'a sanitizer needs more address space than a limit leaves'
else
  digits 700 10
  all="--device cpu --train digits_train.csv --test digits_test.csv --hidden 64 --seeds 8 --threads 8 --epochs 2"
  ok $all
  grep '^network' out >free
  for limit in 600000 400000; do
    (ulimit -v $limit && ok $all)
    grep '^network' out | same free -
  done
fi

case_ 'what it cannot do is refused'
refuses 2 'add --validation 0.1, or --save to keep the networks' $S --seeds 2 --test none
refuses 2 '--seeds 2 starting at --seed 4294967295 would go past' $S --seeds 2 --seed 4294967295
fails 1 '--train can be read only once, but each of 2 networks reads it: give it a file' \
  $S --seeds 2 --train <(cat train.csv)

case_ 'networks may train on all rows, for a committee'
ok $S --seeds 2 --test none --save all.st
printed 2 '^network  seed [12]  train-loss [0-9.]+  train-acc [0-9.]+%  wrote all-[12].st$'
printed 1 '^train-acc [0-9.]+% '
ok $S --seed 2 --test none --save second.st
same_network all-2.st second.st
