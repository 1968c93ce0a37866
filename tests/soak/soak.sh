# Random runs of mlp-train in two ways that must give the same network, a scenario of
# tests/support/scenario.sh that MINUTES and SEED direct.
#
# Way a reads plain files and is left alone. Way b may read the same rows written otherwise (quoted,
# with a header, CRLF), packed by gzip, through a pipe or from standard input, with other threads
# and, where the order of rows does not depend on it, another --resident. At random moments signals
# come, one or two, SIGKILL too, and it is resumed with other threads. Both ways may be of the same
# number of ranks: then a signal comes to one of them or to mpirun, or one is stopped for a while.
# Networks, states of training, best networks and predictions are then the same in every bit; the logs differ in seconds alone, and in the training loss by 1e-12 of it.
# Several networks are then trained by --ensemble or --seeds, which must be the runs of their seeds, or by --sweep, whose
# trials do not depend on the threads and whose best is the run that it says. Where there is a GPU, a random configuration
# takes a few steps on it at every level that takes it: the loss is the CPU's. Standard error holds nothing but
# the sentence of an interrupted run, and nothing but SIGKILL leaves a temporary file.
#
# Case N of seed S is case 0 of seed S + N. The first case that fails ends the scenario; its folder
# stays, with the file `commands`, which says what ran.
# shellcheck disable=SC2034,SC2046,SC2164,SC2206 # scenario.sh reads case_now and ends at a failed cd; no word has a space
MOST_PIXELS=300000 # of a training file
MOST_STEPS=4000    # of a run: threads that share two cores wait long for each other
RANKS_STEPS=2000   # of a run of ranks, which wait longer
END=60             # seconds that a run may take under a sanitizer on a busy machine
ANSWER=20          # seconds from a signal to the end; 2 are promised where nothing else runs

may_rank=0
case_ 'ranks are among the runs'
if with_ranks; then may_rank=1; fi
case_ 'two ways of a random run agree'
gpu=$TOP/mlp-train # that of MLP, under a sanitizer, knows no GPU
"$gpu" $T --device cuda --epochs 1 >out 2>err || gpu=''
first=${SEED:-$(date +%s)} limit=$(awk "BEGIN { print int(60 * $MINUTES) }")
[ "$limit" -gt 0 ] || die 'MINUTES must be above 0'
place=$PROGRAMS/soak-$first
mkdir -p "$place"
cd "$place"
echo "soak: seed $first, in $place"
declare -A count=()
longest=0 RANKS='' hard=''

print_done() {
  local what
  printf '%4d s' $SECONDS
  for what in $(printf '%s\n' "${!count[@]}" | sort); do printf ', %d %s' ${count[$what]} "${what//_/ }"; done
  printf '; the end came within %.1f s\n' "$((longest / 1000))e-3"
}

# ---- drawing: in this shell, as $(...) would have other random numbers -------------------------

chance() { ((RANDOM % 100 < $1)); }
# draw NAME LOW HIGH: sets the variable to a size; small ones are as frequent as large ones.
draw() {
  local most=$3
  while ((most / 2 > $2 && RANDOM % 2)); do most=$((most / 2)); done
  printf -v $1 %d $(($2 + RANDOM % (most - $2 + 1)))
}
# pick WORD...: sets $picked.
pick() {
  local at=$((1 + RANDOM % $#))
  picked=${!at}
}
maybe() { ! chance "$1" || options+=("${@:2}"); }

# write_rows COUNT SALT OTHER: prints rows whose pixels often tell the label.
write_rows() {
  awk -v count="$1" -v state=$((seed * 2 + $2)) -v other="$3" -v inputs=$inputs -v classes=$classes '
    function put(number) { printf quote "%d" quote, number }
    BEGIN {
      if (other) {
        printf "\357\273\277label"
        for (i = 0; i < inputs; i++) printf ",pixel%d", i
        printf "\r\n"
      }
      for (row = 0; row < count; row++) {
        quote = other && row % 7 == 3 ? "\"" : ""
        for (i = 0; i < inputs; i++) {
          state = (state * 16807 + 1) % 2147483647
          pixel[i] = state % 256
        }
        put(row % 5 == 0 ? row % classes : (pixel[0] + pixel[1]) * classes / 511)
        for (i = 0; i < inputs; i++) { printf ","; put(pixel[i]) }
        printf other && row % 3 ? "\r\n" : "\n"
      }
      if (other) printf "\n\n"
    }'
}
# draw_file NAME COUNT SALT MAY_PIPE: writes a.NAME, and b.NAME in the other way; sets $source to
# what the program is told to read. A pipe is read once, so not where every epoch streams it.
draw_file() {
  local other=$((RANDOM % 2)) way=plain b=b.$1
  if chance 30; then way=packed; elif (($4)) && chance 50; then way=pipe; fi
  if [ $1 = train ] && (($4)) && chance 15; then way=input; fi
  write_rows $2 $3 0 >a.$1
  write_rows $2 $3 $other >$b
  source=$b
  case $way in
  packed) # in two members
    head -n $(($2 / 3)) $b | gzip -1 >packed
    tail -n +$(($2 / 3 + 1)) $b | gzip -9 >>packed
    mv packed $b
    ((++count[files_by_gzip]))
    ;;
  pipe) mkfifo $b.pipe && source=$b.pipe && ((++count[files_through_a_pipe])) ;;
  input) source=- && ((++count[files_through_a_pipe])) ;;
  esac
  ((!other)) || ((++count[files_of_other_CSV]))
}

