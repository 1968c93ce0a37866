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
ok $N --classes 4 --train square.csv --validation 0.2 --save held.st --epochs 1 --lr 0.005
judged=$(awk "BEGIN { printf \"%.2f%%\", 100 * $(value best_accuracy held.st) }")
prints 1 '^note     square.csv: the validation rows of the run$' --device cpu --load held.st.best --evaluate --mistakes held.png
printed 1 " $judged  wrong [0-9]+ of 81 rows$"
is_png held.png
ok $N --classes 4 --train square.csv --test none --save all.st --epochs 1
fails 1 'all.st does not say which rows test it: name a file with --test' --device cpu --load all.st --evaluate

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
prints 1 '^note' $S --train sorted.csv --resident no --lr 50 # a lower --lr is no cure here

case_ 'a label in several columns, or none of its classes, is seen'
awk -F, -v OFS=, '{ for (i = 0; i < 4; i++) printf "%d,", i == $1; $1 = ""; print substr($0, 2) }' square.csv >hot.csv
sed 's/^\(.,.,.,.\),\(.*\)/0,\2,\1/' hot.csv >hot_last.csv
fails 1 'hot.csv: the first 4 columns hold a single 1, a one-hot label: write the number' $S --train hot.csv
fails 1 'hot_last.csv: the last 4 columns hold a single 1' $S --train hot_last.csv
prints 1 '^note     square.csv: labels 4 to 9 do not occur: --classes is 10, --label-column says where labels are$' $S --classes 10
for file in square judge; do sed 's/$/,0,0,0/' $file.csv >wide_$file.csv; done
prints 1 '^note     wide_square.csv: 67 pixels are not a square: 3 columns too many for 8 x 8' \
  $S --train wide_square.csv --test wide_judge.csv
for file in square judge; do sed 's/$/,0/' $file.csv >wide_$file.csv; done
prints 1 ': 65 pixels are not a square: 1 column too many for 8 x 8' $S --train wide_square.csv --test wide_judge.csv

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
ok $S --validation 0.2 --test none --save part.st # the counts of a part are not those of the file
mkdir elsewhere
cp square.csv elsewhere/copy.csv
for file in square.csv link.csv elsewhere/copy.csv; do
  prints 1 "^note     $file: these are the training rows: 80% of them were trained on, the rest were held out$" \
    --device cpu --load part.st --evaluate --test $file
done
prints 0 '^note' --device cpu --load part.st --evaluate --test judge.csv
edit 's/\\"mean\\": [0-9.]*/\\"mean\\": 40/' part.st cut.st # as if the run had been interrupted in epoch 1
for file in square.csv link.csv; do
  prints 1 "^note     $file: these are the training rows: 80% of them were trained on, the rest were held out" --device cpu --load cut.st --evaluate --test $file
done
cp square.csv moved.csv
ok $S --train moved.csv --validation 0.2 --test none --save moved.st
cat judge.csv judge.csv >moved.csv # the path and the inode are those of the training rows, but the rows are not
prints 0 '^note' --device cpu --load moved.st --evaluate --test moved.csv

case_ 'labels may be words' # --names lists the words
for file in square judge; do
  sed 's/^0,/Ant,/; s/^1,/bee,/; s/^2,/cat,/; s/^3,/d\xc3\xbcck,/' $file.csv >$file.body
  { echo "label,$(seq -s, 0 63)" && cat $file.body; } >words_$file.csv
done
W="$S --train words_square.csv --test words_judge.csv"
ok $W --names $'Ant,bee,cat,d\xc3\xbcck' --save words.st
same_network words.st net.st
prints 1 '  cat$' --device cpu --load words.st --evaluate
prints 1 "^note     words_square.csv: labels are words, sorted: class 0 is 'Ant', class 3 'd" $W --save gathered.st
same_network gathered.st net.st
fails 1 'square.body, line 1: a word before numbers is not a header' $S --train square.body

case_ 'a run that learns nothing says so'
prints 1 '^note     after epoch 1 the network is no better than a constant answer: try a lower --lr, or a larger' $S --lr 50
prints 0 '^note' $S

case_ 'rows whose labels mean something else are doubted'
awk -F, -v OFS=, '{ $1 = ($1 + 1) % 4; print }' judge.csv >moved.csv
prints 1 '^note     after epoch 1 the network is no better than a constant answer: do the labels of moved.csv mean what ' \
  $S --test moved.csv
