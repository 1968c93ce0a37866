# Tests that a signal ends mlp-train in any state, and that mlp-train then saves the trained network. A second
# signal kills it.
rows 20000 >long.csv
mkfifo fifo
ok $T --epochs 1 --save net
sed 's/$/,0,0/' test.csv >four.csv # 4 pixels, which make a square
ok $T --epochs 1 --train four.csv --test four.csv --save square

# opened NAME waits until the background run has opened a file whose name begins with NAME.
opened() {
  until_ has_open "$1"
  sleep 0.02
}
has_open() { find /proc/$pid/fd -printf '%l\n' 2>/dev/null | grep -F "/$1" >names; }

case_ 'a pipe that sends nothing' # no process writes to it
for signal in TERM HUP; do
  while read -r options; do
    start $options
    opened fifo
    interrupt $signal interrupted
  done <<END
$T --train fifo
$T --test fifo
--load net --device cpu --predict fifo
--load square --device cpu --classify fifo
--config fifo
$T --train fifo --plot never.png
END
done
absent never.png

case_ 'the test after the last epoch' # no training is left to resume, only the test
start $T --validation 0.2 --test fifo --epochs 1 --save trained.st
opened fifo
interrupt INT interrupted
ok --load trained.st --device cpu --evaluate --test test.csv

case_ 'a pipe that stops in the middle' # it stops after more than a staging buffer of rows
start $T --train fifo --resident no --epochs 1 --save half.st
exec 9>fifo
awk 'BEGIN { for (i = 0; i < 200000; i++) print "1,200,100" }' >&9
interrupt INT ' --resume half.st'
exec 9>&-
[ -f half.st ]

case_ 'a wide network in the middle of an epoch' # the epoch would take minutes
for signal in INT QUIT USR2 XCPU; do
  start $T --hidden 2000,2000 --train long.csv --save wide.st
  printing 1 '^fusion '
  sleep 0.05
  interrupt $signal ' --resume wide.st'
  [ "$(value epoch wide.st)" = 0 ]
  step=$(value step wide.st)
  [ $step -ge 1 ]
  [ $step -le 2500 ]
  absent wide.st.tmp.*
done

case_ 'a prediction'
ok $T --hidden 2000,2000 --epochs 1 --train test.csv --save slow.st
start --load slow.st --device cpu --threads 1 --predict long.csv --output predictions.csv
opened predictions.csv.tmp.
interrupt XCPU interrupted
absent predictions.csv predictions.csv.tmp.*

case_ 'a pipe that nobody reads' # the output waits for a reader, then for the reader to go on
mkfifo unread
for options in "$T --epochs 2 --log unread --save kept.st" "--load net --device cpu --predict test.csv --output unread"; do
  start $options
  sleep 0.3
  interrupt TERM interrupted
done
ok --load kept.st --device cpu --evaluate --test test.csv
exec 9<>unread
head -c 65536 /dev/zero >&9 # the pipe is full
for options in "$T --epochs 2 --log unread" "--load net --device cpu --predict test.csv --output unread"; do
  start $options
  opened unread
  sleep 0.3
  interrupt TERM interrupted
done
STDOUT=unread start $T --epochs 100000
opened unread
sleep 0.3
interrupt INT interrupted
exec 9>&-

# After the first signal, the run still trains on the current staging buffer, which takes seconds. The second
# signal kills the run at once, so the run prints no error and saves nothing.
case_ 'a second signal kills'
start $T --hidden 700,700 --batch 1 --train long.csv --save second.st
printing 1 '^fusion '
kill -TERM $pid
while sleep 0.02 && kill -INT $pid 2>/dev/null; do :; done # two signals at the same time could become one
finish
[ $status = 130 ]
[ ! -s err ]
absent second.st

case_ 'two signals at once are one request'
start $T --hidden 700,700 --batch 1 --train long.csv --save both.st
printing 1 '^fusion '
kill -TERM $pid
kill -INT $pid
finish
grep 'interrupted' err
[ -s both.st ]

case_ 'an ignored signal stays ignored' # as under nohup
env --ignore-signal=HUP --default-signal=INT "$MLP" $T --train fifo >out 2>err &
pid=$!
opened fifo
kill -HUP $pid
sleep 0.05
kill -0 $pid
interrupt INT interrupted
