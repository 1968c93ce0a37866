# Tests --validation: which rows train, which rows judge, and what is printed, saved and resumed.
N=${T% --test *}

case_ 'a share is two files, to the bit: no row that judges has trained'
rows 100 >all.csv
held=$(printf '%dp;' 1 11 12 17 19 27 34 37 39 45 48 60 63 69 77 81 85 89 94 100) # the rows that seed 1 holds out
sed -n "$held" all.csv >held.csv
sed "${held//p/d}" all.csv >rest.csv
for resident in yes no; do
  options="$N --test none --epochs 4 --resident $resident"
  ok $options --train all.csv --validation 20% --save share.st
  printed 1 '^data     all.csv: 80 rows, 2 classes, '
  printed 1 '^data     all.csv: 20 other rows for validation$'
  ok $options --train rest.csv --validation held.csv --save files.st
  printed 1 '^data     held.csv: 20 rows for validation$'
  printed 1 '^data     no test file$'
  same_network share.st files.st
done

case_ 'test rows speak once' # lines of epochs have val-acc; the last line tests the saved network
prints 1 '^epoch ' $T --epochs 3 --validation 0.2 --log run.jsonl --save v.st --plot v.png --quiet
printed 1 '^test     loss [0-9.]+  acc [0-9.]+%  of 50 rows$'
printed 1 ' val-loss   val-acc '
grep '"kind": "test"' run.jsonl >tested
grep '"kind": "epoch"' run.jsonl | tail -n 1 >last
[ "$(value test_rows tested)" = 50 ]
[ $(($(value train_rows last) + $(value val_rows last))) = 300 ]
[[ $(value val_accuracy last) =~ ^(1$|0\.[5-9]) ]]
[ "$(value test_accuracy last)" = null ]
ok --load v.st --device cpu --evaluate --test test.csv
printed 1 "^loss .* accuracy +$(value test_accuracy tested | awk '{ printf $1 == 1 ? "100" : "%.2f", 100 * $1 }')"

case_ 'rows that were trained on do not judge'
ok $T --validation 20% --epochs 1 --save part.st
fails 1 '--validation 0.3 would hold out rows that part.st was trained on; use the original --validation' \
  --resume part.st --epochs 2 --validation 0.3
cp part.st same.st
ok --resume same.st --epochs 2 --validation 0.20
cp all.csv mixed.csv
ok $N --train mixed.csv --validation 0.2 --epochs 1 --save mixed.st
prints 0 '^note     mixed.csv' --resume mixed.st --epochs 2
tac all.csv >mixed.csv
prints 1 '^note     mixed.csv: the saved run had different rows .* may have trained on rows that are held out now' \
  --resume mixed.st --epochs 3
ok --resume part.st --epochs 2 --validation test.csv --save f.st
[ "$(value best_epoch f.st)" = 2 ] # the best epoch on these rows

case_ 'another test file knows no best epoch'
ok $T --epochs 2 --save t.st
rows 30 >other.csv
ok --resume t.st --epochs 3 --test other.csv
[ "$(value best_epoch t.st)" = 3 ]

case_ 'early stopping keeps the last network to resume and the best to use'
options="$T --validation 0.2"
ok $options --epochs 1000 --early-stop 3 --save e.st
last=$(value epoch e.st) best=$(value best_epoch e.st)
[ $last = $((best + 3)) ]
[ "$(value epoch e.st.best)" = $best ]
[ "$(value test_accuracy e.st.best)" = "$(value best_accuracy e.st)" ]
printed 1 "^stopped  epoch $best is still the best, 3 epochs later$"
printed 1 "^wrote    e.st: the network after epoch $last, for --resume$"
printed 1 "^wrote    e.st.best: the network after epoch $best, the best: [0-9.]+%$"
ok $options --epochs $best --save b.st
same_network b.st e.st.best
cp e.st stopped.st
refuses 1 "stopped.st stopped early: epoch $best is still the best, 3 epochs later" --resume stopped.st
same stopped.st e.st
ok --resume stopped.st --epochs 1001 --early-stop 4
ok --resume e.st --epochs $((last + 1)) --early-stop 0

