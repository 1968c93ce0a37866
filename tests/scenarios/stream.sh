# A file several times as long, streamed: the same memory; and from a file, a pipe and an archive the
# same rows. $STREAM_ROWS rows and $STREAM_TIMES as many; `make stream` takes as many as MNIST has,
# and ten times that.
count=${STREAM_ROWS:-20000} # more than are ever read ahead
times=${STREAM_TIMES:-3}
stream='--device cpu --threads 2 --epochs 1 --resident no --hidden 16 --quiet --test digits_test.csv'

# result: prints the line of the last run's epoch as far as its accuracies; times follow.
result() { grep '^epoch ' out | grep -o '.*%'; }
# measure FILE: a run on the file. Sets $peak to the memory in KB that it took at most.
measure() {
  local now
  start $stream --train $1
  while now=$(sed -n 's/^VmHWM:\t *\([0-9]*\) kB/\1/p' /proc/$pid/status 2>/dev/null); do
    peak=${now:-$peak}
    sleep 0.01
  done
  finish
  [ $status = 0 ] || die "$(cat err)"
}

case_ 'memory does not grow with the file'
digits $((count * times)) 100
head -n $count digits_train.csv >one.csv
measure one.csv
one=$peak
measure digits_train.csv
many=$peak
result >file
echo "$count rows: $one KB; $((count * times)) rows: $many KB: $(<file)"
# The pixels of 40000 rows are 31 MB. A sanitizer keeps what was freed.
sanitized || [ $many -le $((one + 16 * 1024)) ]

case_ 'a pipe and an archive are the same rows'
tail -n +1 digits_train.csv | "$MLP" $stream --train - >out
result | diff file -
gzip -1 <digits_train.csv >many.csv.gz
ok $stream --train many.csv.gz
result | diff file -
