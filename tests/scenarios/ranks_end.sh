# Tests that all ranks of a run end together and soon, print one sentence, and leave complete files.
digits 389 61
D='--device cpu --threads 1 --hidden 24,17 --batch 29 --train digits_train.csv --test digits_test.csv'

# was_loaded LIBRARY succeeds if the program asked the loader for the library.
was_loaded() { grep -qF "$1" loaded; }

case_ 'a process alone loads no MPI'
LD_DEBUG=files "$MLP" $D --test none --epochs 1 >out 2>loaded
was_loaded libjansson
for library in libmlp-ranks libmpi libnccl; do
  ! was_loaded $library || die "it has loaded $library"
done

case_ 'a program without MPI says so' # alone in its folder, it has no libmlp-ranks.so to load
mkdir alone
cp "$MLP" alone
MLP=alone/mlp-train OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0 refuses 1 \
  "a launcher started 4 processes, but this program was built without MPI: \`make setup MPI=1\`"

# start_long RANKS DEVICE starts a run that would take hours, and waits until the run has saved a network.
start_long() {
  rm -f net
  RANKS=$1 start $D --device $2 --epochs 1000000 --save net
  printing 2 '^epoch'
}
# end_soon checks that all ranks end within seconds and that the saved network is complete.
end_soon() {
  local since=$SECONDS
  finish
  [ $((SECONDS - since)) -le 10 ] || die "they took $((SECONDS - since)) seconds to end"
  [ $status != 0 ]
  [ "$(value epoch net)" -ge 1 ]
  "$MLP" --load net --device cpu --evaluate --test digits_test.csv >whole
}
# failed_once STATUS TEXT checks that only one rank printed a message and that it has TEXT. mpirun may print more.
failed_once() {
  [ $status = $1 ] || die "exit code $status: $(cat err)"
  said "$2"
  [ "$(grep -o 'mlp-train: ' err | wc -l)" = 1 ] || die "not said once: $(cat err)"
}
# kill_each RANKS DEVICE starts a new run for each rank, and kills that rank.
kill_each() {
  local rank process try
  for ((rank = 0; rank < $1; rank++)); do
    for try in 1 2 3; do # on a busy machine, Open MPI may end the ranks before they can report
      start_long $1 $2
      process=$(process_of $rank)
      kill -KILL $process
      end_soon
      ! grep -q 'mlp-train: ' err || break
      [ $try != 3 ] || die "nobody said that rank $rank is gone"
    done
    failed_once $status "rank $rank, process $process on "
  done
}

case_ 'a rank that is killed ends all'
with_ranks || exit 0
kill_each 3 cpu

case_ 'a rank that is killed ends all, on GPUs'
if with_gpus $D; then kill_each $gpus cuda; fi

case_ 'a signal to a rank ends all'
for signal in INT TERM; do
  start_long 2 cpu
  kill -$signal "$(process_of 1)"
  end_soon
  failed_once $((128 + $(kill -l $signal))) 'rank 1 was interrupted '
  said '--resume net'
done
for rank in 0 1; do # with --seeds, ranks do not communicate while they train
  RANKS=2 start $D --epochs 1000000 --seeds 2
  printing 1 '^fusion '
  kill -TERM "$(process_of $rank)"
  finish
  failed_once 143 'interrupted: what earlier seeds gave'
done
start_long 2 cpu
kill -INT $pid # $pid is mpirun
end_soon

case_ 'what fails is said once'
mkfifo fifo
while IFS='|' read -r ranks code text options; do
  OMPI_MCA_odls_base_sigkill_timeout=0 RANKS=$ranks run $options # mpirun kills at once: no rank has anything to save
  failed_once $code "$text"
done <<END
3|1|nothing.csv does not exist|$D --train nothing.csv
3|1|--batch 2 leaves some of 3 ranks without a row|$D --batch 2
2|1|--train can be read only once, but 2 ranks read it|$D --train fifo
2|1|--test can be read only once, but 2 ranks read it|$D --test fifo
2|2|--load is for one process|--load net --evaluate
2|2|--sweep is for one process|$D --sweep lr=0.1,0.2
END

case_ 'ranks that were started otherwise than rank 0 are refused'
ok $D --epochs 2 --save other
ok $D --epochs 2 --seed 2 --save foreign
while IFS='|' read -r text first second; do
  RANKS=2 run $D $first : -n 1 "$MLP" $D $second
  failed_once 1 "rank 2 was started with $text"
  absent a.st
done <<END
--seed '2', rank 0 with '1': give all ranks the same options||--seed 2
--epochs '3', rank 0 with '2'|--epochs 2 --save a.st|--epochs 3 --save a.st
--optimizer 'adam', rank 0 with 'sgd'||--optimizer adam
--seeds '2', rank 0 with '0'||--seeds 2
a saved run of 'epoch 2, step 0, CRC-32|--epochs 3|--resume other --epochs 3
a saved run of 'epoch 2, step 0, CRC-32|--resume other --epochs 3 --seed 2|--resume foreign --epochs 3 --seed 2
END
RANKS=1 ok $D --epochs 1 --threads 2 : -n 1 "$MLP" $D --epochs 1 --threads 1

case_ 'a rank that only prints does not leave the others waiting'
for only in --dry-run --help --version; do
  for order in "$D --epochs 1|$only" "$only|$D --epochs 1"; do
    RANKS=1 start ${order%|*} : -n 1 "$MLP" ${order#*|}
    finish_soon=$SECONDS
    finish
    [ $((SECONDS - finish_soon)) -le 10 ] || die "$order took too long"
    failed_once 1 "rank 1 was started with command '$([[ $order = *"|$only" ]] && echo "$only")', rank 0 with '"
  done
done
RANKS=2 prints 1 '^batch = 64$' --dry-run

case_ 'a signal to a rank that streams ends all where both stand'
for delay in 5 6 7 8 9; do
  rm -f net
  RANKS=2 start $D --resident no --epochs 1000000 --save net
  until_ test -s net
  sleep 0.00$delay
  kill -TERM "$(process_of 1)"
  end_soon
  failed_once 143 'rank 1 was interrupted '
done
