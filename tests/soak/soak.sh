# Interrupts and resumes random runs of mlp-train. This is a scenario of tests/support/scenario.sh.
# It runs for $MINUTES; $SEED is the seed of the first case.
#
# Each case trains in two ways. Way a reads plain files and is not interrupted. Way b reads the same
# rows from gzip files, with a random number of threads. Its --resident is random, too, unless that
# would change the order of rows. Signals, also SIGKILL, end way b at random moments. It is resumed
# with a new random number of threads. Way b's outputs are links, often without a file at their end yet,
# chains of links, pipes and open descriptors, and must stay what they are. Both ways must give the same saved networks, best networks and
# predictions, and the same pictures of the weights. They must give the same logs if no SIGKILL was sent. After a signal other than SIGKILL, a run
# prints one sentence and leaves no temporary file.
#
# The seed grows by 1 with each case. The first case that fails ends the scenario. Its folder is kept;
# the file `commands` in it lists the runs.
# shellcheck disable=SC2034,SC2164,SC2206 # scenario.sh reads case_now and ends at a failed cd; no word has a space
MOST_PIXELS=300000 # in a training file
MOST_STEPS=4000    # in a run
END=60             # seconds that a run may take under a sanitizer on a busy machine
ANSWER=20          # seconds from a signal to the end; mlp-train promises 2 on an idle machine

case_ 'a run that is interrupted and resumed is the run that is not'
first=${SEED:-$(date +%s)} limit=$(awk "BEGIN { print int(60 * $MINUTES) }")
[ "$limit" -gt 0 ] || die 'MINUTES must be above 0'
place=$PROGRAMS/soak-$first
mkdir -p "$place"
cd "$place"
echo "soak: seed $first, in $place"

# ---- random choices: set variables instead of printing, because RANDOM in $(...) ignores the seed

chance() { ((RANDOM % 100 < $1)); }
# draw NAME LOW HIGH sets variable NAME to a random size. Small sizes are more frequent.
draw() {
  local most=$3
  while ((most / 2 > $2 && RANDOM % 2)); do most=$((most / 2)); done
  printf -v $1 %d $(($2 + RANDOM % (most - $2 + 1)))
}
# pick WORD... sets $picked to a random one of the words.
pick() {
  local at=$((1 + RANDOM % $#))
  picked=${!at}
}
maybe() { ! chance "$1" || options+=("${@:2}"); }
# write_rows COUNT SALT prints rows. In four of five rows, the first two pixels determine the label.
write_rows() {
  awk -v count="$1" -v state=$((seed * 2 + $2)) -v inputs=$inputs -v classes=$classes 'BEGIN {
    for (row = 0; row < count; row++) {
      for (i = 0; i < inputs; i++) pixel[i] = (state = (state * 16807 + 1) % 2147483647) % 256
      printf "%d", row % 5 == 0 ? row % classes : (pixel[0] + pixel[1]) * classes / 511
      for (i = 0; i < inputs; i++) printf ",%d", pixel[i]
      print ""
    }
  }'
}

# ---- outputs -----------------------------------------------------------------------------------

# lead FILE makes FILE, an output that does not exist yet, a plain file or one of several links.
lead() {
  case $((RANDOM % 5)) in
    0) return ;;
    1) ln -s far/$1 $1 ;;
    2) ln -s "$PWD/far/$1" $1 ;;
    3) ln -s here/far/./$1 $1 ;;
    4) # a chain, each link of which counts from its own folder
      ln -s far/one.$1 $1
      ln -s ../two.$1 far/one.$1
      ln -s far/$1 two.$1
      ;;
  esac
  links+=($1)
}
# lay_outputs sets way b's outputs and $logged, the file where the lines of its log b.csv arrive.
lay_outputs() {
  links=() logged=b.csv
  mkdir far
  ln -s . here
  lead b.st
  lead b.st.best
  lead b.png
  pick file pipe descriptor
  case $picked in
    file)
      lead b.csv
      ! chance 50 || echo 'an old log' >b.csv
      ;;
    pipe)
      mkfifo b.csv
      logged=b.log
      exec 7<>b.csv
      ;;
    descriptor)
      ln -s /proc/self/fd/7 b.csv
      links+=(b.csv)
      logged=b.log
      exec 7>>b.log
      ;;
  esac
  echo "# b.csv is a $picked; links: ${links[*]}" >>commands
}
# collect appends the lines in the pipe b.csv to $logged. A log fits into a pipe.
collect() {
  local line
  [ -p b.csv ] || return 0
  printf '\nend\n' >&7 # SIGKILL may have cut off the last line
  while read -r line <&7 && [ "$line" != end ]; do echo "$line"; done >>$logged
}
# answers WAY NETWORK writes predictions to WAY.answers. Way b writes them to a random kind of output.
answers() {
  local words=(--load $2 --device cpu --threads $((1 + RANDOM % 4)) --predict $1.test --probabilities)
  rm -f $1.answers answers to
  pick stdout /dev/stdout link pipe descriptor
  [ $1 = b ] || picked=stdout
  case $picked in
    *stdout)
      [ $picked = stdout ] || words+=(--output $picked)
      whole "${words[@]}"
      mv out $1.answers
      ;;
    link)
      ln -s to answers
      ln -s b.answers to
      whole "${words[@]}" --output answers
      [[ -L answers && -L to ]] || die 'a link was replaced'
      ;;
    pipe)
      mkfifo answers
      cat answers >b.answers &
      local reader=$!
      whole "${words[@]}" --output answers
      wait $reader
      [ -p answers ] || die 'a pipe was replaced'
      ;;
    descriptor)
      echo precious >b.answers
      exec 6>>b.answers
      whole "${words[@]}" --output /dev/fd/6
      exec 6>&-
      [ "$(head -n 1 b.answers)" = precious ] || die 'a descriptor was emptied'
      sed -i 1d b.answers
      ;;
  esac
}

