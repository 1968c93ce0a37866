# Tests saving a network and continuing its training. test_trainer.c stops runs at every step.
rows 20001 >long.csv # fills three staging buffers; the last step is short
digits 200 1
D='--train digits_train.csv --test digits_train.csv --classes 10'
L="$T --hidden 64 --train long.csv --lr-decay 1"
ok $T --epochs 2 --save two.st

case_ 'bad rows are named wherever they are'
rows 9000 9000 >late.csv
for resident in yes no; do
  for file in train test; do fails 1 'late.csv, line 9000, column 1' $T --$file late.csv --resident $resident; done
done

case_ 'two and three epochs are five'
while read -r options; do
  ok $T $options --epochs 5 --save whole.st
  ok $T $options --epochs 2 --save part.st
  [ "$(value epoch part.st) $(value step part.st)" = '2 0' ]
  prints 1 '^resumed  after epoch 2$' --resume part.st --epochs 5
  printed 3 '^epoch [345]/5 '
  printed 3 '^epoch '
  same part.st whole.st
  absent part.st.tmp.*
done <<END
--momentum 0.5 --weight-decay 0.01 --mean 0.1 --std 0.3 --pixel-max 200
--optimizer nesterov --dropout 0.3 --label-smoothing 0.1 --resident no
--optimizer adam --lr 0.01 --ema 0.99 --validation 0.2
--optimizer adamw --lr 0.01 --weight-decay 0.1 --epsilon 1e-3 --validation test.csv --resident no
--lr-schedule constant --warmup 4 --batch 7
$D --augment shift,rotate
$D --augment scale,elastic --resident no
END

case_ 'the command line comes before --config, and that before what was saved'
printf '[training]\nepochs = 3\nlr = 0.125\n' >more.conf
ok $T --epochs 2 --momentum 0.25 --save part.st
ok --resume part.st --config more.conf --epochs 4 --dry-run
for line in 'epochs = 4' 'lr = 0.125' 'momentum = 0.25' 'batch = 8'; do printed 1 "^$line$"; done

case_ 'runs that cannot go on are refused'
cp two.st part.st
ok $T --epochs 1 --optimizer adam --lr 0.01 --save adam.st
refusals 1 --epochs 5 <<END
holds a network of 2-4-2, but train.csv, --hidden and --classes ask for one of 2-5-2|--resume part.st --hidden 5
part.st is already trained for 2 epochs; give a higher|--resume part.st --epochs 2
cannot load train.csv: it is CSV text: |--resume train.csv
adam.st was trained with a different --optimizer; use the original value|--resume adam.st --optimizer sgd
END
same part.st two.st

case_ 'names that cannot be saved are refused'
path=$(printf './%.0s' {1..90})/train.csv # a path of 190 bytes
ok $T --epochs 1 --train $path --save long.st
ok --resume long.st --epochs 2
while IFS='|' read -r text name; do
  printf -v name %b "$name"
  [ -e "$name" ] || cp train.csv "$name"
  refuses 1 "cannot save new.st with the names in its options: $text" $T --train "$name" --save new.st
done <<END
new.st:|.//${path#./}
not UTF-8|t\xff.csv
--train 'a ;b' would be read back as 'a'|a ;b
--train 'a ' would be read back as 'a'|a 
new.st:|a\nb
END
absent new.st

case_ "a stranger's file must not have a file of ours written"
for more in '[output]\\nlog = theirs.jsonl' '[model]\\nsave = theirs.st'; do
  edit "s/\\\\n\"[,}]/\\\\n$more&/" two.st theirs
  refuses 1 'is not an option of a saved run' --resume theirs --epochs 3
  absent theirs.jsonl theirs.st
done

