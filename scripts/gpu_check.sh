#!/usr/bin/env bash
# Runs every check that needs a GPU. The checks have four parts:
#
#   tests       all tests
#   sanitizers  compute-sanitizer over the CUDA tests
#   mnist       MNIST at each level of fusion, where five runs and a resumed run must give the same bits;
#               MNIST with configs/record.conf
#   older       the CUDA tests, MNIST and the lab's ladders in builds for compute capability 7.5 and 8.0
#               (the driver compiles their PTX for this GPU); tests in which the GPU seems to have less
#               shared memory and fewer multiprocessors
#
# Writes docs/results/gpu-check.txt. Each part has a section with one line per result, which starts with PASS
# or FAIL. A part that runs replaces its section. The other sections stay if they are from the same GPU,
# driver, CUDA and sources. All output goes to build/gpu-check.log.
#
#   PART          the parts to run, separated by spaces  [all]
#   NVCC          the compiler of the CUDA Toolkit  [nvcc]
#   JOBS          programs that run at the same time  [half of the cores]
#
# A check that fails does not stop the others. The exit status is 1 if any check failed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
. scripts/run_words.sh

results=docs/results/gpu-check.txt work=build/gpu-check
parts=(tests sanitizers mnist older)
# The test programs in which some tests need a GPU.
mapfile -t cuda_tests < <(grep -lE '^ *(needs_gpu\(|KERNEL_TEST\()' tests/test_*.c |
  sed -nE '/bench|cheats/d; s#tests/(.*)\.c#\1#p')
nvcc=${NVCC:-nvcc} program=./mlp-train
export JOBS=${JOBS:-$((($(nproc) + 1) / 2))}

# record STATUS TEXT writes a line of the result. STATUS is a command's exit status; 0 means PASS.
record() {
  if [ "$1" = 0 ]; then echo "PASS  $2"; else echo "FAIL  $2"; fi | tee -a "$section"
}

# run SECONDS COMMAND... runs a command and returns its exit status. Its output also goes to $section.txt.
# Background commands ignore Ctrl-C by default. Since some tests test Ctrl-C, this function undoes that.
run() {
  echo "gpu_check: ${*:2}"
  timeout --foreground --kill-after=10 "$1" env --default-signal=INT,QUIT "${@:2}" 2>&1 | tee "$section.txt"
}
said() { cat "$section.txt"; }

# beside CHECK ARGUMENT... starts a check in the background. At most JOBS checks run at once.
started=10000
beside() {
  while [ "$(jobs -pr | wc -l)" -ge "$JOBS" ]; do wait -n; done
  local own=${section%.*}.$((++started))
  section=$own "$@" &
}

build() { run 1200 make -j"$(nproc)" SETUP=0 CUDA=1 "$@"; }

# counts [NAME] prints the counts of program NAME, or the sums of all programs, in the output of the last `run`.
counts() { said | sed -nE "s/^${1:+$1: }([0-9]+ passed, .*)/\1/p" | tail -n 1 | grep . || echo 'did not run'; }

check_tests() {
  local status=0 name skips=0
  run 1500 make test CUDA=1 JOBS="$JOBS" || status=$?
  ! said | grep -q '^skipped .*: cuBLAS is not installed' || skips=1 # a program has at most one such test
  for name in "${cuda_tests[@]}"; do
    [[ $(counts "$name") =~ ^[1-9][0-9]*\ passed,\ 0\ failed,\ [0-$skips]\ skipped$ ]]
    record $? "$name: $(counts "$name")"
  done
  record "$status" "make test: $(counts)"
}

# ---- compute-sanitizer -----------------------------------------------------------------------

# Each line has a program, the number of multiprocessors that it may use under racecheck and synccheck, and
# its checks. CHECK=TEST runs only that test. The checks that take longest come first.
#
# racecheck and initcheck do not understand the copy engine's copies or mbarriers. Hazards in shared memory
# come from kernels, not from the loader, so one program that runs all kernels is enough to find them.
#
# In level epoch, warps wait at one named barrier in several places of the code. synccheck reports this as
# divergence, even for a correct kernel of two warps that does nothing else. racecheck does not know which
# accesses such a barrier orders. So racecheck and synccheck run with one multiprocessor: too few for level
# epoch. test_lab may use all: it does not run level epoch, and its rung with clusters needs several.
sanitized='
  test_engine_results    1    memcheck initcheck synccheck
  test_many              1    racecheck=test_overflow memcheck
  test_kernels           1    memcheck racecheck initcheck synccheck
  test_kernels_gemm      1    memcheck racecheck initcheck synccheck
  test_kernels_softmax   1    memcheck racecheck initcheck synccheck
  test_kernels_wide      1    memcheck synccheck
  test_engine_interface  1    memcheck initcheck synccheck racecheck=test_read_and_write_of_cuda
  test_augment_engine    1    memcheck racecheck
  test_members           1    memcheck
  test_lab               all  memcheck racecheck'