# ---- runs --------------------------------------------------------------------------------------

# launch INPUT ARGUMENT...: starts mlp-train, and what feeds its pipes.
launch() {
  local pipe
  echo "mlp-train ${*:2} <$1" >>commands
  for pipe in *.pipe; do
    if [ -p $pipe ]; then dd if=${pipe%.pipe} of=$pipe bs=5000 status=none & fi
  done
  env --default-signal=INT,TERM,HUP,QUIT ${RANKS:+"$RANKED" $RANKS} "$MLP" "${@:2}" <$1 >out 2>err &
  pid=$!
}
ends_within() { timeout "$1" tail --pid=$pid -s 0.002 -f /dev/null; } 2>/dev/null # bash says who was killed
reap() {
  finish
  sed -i '/^mlp-train: note: /d' err # remarks on rows, which predictions put there
  { kill -KILL $(jobs -p); wait; } 2>/dev/null || true
}
# True if the last run came to its end: status 0 with nothing said, or 1 where the loss diverged or,
# after a hard end, there was nothing left to train.
settled() {
  if [ -n "$hard" ] && grep -qE ' is already trained for | stopped early: ' err; then status=0 && : >err; fi
  if [ $status = 1 ]; then grep -qF ': try a lower --lr' err; else [ $status = 0 ] && [ ! -s err ]; fi
}
whole() {
  launch "$@"
  ends_within $END || die 'the last command does not end'
  reap
  settled || die "the last command: status $status, it said: $(cat err)"
}
# interrupted MICROSECONDS INPUT ARGUMENT...: true if a signal ended it; sets $moment, and $hard if the
# run had no time to save.
interrupted() {
  local since victim strict=1 said left rank=$((RANDOM % ${RANKS:-1}))
  pick INT TERM HUP QUIT USR1 XCPU KILL ${RANKS:+STOP}
  since=${EPOCHREALTIME/./}
  launch "${@:2}"
  # The victim is mlp-train: before, the signal would find a shell, which ignores it. Of ranks it is one
  # of them, or mpirun at any moment.
  victim=$pid
  if [ -z "$RANKS" ] || [[ $picked != [IT]* ]] || ! chance 30; then
    until [ /proc/$victim/exe -ef "$MLP" ] || ! kill -0 $pid 2>/dev/null; do
      if [ -n "$RANKS" ]; then victim=$(process_of $rank); fi
    done
  fi
  if [ -n "$RANKS" ] && chance 70; then # it begins late: to meet is most of its time
    while kill -0 $pid 2>/dev/null && ! grep -q '^fusion ' out; do sleep 0.001; done
    left=$((RANDOM * 10))
  else
    left=$(($1 - (${EPOCHREALTIME/./} - since)))
  fi
  sleep $((left > 0 ? left : 0))e-6
  echo "  # SIG$picked to process $victim of $pid after $1 us" >>commands
  if [ $picked = KILL ] || { [ -n "$RANKS" ] && { [ "$victim" = $pid ] || ! grep -q '^data ' out; }; }; then
    strict=''
  fi
  since=${EPOCHREALTIME/./}
  kill -$picked $victim 2>/dev/null || true # it may have ended
  if [ $picked = STOP ]; then
    sleep $((RANDOM * 30))e-6
    kill -CONT $victim 2>/dev/null || true
    ends_within $END || die 'the last command does not end after a rank was stopped'
    since=${EPOCHREALTIME/./}
    ((++count[ranks_stopped]))
  elif [ -z "$RANKS" ] && [ -n "$strict" ] && chance 30; then # while it saves
    sleep $((RANDOM / 3))e-6
    kill -$picked $pid 2>/dev/null || true
    strict=''
  fi
  ends_within $ANSWER || die "the last command does not end $ANSWER s after its signal"
  since=$((${EPOCHREALTIME/./} - since))
  ((since <= longest)) || longest=$since
  reap
  [ $picked != KILL ] || rm -f ./*.tmp.*
  absent ./*.tmp.*
  ! settled || return 1
  said=$(grep -o 'mlp-train: .*' err) || true
  case $said in
  *'interrupted in epoch'*'--resume b.st'*) moment=within_an_epoch ;;
  *'interrupted after epoch'*'--resume b.st'*) moment=between_epochs ;;
  *'interrupted after the last epoch'*'--load b.st'*) moment=in_the_test ;;
  '' | 'mlp-train: interrupted' | 'mlp-train: interrupted reading '* | 'mlp-train: rank '?': interrupted')
    moment=before_training
    ;;
  *': interrupted: networks of earlier seeds'* | *': interrupted: what earlier seeds gave is above' | \
    *': interrupted: nothing of the sweep is kept') moment=between_networks ;;
  *) moment='' ;;
  esac
  if [ -z "$strict" ] && [ $picked != STOP ]; then
    hard=1 moment=at_once
  elif [ $status != $((128 + $(kill -l $picked))) ] || [ -z "$moment" ]; then
    die "the last command: status $status, it said: $(cat err)"
  fi
  [ "$(wc -l <<<"$said")" = 1 ] || die "the last command said more than one sentence: $said"
  [ -n "$RANKS" ] || [ "$(wc -l <err)" -le 1 ] || die "the last command said: $(cat err)"
  ((++count[${RANKS:+ranks_}ended_$moment]))
}
# interrupted_and_resumed MICROSECONDS INPUT ARGUMENT...: way b. It gets up to three signals, each
# within about as long as way a took.
interrupted_and_resumed() {
  local times words=("${@:3}") hard='' moment
  for ((times = RANDOM % 4; times > 0; times--)); do
    interrupted $(($1 * (RANDOM % 1000) / 1000)) $2 "${words[@]}" || return 0
    if [ $moment = in_the_test ]; then
      status=0
      return
    fi
    [ ! -e b.st ] || words=(--resume b.st --log b.csv --threads $((1 + RANDOM % 4)))
  done
  whole $2 "${words[@]}"
}
# Prints a checkpoint without its options, which name other files, one of which has a header.
state() {
  header $1 | sed 's/"options":"[^"]*"//; s/\\"header\\": [a-z]*//; s/ *$//'
  tail -c +$((9 + $(header_size $1))) $1
}
# Prints the epochs of a log, each as it was logged last: not the test after them, which may have been
# interrupted.
epochs() { grep -E '^[0-9]+,[^,]*,[^,]' $1 | tac | sort -snu -t , -k 1,1; }
# An epoch's training loss is a sum of sums, one for each part of it that was trained at a time.
same_logs() {
  paste -d , <(epochs $1) <(epochs $2) | awk -F , '
    NF != 32 || /[^-+.,0-9a-z]/ { print "a bad line or a missing epoch: " $0; exit bad = 1 }
    {
      for (i = 1; i <= 16; i++) {
        a = $i; b = $(i + 16)
        seconds = i == 8 || i == 9 || i == 14
        close_by = i == 3 && a - b <= 1e-12 * a && b - a <= 1e-12 * a
        if (a == b || seconds || close_by) continue
        print "epoch " $1 ", column " i ": " a " and " b
        exit bad = 1
      }
    }
    END { exit bad }' || die 'the logs differ'
}

