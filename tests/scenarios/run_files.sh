# The files that a run names: no output destroys an input, and none costs an epoch.
ok $T --epochs 1 --save net
ln train.csv hard.csv
ln -s train.csv soft.csv
ln -s new.st dangling
cp train.csv train.png
cp net other
cp train.csv rows-1
ln train.csv hard-2.st
ln -s link-2.st link-1.st

case_ 'no output destroys an input'
sha256sum train.csv test.csv train.png net other >before
while read -r options; do
  case $options in --load*) rest='--device cpu' ;; *) rest=$T ;; esac
  refuses 2 ' are the same file: give one of them another name' $rest $options
  sha256sum --quiet -c before
  absent new new.st s held.csv
done <<'END'
--log train.csv
--save train.csv
--mistakes ./train.csv
--confusion hard.csv
--weights soft.csv
--save new --plot new
--log new.csv --resume net --epochs 2 --save ./new.csv
--load net --predict test.csv --output net
--load net --evaluate --test test.csv --mistakes test.csv
--load net --load other --predict test.csv --output other
--validation held.csv --save held.csv
--early-stop 3 --save s --train s.best
--train train.png --sweep lr=0.1,0.2 --plot train.png
--ensemble 2 --save rows --train rows-1
--ensemble 3 --save link.st --seed 0
END

case_ 'what takes more memory than there is says how much'
if sanitized; then
  skip_ "a sanitizer's shadow is larger than any limit of memory"
else
  ok $T --hidden 4000 --epochs 1 --save wide.st
  printf '[network]\nhidden = 16384,16384\n' >wide.conf
  rows 70000 | gzip >many.csv.gz
  none=${T% --test *} plain=${T/--hidden 4/}
  (
    ulimit -v 1500000
    refusals 1 <<END
need 4.38 GB of memory, but may take only 1.54 GB|$plain --config wide.conf
need 2.12 GB of memory, but may take only 1.54 GB|--resume wide.st --epochs 2 --batch 65536 --resident no
END
    fails 1 'an ensemble to all rows of the test file need 1.05 GB of memory, but may take only 0.77 GB' \
      $none --classes 1000 --epochs 1 --ensemble 1 --test many.csv.gz
  )
fi

case_ 'what a configuration alone names replaces no file'
cp train.csv notes
for more in '[output]\nlog = test.csv' '[model]\nsave = notes' '[model]\nsave = rows'; do
  printf '%b\n' "$more" >names.conf
  seeds=
  [ "${more##* }" != rows ] || seeds='--ensemble 2'
  refuses 2 ' exists, and only names.conf names it as --' $T --config names.conf $seeds --test other.csv
  sha256sum --quiet -c before
done
printf '[model]\nsave = fresh\n' >names.conf
ok $T --epochs 1 --config names.conf
ok $T --epochs 2 --config names.conf --save fresh
ok $T --epochs 1 --config names.conf --dry-run

case_ 'what cannot be written costs no epoch'
for name in full.{png,csv,jsonl}; do ln -s /dev/full $name; done
for log in full.csv full.jsonl; do
  fails 1 "cannot write the log $log: No space left on device" $T --epochs 3 --log $log --save whole.st
  printed 3 '^epoch '
  printed 1 '^total '
done
ok $T --epochs 3 --save twin.st
same whole.st twin.st
for picture in plot weights confusion; do
  fails 1 'cannot write full.png: No space left on device' $T --epochs 3 --$picture full.png --save drawn.st
  printed 1 '^total '
  same drawn.st twin.st
done
[ -L full.png ]

case_ 'a closed output does not cost the network'
STDOUT=/dev/full fails 1 'cannot write to standard output: No space left on device' $T --epochs 3 --save muted.st
same muted.st twin.st
STDOUT=/dev/full fails 1 'cannot write to standard output' $T --epochs 1000000 # nobody would get anything of them

case_ 'places are tried before training'
mkfifo fifo
mkdir folder.csv
refusals 1 $T --epochs 2 <<'END'
cannot write the log folder.csv: Is a directory|--log folder.csv
none/x.st: its folder does not exist|--save none/x.st --log run.jsonl
none/x.png: its folder does not exist|--plot none/x.png --save dangling
none/x.jsonl: its folder does not exist|--log none/x.jsonl
cannot write .: Is a directory|--save .
cannot write fifo: it is not a regular file|--save fifo
END
absent run.jsonl new.st ./*.tmp.*
refuses 2 '--save cannot write to standard output: give it the name of a file' $T --save -

case_ 'an old log outlives a run that fails'
ok $T --epochs 1 --log run.jsonl
cp run.jsonl before.jsonl
rows 300 7 >bad.csv
fails 1 'bad.csv, line 7, column 1: ' $T --train bad.csv --log run.jsonl
same run.jsonl before.jsonl

case_ 'a log is continued behind its last line' # which may have been cut short
ok $T --epochs 1 --save one.st --log one.csv
while read -r lines old; do
  rm -f old.jsonl
  [ "$old" = none ] || printf %b "$old" >old.jsonl
  ok --resume one.st --save two.st --epochs 3 --log old.jsonl
  [ "$(wc -l <old.jsonl)" = $((lines + 5)) ]
  [[ $(sed -n $((lines + 1))p old.jsonl) = '{"kind": "run", '* ]]
  [ $lines = 0 ] || [[ $(sed -n 2p old.jsonl) = '{"kind": "ep'* ]]
done <<'END'
0 none
0
2 {"kind": "run"}\n{"kind": "epoch"}\n
2 {"kind": "run"}\n{"kind": "ep
END
columns=$(head -n 1 one.csv)
printf 'epoch,loss\n1,2\n%s,more\n%.9s\n' "$columns" "$columns" >other.csv # none of them ours
ok --resume one.st --save two.st --epochs 2 --log other.csv
sed -n '5p; 6s/,.*//p' other.csv | same - <(printf '%s\n2\n' "$columns")
printf '# version: 0\n%s\n1,10,0.3' "$columns" >cut.csv
ok --resume one.st --save two.st --epochs 2 --log cut.csv
ok --resume one.st --save two.st --epochs 2 --log cut.csv
sed 's/^2,2,.*/2/' cut.csv | same - <(printf '# version: 0\n%s\n1,10,0.3\n2\n2\n' "$columns")

case_ 'a log may be a link or a pipe' # of which a line comes once it is logged
for file in run new; do
  ln -s $file.jsonl to-$file.jsonl
  ok $T --epochs 1 --log to-$file.jsonl
  [ -L to-$file.jsonl ]
  [ "$(wc -l <$file.jsonl)" = 4 ]
done
mkfifo pipe.jsonl
exec 8<>fifo 9<>pipe.jsonl
start $T --train fifo --resident no --epochs 1 --log pipe.jsonl
rows 40000 >&8 # more than a reader waits for
read -t 20 -r line <&9
[[ $line = '{"kind": "run", '* ]]
exec 8>&- 9>&-
interrupt INT interrupted

case_ 'a closed standard stream writes into no other file'
rm -f run.jsonl net.st
"$MLP" $T --epochs 2 --log run.jsonl --save net.st <&- >&-
[ "$(grep -c '^{.*}$' run.jsonl)" = "$(wc -l <run.jsonl)" ]
ok --load net.st --evaluate --test test.csv --device cpu
