# Numbers at their limits: learning rates that are huge, steps of one row and of more than there are,
# rows of one kind, any number of threads. Each run ends as expected, or with
# one sentence. tests/test_numbers.c asks the CPU engine.

# 300 rows in a step make one step an epoch, which multiplies each weight by -99.
wild="$T --batch 300 --lr 100 --lr-decay 1 --weight-decay 1 --momentum 0 --epochs 1000"

case_ 'a loss that is not a number leaves the last good network'
for resident in yes no; do
  fails 1 'try a lower --lr; saved.st holds the network of epoch ' $wild --resident $resident \
    --save saved.st
  printed 0 '^epoch .*(nan|inf)'
  printed 0 '^total '
  epochs=$(grep -c '^epoch ' out) epoch=$(value epoch saved.st)
  [ $epochs -ge 2 ]
  [ $epochs -le 100 ]
  [ $epoch -ge 1 ]
  [ $epoch -le $epochs ]
  [ "$(value best_epoch saved.st)" = $epoch ]
  said " epoch $((epochs + 1)): try" # the one in which it happened
  grep -q "holds the network of epoch $epoch$" err
  ok --load saved.st --device cpu --evaluate --test test.csv # its numbers are finite
  fails 1 'try a lower --lr' $wild --resident $resident
  grep -q -- '--lr$' err
done

case_ 'any batch uses every row'
for batch in 1 299 300 301 65536; do
  ok $T --epochs 1 --batch $batch --save resident.st
  ok $T --epochs 1 --batch $batch --resident no --save streamed.st
  same_network resident.st streamed.st
  rm -f rows.csv
  ok $T --epochs 3 --batch $batch --log rows.csv
  [ "$(grep -c '^[123],.*,300,50' rows.csv)" = 3 ]
done

case_ 'equal rows are learnt'
for pixel in 0 255; do
  yes "1,$pixel,$pixel,$pixel,$pixel" | head -n 100 >equal.csv || true
  ok $T --train equal.csv --label-column 1 --test equal.csv --epochs 30 --confusion confusion.png \
    --mistakes mistakes.png
  printed 1 '^epoch 30/30  0\.0.* 100\.0%  [^%]*$'
  printed 0 'nan|inf'
done

case_ 'threads change no bit'
digits 150 1
while read -r options; do
  for threads in 1 2 3 7; do
    ok $T --train digits_train.csv --test digits_train.csv --classes 10 --hidden 19,5 --epochs 3 \
      --threads $threads --save $threads.st $options
    same_network 1.st $threads.st
  done
done <<'END'
--augment shift,rotate,scale,elastic
--resident no
--batch 1
END
