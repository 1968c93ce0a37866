# What was read is known: it is printed, logged, saved and compared, and each remark has its cure.
N=${T% --train *}
A='--device cpu --load net.st'
# side SIDE COUNT [FIRST]: prints rows of a label and SIDE x SIDE pixels, one column of them bright.
side() {
  awk -v side="$1" -v count="$2" -v first="${3:-0}" 'BEGIN {
    for (r = first; r < first + count; r++) {
      label = (r * 7919 + int(r / 3) * 104729) % 4
      line = label
      for (i = 0; i < side * side; i++) line = line "," (i % side == label * 2 ? 200 + r % 56 : r * i % 30)
      print line
    }
  }'
}
side 8 400 >square.csv
side 8 100 400 >judge.csv
S="$N --classes 4 --train square.csv --test judge.csv --epochs 3"
# map AWK FILE: prints the rows with $i changed for each pixel.
map() { awk -F, -v OFS=, "{ for (i = 2; i <= NF; i++) $1; print }" "$2"; }

case_ 'what was read is printed, logged and saved'
ok $S --log run.jsonl --save net.st
printed 1 '^data     square.csv: 400 rows, 4 classes, pixels 0 to 255, resident$'
printed 1 '^data     judge.csv: 100 rows$'
printed 0 '^note'
[ "$(value role run.jsonl | xargs)" = 'train test' ]
[ "$(value greatest run.jsonl | xargs)" = '255 255' ]
header net.st | grep -qF '\"rows\": 400, \"columns\": 65, \"inputs\": 64, \"header\": false'

case_ "MNIST's test rows are not those of another file" # row 1
mkdir data
cp judge.csv data/mnist_test.csv
fails 1 'there is no test file: --validation 0.1 judges by a tenth of the rows of square.csv' $N --train square.csv
fails 1 'there is no test file' $N --train square.csv --ensemble 2
cp square.csv data/mnist_train.csv
prints 1 '^data     data/mnist_test.csv: 100 rows$' $N --classes 4 --train ./data/mnist_train.csv --epochs 1
ok $A --evaluate # by the rows that tested the run
printed 1 ' of 100 rows$'
ok $N --classes 4 --train square.csv --validation 0.2 --save held.st --epochs 1
fails 1 'held.st does not say which rows test it: name a file with --test' --device cpu --load held.st --evaluate

case_ 'rows that are sorted by label are trained on in random order' # row 3
sort -t, -sk1,1n square.csv >sorted.csv
prints 1 '^note     sorted.csv: sorted by label: epoch 1 waits for all rows, and mixes them$' \
  $S --train sorted.csv --save sorted.st
awk "BEGIN { exit !($(value test_accuracy sorted.st) >= $(value test_accuracy net.st) - 0.001) }"
ok $S --train sorted.csv --seeds 2 --log seeds.jsonl
[ "$(value test_accuracy seeds.jsonl | sed -n 3p)" = "$(value test_accuracy sorted.st)" ]
prints 1 '^note     sorted.csv: sorted by label, and streamed in that order: mix the lines with shuf$' \
  $S --train sorted.csv --resident no

case_ 'rows of another scale are seen' # row 6
map '$i = int($i / 16)' judge.csv >16.csv
map '$i = $i > 127' judge.csv >01.csv
map '$i = 255 - $i' judge.csv >inverted.csv
while IFS='|' read -r file said; do
  prints 1 "^note     $file: $said" $S --test $file
  prints 1 "^note     $file: $said" $A --evaluate --test $file
  run $A --predict $file
  said "mlp-train: note: $file: $said"
  printed 101 ''
done <<'END'
16.csv|pixels are 0 to 15, in training 0 to 255: multiply them by 17
01.csv|pixels are 0 to 1, in training 0 to 255: multiply them by 255
inverted.csv|the mean pixel is 215, in training 39.5: subtract each from 255
END

case_ 'rows that were trained on are seen' # row 8
ln square.csv link.csv
for file in square.csv link.csv; do
  prints 1 "^note     $file: these are the training rows: --validation 0.1 holds rows out$" $S --test $file
done
cp square.csv copy.csv
prints 1 '^note     copy.csv: these are the training rows' $A --evaluate --test copy.csv
prints 1 '^note     square.csv: these are the training rows' $S --validation 0.2 --test square.csv