# Several networks, which may be interrupted and begun again, are those of runs of their own.
try_several() {
  local words=("${options[@]}" --train a.train --test a.test --resident $resident) hard='' moment way
  local members=$((2 + RANDOM % 2)) from=$((seed % 1000)) at trials='--sweep momentum=0.1,0.5,0.9,seed=1,2'
  pick ensemble seeds sweep
  ((rows >= 20 * classes)) || picked=seeds # else no row might be left to judge by
  way=$picked
  if [ $way = sweep ]; then
    whole /dev/null "${words[@]}" --threads 1 $trials
    [ $status = 0 ] || return 0 # all diverged
    grep -E '^(sweep| +[0-9]|try) ' out | sed 's/ --threads 1//' >a.sweep
    words+=(--threads 4 $trials)
  else
    for ((at = from; at < from + members; at++)); do
      whole /dev/null "${words[@]}" --seed $at --threads 1 --save a-$at.st --log a-$at.csv
      [ $status = 0 ] || return 0 # it diverged
    done
    ((!may_rank)) || ! chance 30 || RANKS=2
    words+=(--$way $members)
    if [ $way = ensemble ]; then words+=(--save b.st); else words+=(--log b.csv); fi
  fi
  ! chance 50 || ! interrupted $((members * microseconds * (RANDOM % 1000) / 1000)) /dev/null "${words[@]}" || hard=''
  whole /dev/null "${words[@]}"
  RANKS=''
  for ((at = from; at < from + members; at++)); do
    case $way in
    ensemble) cmp <(state a-$at.st) <(state b-$at.st) || die "a-$at.st is not b-$at.st" ;;
    seeds)
      awk -F , -v seed=$at '$NF == seed' b.csv >b-$at.csv
      same_logs a-$at.csv b-$at.csv
      ;;
    esac
  done
  if [ $way = sweep ]; then
    same a.sweep <(grep -E '^(sweep| +[0-9]|try) ' out | sed 's/ --threads 4//')
    eval "$(sed -n 's/^try *//p' out)" --test none --validation 0.1 --log best.csv >best 2>&1
    best=$(sed -nE 's/^ +1 +([0-9.]+)%.*/\1/p' out)
    epochs best.csv | tail -n 1 | awk -F , -v best=$best '{ exit sprintf("%.2f", 100 * $13) != best }' ||
      die "the best trial has $best%, its command another accuracy"
  fi
  count[runs_of_$way]=$((${count[runs_of_$way]:-0} + 1))
}