prints 1 '^note     moved.csv: the network is no better than a constant answer: do the labels mean what they did ' \
  $A --evaluate --test moved.csv
head -99 moved.csv >few.csv # may be chance
ok $A --evaluate --test few.csv
printed 0 'constant answer'
sed 's/^[0-9]/3/' judge.csv >one.csv # of one class, a constant answer gets all
ok $A --evaluate --test one.csv --label-column 1
printed 0 'constant answer'

case_ 'what is sought elsewhere is said'
printf '[training]\nbatch = 32 # rows\n' >inline.conf
prints 1 '^batch = 32$' --config inline.conf --dry-run

# header FIRST LAST prints a header: a label and the pixels FIRST to LAST.
header_of() { echo "label,$(seq -s, -f pixel%g $1 $2)"; }
# by_name FILE prints a file with a header whose columns are sorted by their names, as databases and pandas sort them.
by_name() {
  awk -F, -v OFS=, '
    NR == 1 {
      for (i = 1; i <= NF; i++) { rank[i] = 1; for (j = 1; j <= NF; j++) rank[i] += ($j "") < ($i "") }
      for (i = 1; i <= NF; i++) from[rank[i]] = i
    }
    { line = $from[1]; for (i = 2; i <= NF; i++) line = line "," $from[i]; print line }' "$1"
}
for file in square judge; do
  cat <(header_of 0 63) $file.csv >named_$file.csv
  by_name named_$file.csv >sorted_$file.csv
done
case_ 'columns in another order are put in order' # by their names, for --train, --test, --evaluate, --predict and --resume
[[ $(head -n 1 sorted_judge.csv) = label,pixel0,pixel1,pixel10,pixel11,* ]]
N1="${S/--train square.csv --test judge.csv/--train named_square.csv}"
order='note     sorted_judge.csv: its columns are'
prints 1 "^$order not in the order of the training rows: put into that order" $N1 --test sorted_judge.csv --save named.st
same_network named.st net.st
for net in net named; do # net.st was trained on rows without a header
  ok --load $net.st --device cpu --evaluate --test judge.csv
  grep '^loss' out >right
  prints 1 "^$order" --load $net.st --device cpu --evaluate --test sorted_judge.csv
  grep '^loss' out | same right -
  ok --load $net.st --device cpu --predict judge.csv --output right.csv
  ok --load $net.st --device cpu --predict sorted_judge.csv --output answers.csv
  printed 1 "^$order"
  same answers.csv right.csv
  ok --load $net.st --device cpu --predict named_judge.csv --output answers.csv
  printed 0 '^note'
  same answers.csv right.csv
done
prints 1 '^note     sorted_square.csv: its columns are not in the order of their numbers: put' \
  ${N1/named/sorted} --test judge.csv --save trained.st
same_network trained.st net.st
ok $N1 --test judge.csv --epochs 2 --save half.st
prints 1 '^note     sorted_square.csv: its columns are not in the order of the training rows: put' \
  --resume half.st --epochs 3 --train sorted_square.csv
same_network half.st net.st
shuffled="b,a,label,$(seq -s, -f x%gy 3 64)" # names without a number at the end are put in order, too
plain="label,a,b,$(seq -s, -f x%gy 3 64)"
cat <(echo $plain) judge.csv >words.csv
awk -F, -v OFS=, '{ l = $1; $1 = $3; $3 = l; print }' judge.csv | cat <(echo $shuffled) - >shuffled.csv
ok $S --train <(cat <(echo $plain) square.csv) --test judge.csv --save words.st
prints 1 '^note     shuffled.csv: its columns are not in the order of the training rows' --load words.st --device cpu --evaluate --test shuffled.csv
grep '^loss' out >shuffled
ok --load words.st --device cpu --evaluate --test words.csv
grep '^loss' out | same shuffled -

