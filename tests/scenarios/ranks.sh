# Tests runs of several ranks, started by mpirun, on the CPU and, if there are two GPUs, on GPUs. Ranks
# must train the same network as one process.
digits 389 61 # 14 steps per epoch; the last step has 12 rows
D='--device cpu --threads 1 --hidden 24,17 --batch 29 --weight-decay 0.01 --lr-schedule constant
  --train digits_train.csv --test digits_test.csv'
floats=19445

# parameters FILE prints the parameters of a checkpoint, one per line.
parameters() {
  tail -c +$((9 + $(header_size $1))) $1 | head -c $((4 * floats)) | od -An -v -w4 -tf4
}
# near FILE OTHER [LIMIT] checks that the relative difference of the parameters is below LIMIT (default
# 2e-5, for rounding in 56 steps). A wrong sum or row would make a difference of 1e-2.
near() {
  paste <(parameters $1) <(parameters $2) | awk -v limit=${3:-2e-5} '
    { difference += ($1 - $2) ^ 2; norm += $2 ^ 2 }
    END {
      error = sqrt(difference / norm)
      if (error < limit && NR == '$floats') exit 0
      print "the relative error is " error
      exit 1
    }' || die "$1 is not $2"
}

case_ 'a record of ranks shows how they scale'
"$TOP/scripts/scaling.sh" "$TOP/docs/results/scaling-cpu.json" >out
printed 1 '1024.2.200\.98.1\.83.-$'
printed 1 '512.2.208\.903.-.0\.55$'
printed 1 '^784-300-100-10.fp32.1024.0\.09$'
# a fifth of the work is serial: 100 ms on one rank, 20 + 80 / n on n
for ranks in 1:100 2:60 4:40 8:30; do
  printf '{"who":"mlp-train","network":"784-9-10","precision":"fp32","batch":64,"ranks":%d,"rows":9,"ms":%d}\n' \
    "${ranks%:*}" "${ranks#*:}"
done >fifth.json
"$TOP/scripts/scaling.sh" fifth.json >out
printed 1 '^784-9-10.fp32.64.0\.20$'

case_ 'ranks say the same to each other' # test_ranks.c tests this
with_ranks || exit 0
ranks_alone=$PROGRAMS/test_ranks
[ -x "$ranks_alone" ] || ranks_alone=$PROGRAMS/build/test_ranks
for ranks in 2 3 4; do MLP=$ranks_alone RANKS=$ranks prints 0 '' worker; done

case_ 'ranks train what one process trains'
ok $D --epochs 4 --save alone
for ranks in 1 2 3 4; do
  RANKS=$ranks ok $D --epochs 4 --save net
  printed 4 '^epoch +[1-4]/4 ' # only one rank prints; no progress bars, although mpirun gives it a terminal
  [ $ranks = 1 ] || printed 0 '%\]|\[K'
  printed $((ranks > 1)) '^device .* ranks'
  near net alone
  awk "BEGIN { exit ($(value test_accuracy net) - $(value test_accuracy alone)) ^ 2 > (1.5 / 61) ^ 2 }"
  [ $ranks != 1 ] || same_network net alone
done
RANKS=4 ok $D --epochs 4 --threads 2 --save again
same_network again net # has the same bits

case_ 'ranks stream'
ok $D --epochs 3 --resident no --save streamed
RANKS=3 ok $D --epochs 3 --resident no --save net
near net streamed

# GPUs and CPUs round differently, so an input of a ReLU may be positive on GPUs and negative on the
# CPU, or the other way round. test_engine_results.c says how much that changes the results.
case_ 'ranks train on GPUs, at every level that takes them'
if with_gpus $D; then
  for level in none layer step; do
    for name in once again; do
      RANKS=$gpus ok $D --device cuda --fusion $level --epochs 4 --save $name
    done
    same_network once again
    near once alone 1e-3
  done
  RANKS=2 prints 1 '^fusion   step: not epoch: .*one alone is faster' $D --device cuda --epochs 1
  RANKS=2 run $D --device cuda --fusion epoch
  said 'level epoch takes one rank'
fi

case_ 'any number of ranks resumes'
RANKS=2 ok $D --epochs 4 --save whole
RANKS=2 ok $D --epochs 2 --save half
RANKS=2 ok --resume half --epochs 4 --save net
same_network net whole
ok --resume half --epochs 4 --save net
near net whole

case_ 'ranks share out networks'
ok $D --epochs 2 --seeds 3 --save e.st
tail -n 1 out >line
RANKS=2 ok $D --epochs 2 --seeds 3 --save r.st
tr -d '\r' <out | tail -n 1 | diff line -
for seed in 1 2 3; do same_network e-$seed.st r-$seed.st; done
RANKS=3 run $D --seeds 2
said '--seeds 2 leaves some of 3 ranks without a network'
