# Tests what a run of mlp-train prints and writes: lines and files that scripts can read.
time=' +[0-9]+(\.[0-9]{1,2})?m?s'
heading='^ +loss +acc +test-loss +test-acc +train +eval +img/s$'

case_ 'a run prints what scripts can read'
ok $T --epochs 12
printed 12 '^epoch [ 1][0-9]/12( +[0-9.]+ +[0-9.]+%){2}( +[0-9.]+m?s){2} +[0-9.]+[kMG]?$' # tests/test_report.c tests this line
printed 1 "$heading"
printed 0 '^.{81}' # lines fit in a terminal
printed 1 '^device   CPU.* GiB$'
printed 1 '^network  2-4-2, 22 parameters$'
printed 1 '^fusion   layer: .+$'
printed 1 '^data     train\.csv: 300 rows, 2 classes, pixels 0 to 255, resident$'
printed 1 '^data     test\.csv: 50 rows$'
printed 1 "^total    load$time  train$time  eval$time  process$time$"
printed 20 ''
printed 1 '^rate     0.05 in epoch 1, 0.00429 in epoch 12$'
printed 0 $'\r|\033' # no progress bar in a file

case_ 'quiet prints the last epoch alone'
prints 2 '' $T --epochs 3 --quiet
printed 1 "$heading"
printed 1 '^epoch 3/3 '

case_ 'OpenMP may give fewer threads'
ok $T --epochs 2 --save one.st
while IFS='|' read -r threads variable; do
  (export "${variable?}" && ok $T --epochs 2 --threads 4 --save fewer.st)
  printed 1 "^device   CPU, ${threads}[ ,]"
  same_network one.st fewer.st
done <<'END'
2 threads|OMP_THREAD_LIMIT=2
1 thread|OMP_MAX_ACTIVE_LEVELS=0
END

case_ 'a missing file is named with ways to get one'
refuses 1 data/mnist_train.csv --device cpu # the folder has no data/
for way in 'make data' scripts/download_mnist.sh mlp-train-fetch mlp-digits; do said "$way"; done
for file in none.csv /no/such/train.csv; do
  refuses 1 "$file does not exist" $T --test $file
done

case_ 'a closed pipe is no message' # as after `| head`
mkfifo pipe
exec 8<>pipe
exec 9>pipe 8<&-
while read -r words; do
  for signal in default ignore; do # it exits with the status of a process that SIGPIPE killed
    status=0
    env --$signal-signal=PIPE "$MLP" $words >&9 2>err || status=$?
    [ $status = 141 ] || die "$words: exit code $status"
    [ ! -s err ] || die "$words: $(cat err)"
  done
done <<END
$T --epochs 3
$T --epochs 3 --quiet --log /dev/stdout
$T --epochs 3 --quiet --log /proc/self/fd/9
--help
--load one.st --device cpu --predict test.csv
--load one.st --device cpu --predict test.csv --output /dev/fd/1
--load one.st --device cpu --evaluate --test test.csv
END

case_ 'outputs are confirmed'
ok $T --epochs 2 --save a.st --log a.csv --plot 'a b.png' --weights w.png --confusion c.png
for name in a.st a.csv 'a b.png' w.png c.png; do printed 1 "^wrote    $name$"; done
printed 5 '^wrote '
predict='--load a.st --device cpu --predict test.csv --output p.csv'
ok $predict
[ "$(<out)" = 'wrote    p.csv' ]
ok $predict --quiet
[ ! -s out ]
prints 0 '^wrote ' $T --epochs 2 --plot /dev/null

case_ 'a name that promises another format is refused before training'
refuses 2 "--save writes a file whose name ends in .safetensors or .st, not 'a.pt'" $T --save a.pt
refuses 2 'ends in .png, not' $T --confusion .png
refuses 2 'ends in .csv, not' --load a.st --predict test.csv --output a.json
ok $T --epochs 1 --save dir.name.st
ok $T --epochs 1 --save .hidden

case_ 'the log has every option and epoch'
options="$T --epochs 3 --lr 0.25 --lr-schedule linear --log run.jsonl"
ok $options
mv out printed
head -n 1 run.jsonl >header
ok --version
[ "mlp-train $(value version header)" = "$(<out)" ]
grep -q '"device_in_use": "CPU, 1 thread' header
ok $options --dry-run # it prints `lr-schedule = linear`; the header has "lr_schedule": "linear"
sed -nE 's/ =( |$)/ = /p' out >options
grep -oE '"[a-z_0-9]+": ("[^"]*"|[^,}]+)' header | tail -n +6 |
  sed -E 's/"(.*)": "?([^"]*)"?/\1 = \2/; s/ false/ no/; y/_/-/' | diff - options
tail -n +2 run.jsonl >epochs
[ "$(value epoch epochs | xargs)" = '1 2 3' ]
paste <(value epoch epochs) <(value train_loss epochs) <(value test_loss epochs) |
  while read -r epoch train test; do # the log has the numbers that the program printed
    grep -qE "$(printf '^epoch %d/3  %6.4f  [0-9. ]+%%  +%6.4f ' "$epoch" "$train" "$test")" printed
  done

case_ 'a config is its options' # tests/test_options.c tests each option
options="$T --epochs 2 --lr-schedule cosine --quiet"
ok $options --dry-run
mv out tiny.conf
printf '[training]\nbatch = 7\nlr-schedule = linear\n' >batch.conf
ok -c batch.conf -c tiny.conf --save by_config.st # the last file that sets an option decides
ok $options --save by_words.st
same by_config.st by_words.st