# ---- runs --------------------------------------------------------------------------------------

launch() {
  echo "mlp-train $*" >>commands
  start "$@"
}
# ends_within SECONDS checks that the run ends in time. Only SIGKILL may make it leave temporary files.
ends_within() {
  { timeout "$1" tail --pid=$pid -s 0.002 -f /dev/null && finish; } 2>/dev/null || # bash would print that it was killed
    die "the last command has not ended after $1 s"
  sed -i '/^mlp-train: note: /d' err # predictions also print remarks on rows to err
  [ $status != 137 ] || rm -f ./*.tmp.* far/*.tmp.*
  absent ./*.tmp.* far/*.tmp.*
  collect
}
# settled succeeds if the last run ended without an error. It accepts two errors: the loss diverged,
# or a resumed run had nothing left to train.
settled() {
  if grep -qE ' is already trained for | stopped early: ' err; then status=0 && : >err; fi
  if [ $status = 1 ]; then grep -qF ': try a lower --lr' err; else [ $status = 0 ] && [ ! -s err ]; fi
}
whole() {
  launch "$@"
  ends_within $END
  settled || die "the last command: status $status, it said: $(cat err)"
}
# interrupted MICROSECONDS ARGUMENT... starts a run and sends it a signal within MICROSECONDS. Succeeds if the signal ended the run.
interrupted() {
  pick INT TERM HUP QUIT USR1 XCPU KILL
  launch "${@:2}"
  until [ /proc/$pid/exe -ef "$MLP" ] || ! kill -0 $pid 2>/dev/null; do :; done
  sleep $(($1 * (RANDOM % 1000) / 1000))e-6
  echo "  # SIG$picked" >>commands
  kill -$picked $pid 2>/dev/null || true # the run may have ended
  ends_within $ANSWER
  ! settled || return 1
  [ $picked != KILL ] || killed=1
  if [ $picked != KILL ] && [ -s out ]; then # without output it had hardly begun
    failed $((128 + $(kill -l $picked))) interrupted
  fi
  ((++signals))
}
# resumed MICROSECONDS ARGUMENT... runs way b (see the top), interrupts it up to three times, and resumes
# it each time. A signal comes within MICROSECONDS, the time that way a took.
resumed() {
  local words=("${@:2}")
  for ((times = RANDOM % 4; times > 0; times--)); do
    interrupted $1 "${words[@]}" || return 0
    [ ! -e b.st ] || words=(--resume b.st --log b.csv --weights b.png --threads $((1 + RANDOM % 4)))
  done
  whole "${words[@]}"
}
# epochs LOG prints the last line of each epoch in a log, without times. Training losses are printed
# with only 8 digits, because the loss of a resumed epoch is rounded differently.
epochs() {
  grep -E '^[0-9]+,[^,]*,[^,]' $1 | tac | sort -snu -t , -k 1,1 |
    awk -F , -v OFS=, '{ $3 = sprintf("%.8g", $3); $8 = $9 = $14 = ""; print }'
}

try_case() {
  local square=0 hidden=none layers=$((RANDOM % 4)) epochs=$((1 + RANDOM % 4)) rows batch most size
  local resident=yes other network way began killed=''
  if chance 40; then square=$((2 + RANDOM % 9)) inputs=$((square * square)); else draw inputs 1 200; fi
  classes=$((2 + RANDOM % 12))
  most=$((MOST_PIXELS / inputs))
  draw rows 1 $((most < 20000 ? most : 20000))
  draw batch 1 $((2 * rows))
  # shellcheck disable=SC2017 # the division rounds up on purpose
  while (((rows + batch - 1) / batch * epochs > MOST_STEPS)); do batch=$((batch * 2)); done
  for ((i = 0; i < layers; i++)); do
    draw size 1 70
    hidden+=,$size
  done
  draw size 1 100
  pick step constant cosine linear
  options=(--device cpu --label-column 1 --classes $classes --hidden ${hidden/none,/} --epochs $epochs --batch $batch
    --lr ${size}e-3 --lr-schedule $picked --momentum 0.$((RANDOM % 10)) --seed $((seed % 1000)))
  pick nesterov adam adamw
  maybe 50 --optimizer $picked
  maybe 20 --label-smoothing 0.$((RANDOM % 5))
  [ $layers = 0 ] || maybe 20 --dropout 0.$((RANDOM % 9))
  maybe 20 --ema 0.$((RANDOM % 9))
  maybe 20 --mean 0.$((RANDOM % 5)) --std 0.5
  maybe 30 --weight-decay $((RANDOM % 100))e-4
  maybe 30 --warmup $((RANDOM % 3))
  maybe 30 --early-stop $((1 + RANDOM % 2))
  pick shift rotate=90,scale elastic shift,rotate,scale=0.3,shear,elastic=6
  [ $square = 0 ] || maybe 50 --augment $picked
  ((rows < 20 * classes)) || maybe 30 --validation 0.$((1 + RANDOM % 5)) # with fewer rows, none might be left to train
  # After the first epoch, streamed rows are shuffled only within a staging buffer.
  pick yes auto
  if chance 40; then resident=no picked=no; fi
  other=$picked
  write_rows $rows 1 >a.train
  write_rows $((1 + rows / 4)) 2 >a.test
  for way in train test; do gzip -1 <a.$way >b.$way; done

  began=${EPOCHREALTIME/./}
  whole "${options[@]}" --train a.train --test a.test --resident $resident --threads $((1 + RANDOM % 4)) \
    --save a.st --log a.csv --weights a.png
  lay_outputs
  local microseconds=$((${EPOCHREALTIME/./} - began)) a_status=$status
  resumed $microseconds "${options[@]}" --train b.train --test b.test --resident $other \
    --threads $((1 + RANDOM % 4)) --save b.st --log b.csv --weights b.png
  [ $status = $a_status ] || die 'one run diverged and the other did not'
  [ $status = 0 ] || return 0
  [ -n "$killed" ] || same <(epochs a.csv) <(epochs $logged) # SIGKILL can lose the last line: the network is saved before it
  [ ! -e b.png ] || same a.png b.png # a signal may have come before the picture
  for network in "${links[@]}"; do [ -L $network ] || die "the link $network was replaced"; done
  for network in st st.best; do
    [ -e a.$network ] || continue
    same_network a.$network b.$network
    for way in a b; do answers $way $way.$network; done
    same a.answers b.answers
  done
}

signals=0
for ((seed = first; SECONDS < limit; seed++)); do
  RANDOM=$seed
  case_now="SEED=$seed repeats it; $place/commands says what ran"
  exec 7>&-
  rm -rf ./*
  try_case
done
echo "soak: $((seed - first)) pairs of runs, $signals signals"
case_now='a run that is interrupted and resumed is the run that is not'
rm -r "$place"
