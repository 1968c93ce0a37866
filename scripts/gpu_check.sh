#!/usr/bin/env bash
# Every check that needs a GPU, in parts:
#
#   tests       all the tests
#   sanitizers  compute-sanitizer over the CUDA tests
#   mnist       MNIST at each level of fusion, the same bits five times and after a resumed run,
#               configs/record.conf
#   older       the CUDA tests, MNIST and the lab as GPUs of compute capability 7.5, 8.0, 8.6 and 8.9
#               would run them: the driver compiles their PTX for this GPU; the tests with less
#               shared memory and fewer multiprocessors
#   faults      GPUs that cannot be used
#
# Writes docs/results/gpu-check.txt, one section per part and one line per result, PASS or FAIL first.
# A part that is run alone replaces its own section and keeps the others, provided that they are of
# the same GPU and the same sources; so parts that each take minutes join into one record. Where there
# are several GPUs, the parts run at once, but for tests and mnist, which time what they run: those
# have a GPU of their own, one after the other. All output is in build/gpu-check.log.
#
#   PART          the parts to run, separated by spaces  [all]
#   NVCC          the CUDA Toolkit's compiler  [nvcc]
#   ARCH          the GPUs to build for  [-arch=native]
#   JOBS          programs that run at the same time  [half of the cores]
#   SETUP=0, MNIST_SOURCE  see the Makefile and scripts/download_mnist.sh
#
# A check that fails does not stop the others. Exit status 1 if any of the parts that ran failed.
# shellcheck disable=SC2317 # functions that traps call, and checks that `beside` does
set -uo pipefail
export LC_ALL=C # a decimal point is a point
cd "$(dirname "$0")/.." || exit

results=docs/results/gpu-check.txt
parts=(tests sanitizers mnist older faults)
work=build/gpu-check # the sections of this run, one file per part
log=build/gpu-check.log
cuda_tests=(test_kernels test_kernels_gemm test_kernels_softmax test_kernels_optimizer
            test_kernels_wide test_engine_cuda test_engine_cuda_interface test_training_options
            test_augment test_augment_engine test_exercise test_lab_rungs test_cuda_faults)
nvcc=${NVCC:-nvcc}
export JOBS=${JOBS:-$((($(nproc) + 1) / 2))}
export ARCH=${ARCH:--arch=native}

failed=0
part= # the one that runs
section= # the file that its results go to
step=$work/output.txt # of the command that ran last

# record STATUS TEXT: writes a result; STATUS is that of a command, 0 for PASS.
record() {
  local word=PASS
  [ "$1" = 0 ] || word=FAIL
  echo "$word  $2" >>"$section"
  tail -n 1 "$section"
}

# run SECONDS COMMAND...: returns the exit status; the output goes to $step, too. What runs beside
# others does not ignore Ctrl-C, as the shell would have it: there are tests of that.
run() {
  local limit=$1
  shift
  echo "gpu_check: $*"
  timeout --foreground --kill-after=10 "$limit" env --default-signal=INT,QUIT "$@" 2>&1 | tee "$step"
  return "${PIPESTATUS[0]}"
}

# beside CHECK ARGUMENT...: starts a check beside others, at most JOBS at once.
started=10000
beside() {
  while [ "$(jobs -pr | wc -l)" -ge "$JOBS" ]; do wait -n; done
  started=$((started + 1)) # 10001 and so on, which sort by name as by number
  section=$work/$part.$started step=$work/$part.$started.txt "$@" &
}

# gather: waits for them and takes their results, in the order of their starts.
gather() {
  wait
  collect "$part"
}

# collect PART: what has been checked so far beside other checks goes to the part's section.
collect() {
  local file
  for file in "$work/$1".1[0-9][0-9][0-9][0-9]; do
    [ -f "$file" ] || continue
    cat "$file" >>"$work/$1"
    rm "$file"
  done
}

# at_least VALUE LEAST: of two numbers; no value at all is less.
at_least() {
  awk -v value="$1" -v least="$2" 'BEGIN { exit !(value >= least) }'
}

# build TARGET...
build() {
  run 1200 make -j"$(nproc)" SETUP=0 "$@"
}

