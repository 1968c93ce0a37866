# Tests --sweep, which finds the best of several options by successive halving.
S="$T --threads 2"
rows 3000 >many.csv

case_ 'a trial has the accuracy of a run of its options'
ok $S --sweep momentum=0,0.9,lr=0.0004,0.004 --epochs 2
printed 1 '^sweep    a tenth of the training rows is held out to judge by$'
printed 4 '^ +[1-4] +[0-9.]+% +2  --momentum 0(\.9)? --lr 0\.0+4$'
mv out grid
grep -oE '[0-9.]+%  .*--lr.*' grid | while read -r accuracy epochs options; do
  ok $S --epochs $epochs $options --test none --validation 0.1 --log one.jsonl
  [ "$(value val_accuracy one.jsonl | tail -n 1 | awk '{ printf "%.2f%%", 100 * $1 }')" = "$accuracy" ]
done

case_ 'the best third goes on, however many train at once'
sweep='--sweep lr=0.0001:0.1:log,batch=4:32,optimizer=sgd,adam --trials 10 --train many.csv --epochs 9'
ok $S $sweep --validation test.csv
for line in '10 trials of 1 epoch:' '4 trials of 3 epochs:' '2 trials of 9 epochs:'; do
  printed 1 "^sweep    $line best val-acc [0-9.]+%$"
done
printed 10 '^ +[0-9]+ +[0-9.]+%'
cut -d ' ' -f 2- out | grep -E '^(sweep| +[0-9])' >two
grep -qE '^ +1 +9[0-9.]+% +9 ' out || [ "$(grep -cE '^ +1 +100\.0+% +9 ' out)" = 1 ]
ok $S $sweep --validation test.csv --threads 1
cut -d ' ' -f 2- out | grep -E '^(sweep| +[0-9])' | diff two -

case_ 'as many train at once as memory is left for'
if sanitized; then
  skip_ 'a sanitizer needs more address space than a limit leaves'
else
  digits 700 10
  (ulimit -v 600000 && run $S --train digits_train.csv --classes 10 --threads 4 --sweep hidden=8000,8001,8002,8003 \
    --epochs 1) # each network takes 100 MB; all networks together may take half of the memory
  printed 1 '^at once  2 networks$'
fi

case_ 'a trial that diverges is the last'
prints 1 '^ +2  diverged +[01]  --lr 100$' $S --sweep lr=100,0.01 --epochs 2 --weight-decay 1

case_ 'trials that all diverge fail'
fails 1 'all 2 trials diverge' $S --sweep lr=99,100 --epochs 2 --weight-decay 1

case_ 'what it cannot do is refused'
refusals 1 $S --sweep <<'END'
--sweep needs OPTION=VALUE,VALUE,... or OPTION=LOW:HIGH|,
--sweep cannot try 'save': name an option of training, such as lr or hidden|save=a,b
--sweep has 'lr' twice|lr=0.1,0.2,batch=32,lr=0.3
--sweep cannot try 'device'|device=cuda,cpu
--sweep tries --dropout 0.1: --dropout has 1 value, but --hidden has 0 layers|dropout=0.1,0.2 --hidden none
--lr must be |lr=high,low
--sweep: the values of --lr are a list or, of a number, LOW:HIGH or LOW:HIGH:log, not '0.1:0.2:lin'|lr=0.1:0.2:lin
--sweep: the range of --lr must start below its end, and above 0|lr=0:0.2:log
--sweep: the range of --lr must start and end with a number, not 'auto'|lr=auto:0.5
--sweep: the range of --lr must start and end with a number, not 'auto'|lr=0.1:auto
--sweep tries --classes 3: --names: 2 names, but the network has 3 classes|classes=2,3 --names a,b
END

case_ 'every combination of many is as likely as another' # 22^8 combinations are more than 2^32
list() { seq -s , "$1" "$2" "$3" | sed 's/,$//'; } # 22 values
run $S --batch 300 --epochs 1 --trials 48 --sweep "lr=$(list 0.01 0.001 0.031),momentum=$(list 0.1 0.01 0.31),lr-decay=$(
  list 0.1 0.01 0.31),weight-decay=$(list 0.001 0.001 0.022),label-smoothing=$(list 0.1 0.01 0.31),ema=$(
  list 0.1 0.01 0.31),batch=$(list 100 1 121),hidden=$(list 4 1 25)"
[ $status = 0 ]
grep -oE -- '--hidden [0-9]+' out | sort -u >drawn # of the ten trials shown
[ "$(wc -l <drawn)" -ge 5 ] || die "only $(cat drawn)"

case_ 'all trials are printed, logged and drawn'
ok $T --sweep lr=0.01:0.1,batch=4,8 --trials 12 --epochs 3 --test none --log all.csv --plot all.png
printed 12 ' --lr [0-9.]+ --batch [48]$'
[ "$(head -n 1 all.csv)" = place,trial,val_accuracy,epochs,lr,batch ]
[ "$(tail -n +2 all.csv | cut -d, -f1 | xargs)" = '1 2 3 4 5 6 7 8 9 10 11 12' ]
[ "$(tail -n +2 all.csv | cut -d, -f5,6)" = "$(sed -nE 's/.* --lr ([0-9.]+) --batch ([48])$/\1,\2/p' out)" ]
is_png all.png
ok $T --sweep lr=0.1 --epochs 1 --test none --log one.jsonl
grep -qE '^\{"kind": "trial", "place": 1, "trial": 1, "val_accuracy": [0-9.]+, "epochs": 1, "lr": "0.1"}$' one.jsonl
