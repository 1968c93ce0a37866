# Tests that streaming takes no more memory if a file has $STREAM_TIMES times $STREAM_ROWS rows.
count=${STREAM_ROWS:-20000} # more rows than are ever read ahead
times=${STREAM_TIMES:-3}
stream='--device cpu --threads 2 --epochs 1 --resident no --hidden 16 --quiet --test digits_test.csv'

# measure FILE trains on the file. Sets $peak to the run's peak memory in KB.
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
echo "$count rows: $one KB; $((count * times)) rows: $many KB"
# If rows stayed in memory, 40000 more rows would take 31 MB. Sanitizers keep freed memory, so a
# program that was built with a sanitizer is not checked.
sanitized || [ $many -le $((one + 16 * 1024)) ]