header() {
  local gpu driver
  IFS=, read -r gpu driver < <(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader)
  echo "gpu      $gpu"
  echo "driver   ${driver# }"
  echo "cuda     $("$nvcc" --version | awk -F'release |,' '/release/ { print $3 }')"
  echo "sources  $(make -s print-sources)"
}

# ---- tests -----------------------------------------------------------------------------------

# counts NAME: what the line "NAME: 3 passed, 0 failed, 0 skipped" says; without NAME, the sum.
counts() {
  awk -v name="$1" '
    name != "" && $1 == name ":" || name == "" && /^[0-9]+ passed, / { line = $0 }
    END { sub(/^[^:]*: /, "", line); print line == "" ? "did not run" : line }' "$step"
}

check_tests() {
  local status=0 text
  run 1500 env ALONE='test_trace_cuda test_engine_cuda_interface' make test || status=$?
  for name in "${cuda_tests[@]}"; do
    text=$(counts "$name")
    [[ $text =~ ^[1-9][0-9]*\ passed,\ 0\ failed,\ 0\ skipped$ ]]
    record $? "$name: $text"
  done
  record "$status" "make test: $(counts '')"
}

# ---- compute-sanitizer -----------------------------------------------------------------------

# sanitize TOOL PROGRAM [OPTION...]: checks that there is no error, no hazard and no failed test.
sanitize() {
  local tool=$1 program=$2 status=0 text
  shift 2
  # Of 1600 steps the first few run all that there is to check; every step takes long here.
  run 120 env TEST_QUICK=1 TEST_SKIP='*long_ranges' "$sanitizer" --tool "$tool" --error-exitcode 9 \
    "$@" "build/$program" || status=$?
  text=$(awk '/ SUMMARY: / { sub(/^=* *(ERROR|RACECHECK) SUMMARY: /, ""); text = $0 }
              END { print text }' "$step")
  case $text in
  '0 errors' | '0 hazards displayed (0 errors, 0 warnings)') ;;
  *) [ "$status" != 0 ] || status=1 ;;
  esac
  [ "$status" = 0 ] || text="${text:-no summary}, exit code $status"
  record "$status" "$tool $program: $text"
}

check_memory() {
  sanitizer=
  for candidate in compute-sanitizer "$(dirname "$nvcc")/compute-sanitizer" \
                   /usr/local/cuda/bin/compute-sanitizer; do
    if command -v "$candidate" >/dev/null; then
      sanitizer=$candidate
      break
    fi
  done
  if [ -z "$sanitizer" ]; then
    record 1 'compute-sanitizer: not found; it comes with the CUDA Toolkit'
    return
  fi
  build "${cuda_tests[@]/#/build/}"
  # The programs check every status themselves; calls of libraries that fail are not our errors.
  for name in test_kernels test_kernels_gemm test_kernels_softmax test_kernels_optimizer; do
    beside sanitize memcheck "$name" --report-api-errors no
    for tool in racecheck initcheck synccheck; do beside sanitize "$tool" "$name"; done
  done
  # Copies by the copy engine and mbarriers are beyond racecheck and initcheck.
  beside sanitize memcheck test_kernels_wide --report-api-errors no
  beside sanitize synccheck test_kernels_wide
  # Hazards in shared memory come from the kernels, not from the loader: these tests run them all.
  TEST_FILTER='test_same_bits' beside sanitize racecheck test_engine_cuda
  for name in test_engine_cuda test_engine_cuda_interface; do
    beside sanitize memcheck "$name" --report-api-errors no
    beside sanitize initcheck "$name"
    beside sanitize synccheck "$name"
  done
  for name in test_augment test_augment_engine test_lab_rungs; do
    beside sanitize memcheck "$name" --report-api-errors no
    beside sanitize racecheck "$name"
  done
  gather
}

# ---- MNIST -----------------------------------------------------------------------------------

# train LEVEL PRECISION OPTION...
train() {
  local level=$1 precision=$2
  shift 2
  run 300 "${program:-./mlp-train}" --device cuda --fusion "$level" --precision "$precision" --batch 64 \
    --train data/mnist_train.csv --test data/mnist_test.csv "$@"
}

# column NAME: of the run in $step, the epochs' numbers in that column, one per line.
column() {
  awk -v name="$1" '
    $1 == "loss" { for (i = 1; i <= NF; i++) if ($i == name) column = i + 2 }
    $1 == "epoch" && column { print $column }' "$step"
}

