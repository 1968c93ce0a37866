# Tests that no output of a run destroys an input, and that a bad file name is reported before training.
ok $T --epochs 1 --save net
cp train.csv train.png
cp net other
cp train.csv rows-1

case_ 'no output destroys an input'
sha256sum train.csv test.csv train.png net other >before
while read -r options; do
  case $options in --load*) rest='--device cpu' ;; *) rest=$T ;; esac
  refuses 2 ' are the same file; use a different name for one of them' $rest $options
  sha256sum --quiet -c before
  absent new new.st s held.csv
done <<'END'
--log train.csv
--save train.csv
--mistakes ./train.csv
--save new --plot new
--load net --predict test.csv --output net
--load net --evaluate --test test.csv --mistakes test.csv
--load net --load other --predict test.csv --output other
--validation held.csv --save held.csv
--early-stop 3 --save s --train s.best
--seeds 2 --save rows --train rows-1
END

case_ 'what takes more memory than there is says how much'
if sanitized; then
  skip_ "a sanitizer's shadow is larger than any limit of memory"
else
  ok $T --hidden 4000 --epochs 1 --save wide.st
  printf '[network]\nhidden = 16384,16384\n' >wide.conf
  plain=${T/--hidden 4/}
  (
    ulimit -v 1500000
    refusals 1 <<END
need 4.38 GB of memory, but may take only 1.54 GB|$plain --config wide.conf
need 2.12 GB of memory, but may take only 1.54 GB|--resume wide.st --epochs 2 --batch 65536 --resident no
END
  )
fi

case_ 'what cannot be written costs no epoch'
for name in full.{png,csv,jsonl}; do ln -s /dev/full $name; done
ok $T --epochs 3 --save twin.st
for picture in plot weights confusion; do
  fails 1 'cannot write full.png: No space left on device' $T --epochs 3 --$picture full.png --save drawn.st
  said '; drawn.st holds the network of epoch 3'
  printed 3 '^epoch '
  same drawn.st twin.st
done
[ -L full.png ]
for log in full.csv full.jsonl; do
  fails 1 "cannot write $log: No space left on device" $T --epochs 3 --log $log --save whole.st
  said '; whole.st holds the network of epoch 1'
  ok --resume whole.st --epochs 3
  same whole.st twin.st
done
STDOUT=/dev/full fails 1 'cannot write to standard output: No space left on device' $T --epochs 1000000

case_ 'places are tried before training'
mkfifo fifo
refusals 1 $T --epochs 2 <<'END'
none/x.st: its folder does not exist|--save none/x.st --log run.jsonl
none/x.png: its folder does not exist|--plot none/x.png --save dangling
none/x.jsonl: its folder does not exist|--log none/x.jsonl
cannot write fifo: it is not a regular file|--save fifo
END
absent run.jsonl new.st ./*.tmp.*
refuses 2 '--save cannot write to standard output: give it the name of a file' $T --save -

case_ 'a log is continued behind its last line' # the last line may be incomplete
ok $T --epochs 1 --save one.st
while read -r lines old; do
  rm -f old.jsonl
  [ "$old" = none ] || printf %b "$old" >old.jsonl
  ok --resume one.st --save two.st --epochs 3 --log old.jsonl
  [ "$(wc -l <old.jsonl)" = $((lines + 5)) ]
  [[ $(sed -n $((lines + 1))p old.jsonl) = '{"kind": "run", '* ]]
done <<'END'
0 none
0
2 {"kind": "run"}\n{"kind": "epoch"}\n
2 {"kind": "run"}\n{"kind": "ep
END
printf 'epoch,epochs\n1,10,0.3' >cut.csv
ok --resume one.st --save two.st --epochs 2 --log cut.csv
sed 's/^2,2,.*/2/' cut.csv | same - <(printf 'epoch,epochs\n1,10,0.3\n2\n')
ok $T --epochs 1 --log run.jsonl
ln -s run.jsonl to-run.jsonl
ok $T --epochs 1 --log to-run.jsonl
[ -L to-run.jsonl ] && [ "$(wc -l <run.jsonl)" = 4 ]

case_ 'two runs do not write one log'
env --default-signal=INT "$MLP" $T --epochs 1000000 --log shared.csv >running 2>&1 &
pid=$!
until_ test -s shared.csv
refuses 1 'cannot write ./shared.csv: another run is writing it' $T --epochs 2 --log ./shared.csv --save never.st
absent never.st
kill -INT $pid
finish
[ $status = 130 ]
[ "$(sort -t , -n -u -k 1,1 shared.csv | wc -l)" = "$(wc -l <shared.csv)" ]
ok $T --epochs 2 --log shared.csv
[ "$(wc -l <shared.csv)" = 3 ]
fails 1 'nothing.csv does not exist' $T --train nothing.csv --log new.csv
absent new.csv

case_ 'a file that root replaces stays its owner'"'"'s'
if [ "$(id -u)" != 0 ]; then
  skip_ 'only root may give a file to another user'
else
  touch owned.{st,png,csv}
  chown 1234:5678 owned.*
  chmod 640 owned.*
  ok $T --epochs 1 --save owned.st --plot owned.png --log owned.csv
  [ "$(stat -c '%u:%g %a %F' owned.* | uniq)" = '1234:5678 640 regular file' ]
fi

case_ 'a closed standard stream writes into no other file'
rm -f run.jsonl net.st
"$MLP" $T --epochs 2 --log run.jsonl --save net.st <&- >&-
[ "$(grep -c '^{.*}$' run.jsonl)" = "$(wc -l <run.jsonl)" ]
ok --load net.st --evaluate --test test.csv --device cpu