# A few steps of a random configuration on the GPU, at every level that takes it, lose what they lose on the CPU.
try_gpu() {
  local hidden='' layers=$((1 + RANDOM % 4)) batch size steps=$((1 + RANDOM % 5)) square=0 level words loss cpu
  draw batch 1 5000
  local rows=$((batch * steps - RANDOM % batch)) most
  most=$((MOST_PIXELS / rows < 784 ? MOST_PIXELS / rows : 784))
  draw inputs 1 $most
  ! chance 40 || for square in 28 14 8 5 2; do ((square * square > most)) || { inputs=$((square * square)) && break; }; done
  draw classes 2 62
  for ((i = 0; i < layers; i++)); do
    draw size 1 700
    hidden+=,$size
  done
  draw size 1 50
  words=(--train few.csv --test none --classes $classes --hidden ${hidden#,} --epochs 1 --batch $batch --lr ${size}e-3
    --momentum 0.$((RANDOM % 10)) --seed $((seed % 1000)))
  options=()
  pick nesterov adam adamw
  maybe 50 --optimizer $picked
  maybe 30 --label-smoothing 0.$((RANDOM % 5))
  maybe 30 --dropout 0.$((RANDOM % 9))
  maybe 30 --ema 0.$((RANDOM % 9))
  maybe 30 --weight-decay $((RANDOM % 100))e-4
  maybe 30 --resident no
  ((square * square != inputs)) || maybe 50 --augment shift,rotate,elastic
  write_rows $rows 3 0 >few.csv
  for level in cpu none layer step epoch; do
    local where=(--device cuda --fusion $level)
    [ $level != cpu ] || where=(--device cpu)
    rm -f log.csv
    echo "mlp-train ${words[*]} ${options[*]} ${where[*]}" >>commands
    if ! "$gpu" "${words[@]}" "${options[@]}" "${where[@]}" --log log.csv >out 2>err; then
      grep -qE 'level (none|layer|step|epoch)|--fusion' err || die "the last command said: $(cat err)"
      ((++count[refused_by_a_level]))
      continue
    fi
    loss=$(tail -n 1 log.csv | cut -d , -f 3)
    cpu=${cpu:-$loss}
    awk -v a=$loss -v b=$cpu 'BEGIN { d = a - b; exit !(d * d <= (1e-3 * b) ^ 2) }' ||
      die "the last command has a loss of $loss, and the CPU $cpu"
    [ $level = cpu ] || ((++count[runs_on_a_GPU]))
  done
}

try_case() {
  local square=0 hidden=none layers=$((RANDOM % 4)) epochs=$((1 + RANDOM % 4)) rows test_rows batch most size
  local a b way network streams=0 may_pipe=0 holds_out=0 resident other threads began microseconds
  if ((may_rank)) && chance 20; then
    RANKS=$((2 + RANDOM % 3))
    epochs=$((10 + RANDOM % 40)) # that take longer than to meet
  fi
  if chance 40; then
    square=$((2 + RANDOM % 9)) inputs=$((square * square))
  else
    draw inputs 1 200
  fi
  classes=$((2 + RANDOM % 12))
  most=$((MOST_PIXELS / inputs))
  draw rows 1 $((most < 20000 ? most : 20000))
  draw test_rows 1 $((rows < 3000 ? rows : 3000))
  draw batch 1 $((2 * rows))
  ((batch >= RANKS)) || batch=$RANKS
  # shellcheck disable=SC2017 # rounded up
  while (((rows + batch - 1) / batch * epochs > (RANKS ? RANKS_STEPS : MOST_STEPS))); do batch=$((batch * 2)); done
  for ((i = 0; i < layers; i++)); do
    draw size 1 70
    hidden+=,$size
  done
  draw size 1 100
  pick step constant cosine linear
  options=(--device cpu --classes $classes --hidden ${hidden/none,/} --epochs $epochs --batch $batch
    --lr ${size}e-3 --lr-schedule $picked --momentum 0.$((RANDOM % 10)) --seed $((seed % 1000)))
  pick nesterov adam adamw
  maybe 50 --optimizer $picked
  maybe 20 --label-smoothing 0.$((RANDOM % 5))
  [ $layers = 0 ] || maybe 20 --dropout 0.$((RANDOM % 9))
  maybe 20 --ema $((9 + 9 * (RANDOM % 10)))e-2
  maybe 20 --mean 0.$((RANDOM % 5)) --std 0.5
  maybe 30 --weight-decay $((RANDOM % 100))e-4
  maybe 30 --warmup $((RANDOM % 3))
  local early=()
  ! chance 30 || early=(--early-stop $((1 + RANDOM % 2)))
  pick shift rotate=90,scale elastic shift,rotate,scale=0.3,shear,elastic=6
  [ $square = 0 ] || maybe 50 --augment $picked
  # Rows that are streamed are shuffled within a staging buffer, after the first epoch.
  resident=yes
  pick yes auto
  if chance 40; then streams=1 resident=no picked=no; fi
  [ $epochs != 1 ] || pick yes no auto
  other=$picked
  ((RANKS || epochs > 1 && streams)) || may_pipe=1
  if ((rows >= 20 * classes)) && chance 30; then # else no row might be left
    holds_out=1                                  # reads rows twice
    options+=(--validation 0.$((1 + RANDOM % 5)))
  fi
  draw_file train $rows 1 $((may_pipe && !holds_out))
  local train=$source input=/dev/null
  [ $train != - ] || input=b.train
  draw_file test $test_rows 2 $may_pipe
  local test=$source
  threads=($((1 + RANDOM % 4)) $((1 + RANDOM % 4)))
  a=("${options[@]}" "${early[@]}" --train a.train --test a.test --resident $resident --threads ${threads[0]}
    --save a.st --log a.csv)
  b=("${options[@]}" "${early[@]}" --train $train --test $test --resident $other --threads ${threads[1]}
    --save b.st --log b.csv)
  [ ${threads[0]} = ${threads[1]} ] || ((++count[of_other_threads]))
  [ $resident = $other ] || ((++count[of_other_resident]))

  [ -z "$RANKS" ] || ((++count[pairs_of_ranks]))
  began=${EPOCHREALTIME/./}
  whole /dev/null "${a[@]}"
  microseconds=$((${EPOCHREALTIME/./} - began))
  local a_status=$status
  ! grep -q '^stopped ' out || ((++count[stopped_early]))
  interrupted_and_resumed $microseconds $input "${b[@]}"
  [ $status = $a_status ] || die 'one run diverged and the other did not'
  absent ./*.tmp.*
  ((++count[pairs]))
  if [ $status = 1 ]; then
    ((++count[diverged]))
    return
  fi
  same_logs a.csv b.csv
  RANKS=''
  ((holds_out)) || ! chance 30 || try_several
  options=()
  maybe 50 --probabilities
  for network in st st.best; do
    [ -e a.$network ] || continue
    cmp <(state a.$network) <(state b.$network) || die "a.$network is not b.$network"
    for way in a.test $test; do
      whole /dev/null --load ${way:0:1}.$network --device cpu --threads $((1 + RANDOM % 4)) \
        --predict $way "${options[@]}"
      mv out ${way:0:1}.predictions
    done
    same a.predictions b.predictions
  done
}

next=60
for ((seed = first; SECONDS < limit; seed++)); do
  RANDOM=$seed
  case_now="SEED=$seed repeats it; $place/commands says what ran"
  rm -f ./*
  RANKS=''
  try_case
  rm -f ./*
  [ -z "$gpu" ] || try_gpu
  if ((SECONDS >= next)); then
    print_done
    next=$((next + 60))
  fi
done
print_done
case_now='two ways of a random run agree'
rm -r "$place"