# last_accuracy: of the run in $step, the last test accuracy in percent.
last_accuracy() {
  local text
  text=$(column test-acc | tail -n 1)
  echo "${text%\%}"
}

# process_time: of the run in $step, the time of the whole process.
process_time() {
  awk '$1 == "total" { for (i = 1; i < NF; i++) if ($i == "process") print $(i + 1) }' "$step"
}

# measure: of the run in $step, the level in use, the last test accuracy in percent, the median of
# the ten epochs' times in ms, and the time of the whole process.
measure() {
  local level median process
  level=$(awk '$1 == "fusion" { sub(/:$/, "", $2); print $2 }' "$step")
  median=$(column train | awk '{ print /ms$/ ? $0 + 0 : 1000 * $0 }' | sort -g |
    awk '{ time[NR] = $0 } END { if (NR == 10) printf "%.2f", (time[5] + time[6]) / 2 }')
  process=$(process_time)
  [ -n "$level" ] && [ -n "$median" ] && [ -n "$process" ] &&
    echo "$level $(last_accuracy) $median $process"
}

# check_level LEVEL PRECISION
check_level() {
  local asked=$1 precision=$2 level accuracy time process name
  if ! train "$asked" "$precision" --epochs 10 ||
    ! read -r level accuracy time process < <(measure); then
    record 1 "mnist $asked, $precision: did not train for ten epochs"
    return
  fi
  name=$asked$([ "$asked" != auto ] || echo " ($level)")
  at_least "$accuracy" 98.0
  record $? "mnist $name, $precision: test-acc $accuracy%, train $time ms an epoch (median), \
whole process $process"
}