ok $T --epochs 2 --lr 0 --save e.st # all epochs are equally good, so the first is the best
ok --resume e.st --epochs 8 --early-stop 3
[ "$(value epoch e.st) $(value best_epoch e.st)" = '4 1' ]

case_ 'without a test file'
none="$N --test none"
ok $none --epochs 2 --save n.st --plot n.png --weights w.png --log run.jsonl
printed 2 '^epoch [12]/2 .*%          -         - '
printed 4 '^wrote '
[ "$(value test_loss run.jsonl | xargs)" = 'null null' ]
[ "$(value best_epoch n.st)" = 0 ]
refusals 2 $none <<'END'
--mistakes needs rows to judge by|--mistakes m.png
--confusion needs rows to judge by|--confusion m.png
--early-stop needs rows to judge by|--early-stop 3
END
refuses 2 '' --load n.st --evaluate --test none

case_ 'without test rows validation rows are drawn'
for judge in 0.2 held.csv; do
  file=rest.csv
  [ $judge = held.csv ] || file=all.csv
  options="$N --train $file --test none --epochs 3 --validation $judge"
  ok $options --confusion ${judge%.*}c.png
done
same 0c.png heldc.png
digits 200 1
ok --device cpu --hidden 8 --epochs 1 --train digits_train.csv --test none \
  --validation 0.2 --mistakes m.png
printed 1 '^wrote    m.png$'

case_ 'mistakes among held-out rows have their numbers in the file'
rows 100 | awk -F, -v OFS=, '{ print $1, $2, $3, $3, $2 }' >four.csv # the labels, so also the held-out rows, of all.csv
ok $N --train four.csv --test none --validation 20% --epochs 1 --lr 0.001 --seed 1 --mistakes held.png --save four.st
ok --load four.st --device cpu --predict four.csv
# In left.csv every other row has the label that the network answers, so only held-out rows can be mistakes.
paste -d, four.csv <(sed '1d; s/.*,//' out) | awk -F, -v OFS=, -v held="${held//p;/ }" '
  BEGIN { split(held, list, " "); for (i in list) is_held[list[i]] = 1 }
  { print (NR in is_held ? $1 : $6), $2, $3, $4, $5 }' >left.csv
prints 1 ' wrong [1-9][0-9]* of 100 rows' --load four.st --device cpu --evaluate --test left.csv --mistakes left.png
same held.png left.png

case_ "a competition's files" # they have a header, and test rows without labels
printf 'pixel0,pixel1\n1,2\n200,100\n' >unlabelled.csv
fails 1 'unlabelled.csv has no label column' $N --test unlabelled.csv
said '--validation 0.1'
# The options in $N have neither --test nor --validation. The folder data/ does not exist.
fails 1 'there is no test file: --validation 0.1 judges by a tenth of the rows of train.csv' $N
prints 0 '^test ' $N --validation 0.1 --epochs 20 --save k.st
ok --load k.st --device cpu --predict unlabelled.csv --output k.csv
printf 'ImageId,Label\n1,0\n2,1\n' | cmp - k.csv

case_ 'what cannot be is refused'
echo 1,2,3,4 >three.csv
for share in 0.91 91% -0.1 1e-20 1e-999 0.00000000001%; do
  refuses 2 "--validation must be 0, a fraction from 1e-09 to 0.9, or the name of a file, not '$share'" $T \
    --validation $share
done
while IFS='|' read -r text options; do fails 1 "$text" $T $options; done <<'END'
none.csv does not exist|--validation none.csv
--validation 0.0001 leaves no rows of train.csv to judge by|--validation 0.0001
three.csv has 3 pixels a row but train.csv has 2|--validation three.csv
--train can be read only once|--validation 0.1 --train /dev/null
. is a directory, not a CSV file|--validation 0.1 --train .
. is a directory, not a CSV file|--seeds 2 --train .
END
fails 1 '--train can be read only once, but --validation 0.1 reads it twice' $T --validation 0.1 \
  --train <(printf '1,2,1\n0,1,2\n')