case_ 'options that are gone lose no network' # formerly every saved run had --monitor
for how in '--evaluate --load' '--predict test.csv --output it.csv --load' '--epochs 3 --resume'; do
  edit 's/early-stop/monitor = accuracy\\nearly-stop/' two.st old.st
  prints 0 '^note ' --device cpu $how old.st
  edit 's/early-stop/monitor = loss\\ncenter = yes\\nearly-stop/' two.st old.st
  prints 1 '^note .*old.st was trained with --monitor, --center, which this program no longer has$' \
    --device cpu $how old.st
done

edit 's/"options"/"resident":"2","options"/' two.st old.st
prints 1 '^resident = no$' --resume old.st --epochs 3 --dry-run

case_ 'the rest of an epoch has the rows and the order it began with'
in_epoch() { echo "s/\"step\":\"0\"/\"step\":\"$1\"/; s/\"rows\":\"0\"/\"rows\":\"$2\"/"; }
edit "$(in_epoch 1 1)" two.st middle.st
refusals 1 --resume middle.st --epochs 3 <<'END'
in the middle of an epoch; finish the epoch with the original --train and|--train test.csv
in the middle of an epoch; finish the epoch with the original --batch and|--batch 1
in the middle of an epoch; finish the epoch with the original --augment and|--augment shift
END
edit "$(in_epoch 1 20)" two.st wrong.st # its steps have batches of 8 rows
fails 1 'wrong.st was interrupted in the middle of an epoch; finish the epoch with the original --batch' --resume wrong.st --epochs 3

case_ "another program's file is read and not written over"
edit 's/"options":"[^"]*"/"options":""/; s/"epoch":"2"/"epoch":"0"/' two.st foreign.st
cp foreign.st twin.st
refuses 1 'foreign.st was written by another program; name a file' --resume foreign.st $T
ok --resume foreign.st $T --epochs 2 --save ours.st
same foreign.st twin.st

case_ 'what improves is saved at once' # even a killed run has saved its best epoch completely
for lines in 2 9; do
  rm -f killed.st
  start $T --hidden 64,64 --epochs 1000000 --save killed.st
  printing $lines '^epoch '
  kill -KILL $pid
  finish
  epoch=$(value epoch killed.st)
  [ "$(value best_epoch killed.st)" = $epoch ]
  ok --resume killed.st --epochs $((epoch + 1))
done

case_ 'a run that diverges leaves the last good network'
ok $T --epochs 3 --save part.st
cp part.st twin.st
wild='--lr 100 --weight-decay 1 --lr-decay 1'
fails 1 'the training loss is not a finite number' --resume part.st --epochs 9 $wild
said ' of epoch 4: try a lower --lr; part.st holds the network of epoch 3'
printed 0 '^total |^epoch .*(nan|inf)'
same part.st twin.st
fails 1 'try a lower --lr' $T --resident no --epochs 1000 $wild
grep -q -- '--lr$' err

case_ 'an interrupted run goes on as if never stopped'
while read -r resident signal lines start; do
  start $L --epochs 1000000 --resident $resident --save stopped.st
  printing $lines "^$start "
  interrupt $signal ' --resume stopped.st'
  where=after begun=$(value epoch stopped.st)
  printed $begun '^epoch '
  printed 0 '^total '
  [ "$(value step stopped.st)" = 0 ] || where=in begun=$((begun + 1))
  [ $where = after ] || header stopped.st | grep -qE "resident = (yes|no)"
  [[ $(<err) = "mlp-train: interrupted $where epoch $begun: continue with --resume stopped.st" ]]
  absent stopped.st.tmp.*
  ok --resume stopped.st --epochs $((begun + 1))
  ok $L --epochs $((begun + 1)) --resident $resident --save whole.st
  same stopped.st whole.st
done <<'END'
yes INT 1 data
no TERM 1 data
yes TERM 1 epoch
no INT 1 epoch
no TERM 3 epoch
END

case_ 'nothing is saved unless asked for'
start $L --epochs 1000000
printing 1 '^epoch '
interrupt INT 'mlp-train: interrupted '
grep -qE ' epoch [1-9][0-9]*: the network was not saved; use --save FILE to keep it$' err