# sanitize PROGRAM MULTIPROCESSORS TOOL[=TEST] runs PROGRAM under TOOL. It checks that TOOL finds no error and no
# hazard, and that no test fails. Failed CUDA calls are not reported: programs check their own calls, libraries theirs.
sanitize() {
  local status=0 text options=() tool=${3%=*} filter=${3#*=}
  local limits=(OMP_NUM_THREADS=2) # 2 threads for the reference, since several programs run at once
  [ "$tool" != memcheck ] || options=(--report-api-errors no)
  [[ $tool$2 != @(synccheck|racecheck)1 ]] || limits+=(MLP_TEST_GPU=1024:1)
  [ "$filter" != "$tool" ] || filter='*'
  # Skips tests of long ranges: each step is slow here, and the first steps already run all kernels.
  run 300 env "${limits[@]}" TEST_QUICK=1 TEST_FILTER="$filter" TEST_SKIP='*long_ranges*' "$sanitizer" --tool "$tool" \
    --error-exitcode 9 "${options[@]}" "build/$1" || status=$?
  text=$(said | sed -nE 's/^=* *(ERROR|RACECHECK) SUMMARY: //p' | tail -n 1)
  [[ $status != 0 || $text =~ ^0\ (errors|hazards\ displayed\ \(0\ errors,\ 0\ warnings\))$ ]] || status=1
  [ "$status" = 0 ] || text="${text:-no summary}, exit code $status"
  record "$status" "$tool $1: $text"
}

check_sanitizers() {
  local name multiprocessors tools tool
  if ! sanitizer=$(command -v compute-sanitizer "$(dirname "$nvcc")/compute-sanitizer" \
    /usr/local/cuda/bin/compute-sanitizer | grep -m 1 .); then
    record 1 'compute-sanitizer: not found; it comes with the CUDA Toolkit'
    return
  fi
  build "${cuda_tests[@]/#/build/}"
  while read -r name multiprocessors tools; do
    for tool in $tools; do beside sanitize "$name" "$multiprocessors" "$tool"; done
  done <<<"$sanitized"
  wait
}

# ---- MNIST -----------------------------------------------------------------------------------

train() { run 300 "$program" --device cuda --batch 64 "$@"; }

last_accuracy() { said | column test-acc | tail -n 1; }

check_level() {
  local name=$1
  train --fusion "$1" --precision "$2" --epochs 10
  [ "$1" != auto ] || name="auto ($(said | word fusion fusion))"
  [ "$(said | column train | wc -l)" = 10 ] && at_least "$(last_accuracy)" 98.0
  record $? "mnist $name, $2: test-acc $(last_accuracy)%, train $(said | column train | median) ms an epoch \
(median), whole process $(said | word total process)"
}

# check_bits LEVEL PRECISION checks that five runs of two epochs save the same bytes. A run that is saved
# after the first epoch and resumed must save these bytes, too.
check_bits() {
  local saved=$work/saved-$1-$2 different options=(--fusion "$1" --precision "$2" --quiet)
  mkdir "$saved"
  for n in 1 2 3 4 5; do train "${options[@]}" --epochs 2 --save "$saved/$n.st"; done
  train "${options[@]}" --epochs 1 --save "$saved/resumed.st"
  train "${options[@]}" --epochs 2 --resume "$saved/resumed.st"
  different=$(sha256sum "$saved"/{1,2,3,4,5,resumed}.st | cut -d' ' -f1 | sort -u | wc -l)
  [ "$different" = 1 ]
  record $? "mnist $1, $2: two epochs five times, and resumed after one: $different saved network"
}

# check_seeds NAME OPTION... checks that the mean test accuracy of seeds 1 to 5 is at least 98.2%.
check_seeds() {
  local seed all='' mean
  for seed in 1 2 3 4 5; do
    run 300 "$program" --quiet --seed "$seed" "${@:2}" || break
    all+=" $(last_accuracy)"
  done
  mean=$(awk '{ printf "%.3f", NF == 5 ? ($1 + $2 + $3 + $4 + $5) / 5 : 0 }' <<<"$all")
  at_least "$mean" 98.2
  record $? "mnist $1, seeds 1 to 5: test-acc$all, mean $mean%"
}

check_mnist() {
  local level
  # These checks print times, so nothing else may run at the same time.
  for level in none layer step epoch auto; do check_level "$level" fp32; done
  check_level step tf32
  run 300 "$program" --device cuda --config configs/record.conf # the best options known; see docs/accuracy.md
  at_least "$(last_accuracy)" 99.45
  record $? "mnist configs/record.conf: test-acc $(last_accuracy)% after the last epoch, whole process \
$(said | word total process)"
  for level in none layer step epoch; do beside check_bits "$level" fp32; done
  beside check_bits step tf32
  for level in layer step epoch; do beside check_seeds "$level" --device cuda --fusion "$level"; done
  beside check_seeds cpu --device cpu
  wait
}

# ---- older GPUs ------------------------------------------------------------------------------

# check_as CAPABILITY checks a build whose kernels are only PTX for this compute capability (75 means 7.5).
check_as() {
  local name=${1%?}.${1: -1} place=build/older-$1 level all='' status=0 programs
  programs=("${cuda_tests[@]/#/$place/}") program=$place/mlp-train
  if ! build BUILD="$place" PLACE="$place" ARCH="-gencode arch=compute_$1,code=compute_$1" \
    "${programs[@]}" "$program" "$place/mlp-lab"; then
    record 1 "as $name: cannot be built"
    return
  fi
  run 600 env TEST_QUICK=1 scripts/run_tests.sh "${programs[@]}"
  record $? "as $name: CUDA tests: $(counts)"
  for level in none layer step epoch; do
    [ "$1$level" != 75epoch ] || continue # level epoch needs Ampere or later
    train --fusion "$level" --quiet --epochs 10 && at_least "$(last_accuracy)" 98.0 || status=1
    all+=" $level $(last_accuracy)"
  done
  record "$status" "as $name: mnist test-acc$all"
  run 300 "$place/mlp-lab" all --check
  record $? "as $name: lab: $(said | grep -cE '^ *[0-9]+ .* right$') rungs right, \
$(said | grep -cE '^ *[0-9]+ .* refused$') refused with a reason"
}

check_older() {
  local capability limited=(build/test_{kernels,engine_results,engine_interface,lab})
  for capability in 75 80; do beside check_as "$capability"; done
  build "${limited[@]}"
  wait
  # MLP_TEST_GPU makes the code plan for a GPU with 99 KB of shared memory, 66 multiprocessors and no clusters.
  run 300 env TEST_QUICK=1 MLP_TEST_GPU=99:66 scripts/run_tests.sh "${limited[@]}"
  record $? "as with 99 KB and 66 multiprocessors: CUDA tests: $(counts)"
  rm -rf build/older-*
}

# ---- all of it -------------------------------------------------------------------------------

# Writes $results. The section of a part that did not run is copied from the old $results if GPU, driver,
# CUDA and sources are the same.
join() {
  local name same
  [ "$(head -n 4 "$results" 2>/dev/null)" = "$(<"$work/header")" ] && same=$(<"$results")
  for name in "${parts[@]}"; do
    echo
    cat "$work/$name".????? 2>/dev/null ||
      awk -v name="$name," '$1 == name { on = 1 } $0 == "" { on = 0 } on' <<<"${same-}" | grep . ||
      echo "$name, not run on these sources"
  done | cat "$work/header" - >"$work/joined" && cp "$work/joined" "$results"
}

main() {
  local part
  {
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | sed -n '1s/^/gpu      /; 1s/, /\ndriver   /p'
    echo "cuda     $("$nvcc" --version | awk -F'release |,' '/release/ { print $3 }')"
    echo "sources  $(make -s print-sources)"
  } >"$work/header"
  trap 'jobs -pr | xargs -r kill' EXIT
  trap 'exit 1' INT TERM HUP
  # If this fails, parts that need the missing files fail later.
  run 600 make setup && build all tests
  run 120 scripts/download_mnist.sh
  for part in "${wanted[@]}"; do
    section=$work/$part.10000
    echo "$part, $(date -u +%F)" >"$section"
    "check_$part"
    join # if this script is stopped later, this part is recorded
  done
  ! grep -q ^FAIL "$work"/*.?????
}

read -ra wanted <<<"${PART:-all}"
[ "${wanted[*]}" != all ] || wanted=("${parts[@]}")
for name in "${wanted[@]}"; do
  [[ " ${parts[*]} " = *" $name "* ]] || complain 1 "PART=$name is not a part: use all or some of ${parts[*]}"
done
nvidia-smi -L >/dev/null 2>&1 || complain 1 'no GPU is visible to nvidia-smi, so there is nothing to check'
command -v "$nvcc" >/dev/null || complain 1 'the CUDA Toolkit (nvcc) was not found'
rm -rf "$work" && mkdir -p "$work"
section=$work/setup
main 2>&1 | tee -i build/gpu-check.log
