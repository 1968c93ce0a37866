# Numbers at their limits: learning rates that are huge, steps of one row and of more than there are,
# rows of one kind. Each run ends as expected, or with one sentence. tests/test_engine_cpu.c asks the
# CPU engine.

# 300 rows in a step make one step an epoch, which multiplies each weight by -99.
wild="$T --batch 300 --lr 100 --lr-decay 1 --weight-decay 1 --momentum 0 --epochs 1000"

case_ 'a loss that is not a number leaves the last good network'
for resident in yes no; do
  fails 1 'try a lower --lr; saved.st holds the network of epoch ' $wild --resident $resident \
    --save saved.st
  printed 0 '^epoch .*(nan|inf)'
  printed 0 '^total '
  epochs=$(grep -c '^epoch ' out) epoch=$(value best_epoch saved.st)
  said " epoch $((epochs + 1)): try" # the one in which it happened
  said "holds the network of epoch $epoch"
  ok --load saved.st --device cpu --evaluate --test test.csv # its numbers are finite
  fails 1 'try a lower --lr' $wild --resident $resident
  grep -q -- '--lr$' err
done

case_ 'any batch uses every row'
for batch in 1 299 300 301 65536; do
  ok $T --epochs 1 --batch $batch --save resident.st --log rows$batch.csv
  grep -q '^1,.*,300,50' rows$batch.csv
  ok $T --epochs 1 --batch $batch --resident no --save streamed.st
  same_network resident.st streamed.st
done

