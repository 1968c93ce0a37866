# Tests that a summary of the rows is printed, logged, saved and compared, and that remarks give advice.
N=${T% --train *}
A='--device cpu --load net.st'
# side SIDE COUNT [FIRST] prints COUNT rows: a label and SIDE x SIDE pixels. The picture's column 2 * label is bright.
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
# map AWK FILE prints FILE with each pixel replaced by the value of the expression AWK, in which p is the pixel.
map() { awk -F, -v OFS=, "{ for (i = 2; i <= NF; i++) { p = \$i; \$i = $1 } print }" "$2"; }

case_ 'what was read is printed, logged and saved'
ok $S --log run.jsonl --save net.st
printed 1 '^data     square.csv: 400 rows, 4 classes, pixels 0 to 255, resident$'
printed 1 '^data     judge.csv: 100 rows$'
printed 0 '^note'
[ "$(value role run.jsonl | xargs)" = 'train test' ]
[ "$(value greatest run.jsonl | xargs)" = '255 255' ]
header net.st | grep -qF '\"rows\": 400, \"columns\": 65, \"inputs\": 64, \"header\": false'

case_ 'the column of the label is kept with the run'
awk -F, -v OFS=, '{ l = $1; for (i = 1; i < NF; i++) $i = $(i + 1); $NF = l; print }' square.csv >last.csv
ok $S --test none --epochs 2 --train last.csv --label-column last --save kept.st
ok $S --test none --epochs 3 --save first.st
ok --resume kept.st --epochs 3
same_network kept.st first.st
ok --load kept.st --device cpu --evaluate --test last.csv
grep '^loss .* of 400 rows' out >of_last
ok --load kept.st --device cpu --evaluate --test square.csv --label-column 1
grep '^loss' out | same of_last -
ok --load kept.st --device cpu --predict judge.csv --label-column 1 --output judged.csv
ok --load kept.st --device cpu --predict <(cut -d, -f2- judge.csv) --output bare_judged.csv
same judged.csv bare_judged.csv

case_ "MNIST's test rows are not those of another file"
mkdir data
cp judge.csv data/mnist_test.csv
fails 1 'there is no test file: --validation 0.1 judges by a tenth of the rows of square.csv' $N --train square.csv
cp square.csv data/mnist_train.csv
prints 1 '^data     data/mnist_test.csv: 100 rows$' $N --classes 4 --train data/mnist_train.csv --epochs 1
ok $A --evaluate # evaluates the test rows of the run
printed 1 ' of 100 rows$'
ok $N --classes 4 --train square.csv --validation 0.2 --save held.st --epochs 1
fails 1 'held.st does not say which rows test it: name a file with --test' --device cpu --load held.st --evaluate

case_ 'rows that are sorted by label are trained on in random order'
sort -t, -sk1,1n square.csv >sorted.csv
prints 1 '^note     sorted.csv: sorted by label: epoch 1 waits for all rows, and mixes them$' \
  $S --train sorted.csv --save sorted.st
awk "BEGIN { exit !($(value test_accuracy sorted.st) >= $(value test_accuracy net.st) - 0.001) }"
ok $S --train sorted.csv --seeds 2 --log seeds.jsonl
[ "$(value test_accuracy seeds.jsonl | sed -n 3p)" = "$(value test_accuracy sorted.st)" ]
prints 1 '^note     sorted.csv: sorted by label, and streamed in that order: mix the lines with shuf$' \
  $S --train sorted.csv --resident no
[[ $(sed -n 5p out) = 'note     sorted.csv: '* ]] # it is printed before the first epoch ends

case_ 'a label in several columns, or none of its classes, is seen'
awk -F, -v OFS=, '{ for (i = 0; i < 4; i++) printf "%d,", i == $1; $1 = ""; print substr($0, 2) }' square.csv >hot.csv
sed 's/^\(.,.,.,.\),\(.*\)/0,\2,\1/' hot.csv >hot_last.csv
fails 1 'hot.csv: the first 4 columns hold a single 1, a one-hot label: write the number' $S --train hot.csv
fails 1 'hot_last.csv: the last 4 columns hold a single 1' $S --train hot_last.csv
prints 1 '^note     square.csv: labels 4 to 9 do not occur: ' $S --classes 10
for file in square judge; do sed 's/$/,0,0,0/' $file.csv >wide_$file.csv; done
prints 1 '^note     wide_square.csv: 67 pixels are not a square: 3 columns too many for 8 x 8' \
  $S --train wide_square.csv --test wide_judge.csv

case_ 'rows of another scale are seen'
map 'int(p / 16)' judge.csv >16.csv
map '(p > 127)' judge.csv >01.csv
map '255 - p' judge.csv >inverted.csv
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

case_ 'rows that were trained on are seen'
ln square.csv link.csv
for file in square.csv link.csv; do
  prints 1 "^note     $file: these are the training rows: --validation 0.1 holds rows out$" $S --test $file
done
cp square.csv copy.csv
prints 1 '^note     copy.csv: these are the training rows' $A --evaluate --test copy.csv
prints 1 '^note     square.csv: these are the training rows' $S --validation 0.2 --test square.csv

case_ 'labels may be words' # --names lists the words
for file in square judge; do
  sed 's/^0,/Ant,/; s/^1,/bee,/; s/^2,/cat,/; s/^3,/d\xc3\xbcck,/' $file.csv >$file.body
  { echo "label,$(seq -s, 0 63)" && cat $file.body; } >words_$file.csv
done
W="$S --train words_square.csv --test words_judge.csv"
ok $W --names $'Ant,bee,cat,d\xc3\xbcck' --save words.st
same_network words.st net.st
prints 1 '  cat$' --device cpu --load words.st --evaluate
fails 1 "words_square.csv, line 2, column 1: 'Ant' is not a label from 0 to 3: --names lists" $W
fails 1 'square.body, line 1: a word before numbers is no header' $S --train square.body

case_ 'a run that learns nothing says so'
prints 1 '^note     epoch 1 is no better than one answer to all rows: try a lower --lr, or a larger' $S --lr 50
prints 0 '^note' $S

case_ 'what is sought elsewhere is said'
printf '[training]\nbatch = 32 # rows\n' >inline.conf
prints 1 '^batch = 32$' --config inline.conf --dry-run