case_ 'columns of other names are refused, with the first that differs'
sed '1s/pixel7,/other7,/' named_judge.csv >other.csv
other="other.csv, line 1: column 9 is 'other7', but the training rows have 'pixel7' there"
fails 1 "$other" $N1 --test other.csv
fails 1 "$other" --load named.st --device cpu --evaluate --test other.csv
refuses 1 "$other" --load named.st --device cpu --predict other.csv
fails 1 "$other" --resume half.st --epochs 4 --train other.csv
fails 1 "column 3 is 'pixel0'" --load named.st --device cpu --predict <(sed '1s/pixel1,/pixel0,/' named_judge.csv)
ok --load named.st --device cpu --evaluate --test judge.csv # no header, no names
printed 0 '^note'
cat <(header_of 1 64) judge.csv >from_1.csv # the same pixels, counted from 1
prints 1 "^note     from_1.csv: the first pixel is 'pixel1', in training 'pixel0'" --load named.st --device cpu --evaluate --test from_1.csv
grep '^loss' out >from_1
ok --load named.st --device cpu --evaluate --test judge.csv
grep '^loss' out | same from_1 -
for first in 0 1; do # a name cannot command a terminal
  cat <(echo "label,$(seq -s, -f $'\xc2\x9bx%g' $first $((first + 63)))") judge.csv >c$first.csv
done
prints 1 "^note     c1.csv: the first pixel is '.*x1', in training '.*x0'" $S --train c0.csv --test c1.csv
if grep -q $'\xc2\x9b' out; then die 'a control character is printed'; fi
old() { edit 's/, \\"label\\": .*\\"file_size\\": [0-9]*}/}/; s/"activation":"relu",//' "$@"; } # as an older version saved it
old trained.st old.st
prints 1 '^note     sorted_judge.csv: its columns are not in the order of their numbers, but the network does not know' \
  --load old.st --device cpu --evaluate --test sorted_judge.csv
prints 0 '^note' --load old.st --device cpu --evaluate --test named_judge.csv
old kept.st old.st
ok --load old.st --device cpu --evaluate --test last.csv
grep '^loss' out >last
ok --load old.st --device cpu --evaluate --test square.csv --label-column 1
grep '^loss' out | same last -
ok --resume old.st --epochs 4

case_ "one rule finds the label's column for every file"
L='--device cpu --load net.st'
ok $L --evaluate --test judge.csv
grep '^loss' out >right
# A header that numbers all columns but one names the label.
for name in labels Category letter; do
  for file in square judge; do
    cat <(echo "$(seq -s, -f pixel%g 0 63),$name") <(sed -E 's/^([^,]*),(.*)/\2,\1/' $file.csv) >last_$file.csv
  done
  ok $S --train last_square.csv --test last_judge.csv --save last.st
  printed 1 "^note     last_square.csv: column 65, '$name', is taken for the label"
  same_network last.st net.st
  prints 1 "^note     last_judge.csv: the label is column 65, '$name', in training column 1" $L --evaluate --test last_judge.csv
  grep '^loss' out | same right -
  ok $L --predict last_judge.csv --output answers.csv
  same <(tail -n +2 answers.csv) <(tail -n +2 right.csv)
done
# Where no header tells, it is where the training rows had it.
sed 1d last_judge.csv >bare_judge.csv
prints 1 '^note     bare_judge.csv: no header names the label: column 65, as in training$' --load last.st --device cpu --evaluate --test bare_judge.csv
grep '^loss' out | same right -
prints 1 '^note     bare_judge.csv: no header names the label: column 65, as in training$' $S --train last_square.csv --test bare_judge.csv
ok --load last.st --device cpu --predict bare_judge.csv --output answers.csv
same <(tail -n +2 answers.csv) <(tail -n +2 right.csv)
ok $S --train <(sed 1d last_square.csv) --test bare_judge.csv --label-column last --save told.st
ok --load told.st --device cpu --evaluate --test named_judge.csv # a header that names the label is right
printed 1 "^note     named_judge.csv: the label is column 1, 'label', in training column 65$"
grep '^loss' out | same right -
prints 1 '^note     named_judge.csv: the label is column 65, as --label-column says, but the header calls column 1 so$' \
  $L --predict named_judge.csv --label-column 65 --output answers.csv