# check_bits LEVEL PRECISION: five runs of two epochs save the same bytes, and so does one that is
# saved after the first epoch and resumed.
check_bits() {
  local saved digests different
  saved=$(mktemp -d "$work/saved.XXXXXX")
  for n in 1 2 3 4 5; do
    train "$1" "$2" --quiet --epochs 2 --save "$saved/$n.safetensors" || break
  done
  train "$1" "$2" --quiet --epochs 1 --save "$saved/resumed.safetensors" &&
    train "$1" "$2" --quiet --epochs 2 --resume "$saved/resumed.safetensors"
  digests=$(cd "$saved" && sha256sum ./*.safetensors | cut -d' ' -f1)
  different=$(sort -u <<<"$digests" | wc -l)
  [ "$(wc -l <<<"$digests")" = 6 ] && [ "$different" = 1 ]
  record $? "mnist $1, $2: two epochs five times, and resumed after one: $different saved network"
  rm -rf "$saved"
}

# check_seeds NAME OPTION...: the mean test accuracy of seeds 1 to 5 is that of the defaults.
check_seeds() {
  local name=$1 seed all='' mean
  shift
  for seed in 1 2 3 4 5; do
    run 300 ./mlp-train --quiet --seed "$seed" "$@" || break
    all+=" $(last_accuracy)"
  done
  mean=$(awk '{ for (i = 1; i <= NF; i++) sum += $i; printf "%.3f", NF == 5 ? sum / 5 : 0 }' <<<"$all")
  at_least "$mean" 98.2
  record $? "mnist $name, seeds 1 to 5: test-acc$all, mean $mean%"
}

# The best that we know: docs/accuracy.md.
check_record() {
  local accuracy
  run 300 ./mlp-train --device cuda --config configs/record.conf
  accuracy=$(last_accuracy)
  at_least "$accuracy" 99.45
  record $? "mnist configs/record.conf: test-acc $accuracy% after the last epoch, whole process \
$(process_time)"
}

check_mnist() {
  # These print times, so nothing runs beside them.
  for level in none layer step epoch auto; do check_level "$level" fp32; done
  check_level step tf32
  check_record
  for level in none layer step epoch; do beside check_bits "$level" fp32; done
  beside check_bits step tf32
  for level in layer step epoch; do beside check_seeds "$level" --device cuda --fusion "$level"; done
  beside check_seeds cpu --device cpu
  gather
}

# ---- older GPUs ------------------------------------------------------------------------------

# dotted CAPABILITY: 7.5 for 75.
dotted() {
  echo "${1%?}.${1: -1}"
}

# outcomes WORDS: of the lab in $step, how many rungs ended in one of the words.
outcomes() {
  grep -cE "^ *[0-9]+ .* ($1)\$" "$step"
}

# check_older CAPABILITY: a build with nothing but PTX of that compute capability, 75 for 7.5.
check_older() {
  local name place=build/older-$1 level accuracy all='' status=0 programs
  name=$(dotted "$1")
  programs=("${cuda_tests[@]/#/$place/}")
  if ! build BUILD="$place" PLACE="$place" ARCH="-gencode arch=compute_$1,code=compute_$1" \
    "${programs[@]}" "$place/mlp-train" "$place/mlp-lab"; then
    record 1 "as $name: cannot be built"
    return
  fi
  run 600 env TEST_QUICK=1 scripts/run_tests.sh "${programs[@]}" || status=$?
  record "$status" "as $name: CUDA tests: $(counts '')"
  status=0
  for level in none layer step epoch; do
    # Level epoch starts with Ampere.
    [ "$1$level" != 75epoch ] || continue
    program=$place/mlp-train train "$level" fp32 --quiet --epochs 10 || status=1
    accuracy=$(last_accuracy)
    at_least "$accuracy" 98.0 || status=1
    all+=" $level ${accuracy:-failed}"
  done
  record "$status" "as $name: mnist test-acc$all"
  status=0
  run 300 "$place/mlp-lab" all --check || status=$?
  record "$status" "as $name: lab: $(outcomes 'right|caught') rungs right, $(outcomes refused) \
refused with a reason"
}

# check_limited KB MULTIPROCESSORS TEST...: this GPU, believed to be smaller: docs/gpus.md.
check_limited() {
  local kilobytes=$1 processors=$2 status=0
  shift 2
  run 300 env TEST_QUICK=1 MLP_TEST_SHARED="$kilobytes" MLP_TEST_PROCESSORS="$processors" \
    scripts/run_tests.sh "$@" || status=$?
  record "$status" "as with $kilobytes KB and $processors multiprocessors: CUDA tests: $(counts '')"
}

check_all_older() {
  local here limited=(build/test_{kernels,engine_cuda,engine_cuda_interface,lab_rungs})
  here=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
  for capability in 75 80 86 89; do
    if [ "$capability" -le "${here:-0}" ]; then
      beside check_older "$capability"
    else
      echo "----  as $(dotted "$capability"): newer than this GPU" >>"$section"
    fi
  done
  build "${limited[@]}"
  beside check_limited 64 14 "${limited[@]}"
  beside check_limited 99 28 "${limited[@]}"
  beside check_limited 99 128 "${limited[@]}"
  beside check_limited 163 108 "${limited[@]}"
  gather
  rm -rf build/older-*
}

# ---- GPUs that cannot be used ----------------------------------------------------------------

# check_fault NAME PROGRAM OPTION...: --device cuda fails with one sentence and exit code 1, and
# --device auto trains on the CPU.
check_fault() {
  local name=$1 program=$2 data=(--epochs 1 --train data/mnist_test.csv --test data/mnist_test.csv)
  local status=0 sentence
  shift 2
  run 120 "$program" --device cuda "${data[@]}" "$@" || status=$?
  sentence=$(grep '^mlp-train: ' "$step")
  [ "$status" = 1 ] && [ "$(wc -l <"$step")" = 1 ]
  record $? "fault $name: ${sentence#mlp-train: }"
  run 120 "$program" --device auto "${data[@]}" "$@" && grep -q '^device   CPU, .* (.*)$' "$step"
  record $? "fault $name, auto: $(grep '^device ' "$step")"
}

check_faults() {
  CUDA_VISIBLE_DEVICES='' check_fault 'no GPU' ./mlp-train
  check_fault 'memory' ./mlp-train --device-memory 4
  # A GPU that is not in this machine.
  if build BUILD=build/others PLACE=build/others \
    ARCH='-gencode arch=compute_110,code=sm_110' build/others/mlp-train; then
    check_fault 'older GPU' build/others/mlp-train
  else
    record 1 'fault older GPU: the program for it cannot be built'
  fi
  rm -rf build/others
  # MNIST does not fit, its staging buffers do: it is streamed.
  run 120 ./mlp-train --device auto --device-memory 120 --epochs 1 &&
    grep -q '^data .* streamed every epoch$' "$step" && ! grep -q '^device   CPU' "$step"
  record $? "fault little memory, auto: $(grep '^data ' "$step")"
}

# ---- all of it -------------------------------------------------------------------------------

# check_part PART: writes its section.
check_part() {
  part=$1 section=$work/$1 step=$work/$1.txt
  echo "$part, $(date -u +%F)" >"$section"
  case $part in
  tests) check_tests ;;
  sanitizers) check_memory ;;
  mnist) check_mnist ;;
  older) check_all_older ;;
  faults) check_faults ;;
  esac
  touch "$work/$part.done"
}

# earlier PART: its section of the earlier record, if that is of this GPU and these sources.
earlier() {
  [ "$(head -n 4 "$results" 2>/dev/null)" = "$(cat "$work/header")" ] &&
    awk -v name="$1," '$1 == name { on = 1 } $0 == "" { on = 0 } on' "$results" | grep .
}

# Writes the record: the sections of this run and of the earlier one.
join() {
  local name
  mkdir -p "$(dirname "$results")"
  {
    cat "$work/header"
    for name in "${parts[@]}"; do
      echo
      if [ -f "$work/$name.done" ]; then
        cat "$work/$name"
      else
        earlier "$name" || echo "$name, not run on these sources"
      fi
    done
  } >"$work/joined" && cp "$work/joined" "$results"
}

# stop: ends what runs beside.
stop() {
  local running
  running=$(jobs -pr)
  # shellcheck disable=SC2086 # several numbers
  [ -z "$running" ] || kill $running
}

finish() {
  trap - EXIT
  stop
  for part in "${wanted[@]}"; do
    if [ -f "$work/$part" ] && [ ! -f "$work/$part.done" ]; then
      section=$work/$part
      collect "$part"
      record 1 "gpu_check: interrupted, the rest of this part was not checked"
      touch "$work/$part.done"
    fi
    ! grep -qs ^FAIL "$work/$part" || failed=1
  done
  join
  echo "gpu_check: $([ "$failed" = 0 ] && echo 'all passed' || echo 'something failed'): $results"
  exit "$failed"
}

main() {
  header >"$work/header"
  trap finish EXIT
  trap 'exit 1' INT TERM HUP
  # What is missing after this fails in the parts that want it.
  run 600 make setup && build all
  run 120 scripts/download_mnist.sh
  local gpus index alone=() others=()
  gpus=$(nvidia-smi -L | wc -l)
  if [ "$gpus" = 1 ]; then
    for part in "${wanted[@]}"; do
      check_part "$part"
      join # what is cut off later costs this part nothing
    done
    return
  fi
  build tests # or parts at the same time would build them
  for part in "${wanted[@]}"; do
    case $part in
    tests | mnist) alone+=("$part") ;;
    *) others+=("$part") ;;
    esac
  done
  (
    trap 'stop; exit 1' TERM
    for part in "${alone[@]}"; do CUDA_VISIBLE_DEVICES=0 check_part "$part"; done
  ) &
  for index in "${!others[@]}"; do
    (
      trap 'stop; exit 1' TERM
      CUDA_VISIBLE_DEVICES=$((1 + index % (gpus - 1))) check_part "${others[index]}"
    ) &
  done
  while [ -n "$(jobs -pr)" ]; do
    wait -n
    join
  done
}

read -ra wanted <<<"${PART:-all}"
[ "${wanted[*]}" != all ] || wanted=("${parts[@]}")
for name in "${wanted[@]}"; do
  case " ${parts[*]} " in
  *" $name "*) ;;
  *)
    echo "gpu_check: PART=$name is not a part: use all or some of ${parts[*]}" >&2
    exit 1
    ;;
  esac
done
if ! nvidia-smi -L >/dev/null 2>&1; then
  echo 'gpu_check: no GPU is visible to nvidia-smi, so there is nothing to check' >&2
  exit 1
fi
if ! command -v "$nvcc" >/dev/null; then
  echo 'gpu_check: the CUDA Toolkit (nvcc) was not found' >&2
  exit 1
fi
rm -rf "$work" && mkdir -p "$work"
main 2>&1 | tee -i "$log"
exit "${PIPESTATUS[0]}"