# Rows without labels have a column too few.
for file in square judge; do cut -d, -f2- $file.csv >bare_$file.csv; done
square='its 64 columns seem to be 8 x 8 pixels and no label: rows without labels are for --predict; if one of the columns'
fails 1 "bare_square.csv: $square" $S --train bare_square.csv --validation 0.1
fails 1 'bare_judge.csv has no label column' $S --test bare_judge.csv
fails 1 "bare_judge.csv has no label column: its 64 columns are the network's 64 pixels; rows without labels are for --predict" $L --evaluate --test bare_judge.csv
ok $L --predict bare_judge.csv --output answers.csv
printed 0 '^note'
same answers.csv right.csv
ok $S --train bare_square.csv --test none --classes 256 --label-column 64
cut -d, -f-64 named_judge.csv >few_pixels.csv # 64 columns, but the header says that one of them is the label
refuses 1 'few_pixels.csv, line 1: 64 fields, but the network takes 64 pixels' $L --predict few_pixels.csv
# Two columns of the label's name: the second would be a pixel that gives the label away.
while IFS='|' read -r header options columns; do
  { echo "$header"; printf '%d,%d,9\n' 0 0 1 1 0 0 1 1; } >twice.csv
  refuses 1 "twice.csv, line 1: columns $columns are both called" $T --epochs 1 --train twice.csv $options
done <<'END'
label,label,pixel0||1 and 2
pixel0,Label,LABEL||2 and 3
digit,kind,Kind|--label-column kind|2 and 3
END
printf 'label,label,pixel0\n0,0,9\n1,1,9\n' >twice.csv
run $T --epochs 1 --train twice.csv --test none --label-column 2
[ $status = 0 ] || die "$(cat err)"
# The widest row may have columns beside it that are left out.
wide() { echo "$1,$1,$1,$(seq 0 4095 | sed "s/.*/$2/" | paste -sd,),$3"; }
{ wide x "pixel&" label; wide 9 7 0; wide 9 200 1; wide 9 3 0; } >wide.csv
run $T --epochs 1 --hidden none --train wide.csv --test none --ignore-columns 1,2,3
[ $status = 0 ] || die "$(cat err)"
printed 1 '^network  4096-2,'

case_ 'a column that is no label is said'
map 0 judge.csv | cut -d, -f2- | paste -d, - <(cut -d, -f1 judge.csv) >zero_first.csv # the first column is 0 in all rows
last='it looks like a pixel, and the last column, 0 to 3, like the label: --label-column last'
fails 1 "zero_first.csv: all 100 rows have label 0 in column 1: $last" $L --evaluate --test zero_first.csv
fails 1 "zero_first.csv: all 100 rows have label 0 in column 1, but training needs two classes: $last" $S --train zero_first.csv
ok $L --evaluate --test zero_first.csv --label-column last
cut -d, -f-64 zero_first.csv | sed 's/$/,3,1/' >zero_twice.csv # the last column has one value, too
fails 1 'in column 1, but training needs two classes: --label-column says which column has the labels' $S --train zero_twice.csv --test none
ok $L --predict zero_first.csv --output answers.csv
printed 1 '^note     zero_first.csv: column 1, was ignored as the label, but it is 0 in all rows: --label-column says'
grep -v ',2$' zero_first.csv >no_twos.csv # a class may be missing
fails 1 "$last" $S --train no_twos.csv
paste -d, <(seq 100) <(cut -d, -f2- judge.csv) >rows.csv
ok $L --predict rows.csv --output answers.csv
printed 1 '^note     rows.csv: column 1, was ignored as the label, but it counts up from 1: '
same answers.csv right.csv
cat <(echo "$(seq -s, -f pixel%g 0 63),row") <(cut -d, -f2- judge.csv | paste -d, - <(seq 0 99)) >row_last.csv
ok $L --predict row_last.csv --output answers.csv
printed 1 '^note     row_last.csv: column 65 numbers the rows: left out$'
same <(awk -F, -v OFS=, 'NR > 1 { $1 = $1 - 1 } { print }' right.csv) answers.csv
sed 's/row/place/' row_last.csv >place_last.csv
ok $L --predict place_last.csv --output answers.csv
printed 1 "^note     place_last.csv: column 65, 'place', was ignored as the label, but it counts up from 0"
same answers.csv right.csv
grep '^2,' judge.csv >twos.csv # rows of one class can be evaluated if the column is certain
fails 1 'rows have label 2 in column 1' $L --evaluate --test twos.csv
ok $L --evaluate --test twos.csv --label-column 1
head -n 9 twos.csv >few.csv
ok $L --evaluate --test few.csv
