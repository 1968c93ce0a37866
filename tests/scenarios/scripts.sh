# The scripts. What they would call on the network, to install or on a GPU is a stand-in, first in
# PATH: nothing is downloaded or installed.
# shellcheck disable=SC2016 # what stand-ins are told
mkdir bin source data
export PATH=$PWD/bin:$PATH DATA_DIR=$PWD/data
unset NVCC CC CUDA CUBLAS MPI GPUS SETUP CLASS MNIST_SOURCE JOBS

# stand_in NAME: bin/NAME, a program that runs in this folder, of the shell's lines on standard input;
# it writes to log what it was called with.
stand_in() {
  { printf '#!/bin/sh\ncd "%s" || exit\necho "%s $*" >>log\n' "$PWD" "$1" && cat; } >"bin/$1"
  chmod +x "bin/$1"
}

# does STATUS TEXT SCRIPT ARGUMENT...: its exit code; what it said, in out, has TEXT in it.
does() {
  status=0
  : >log
  "$TOP/scripts/$3" "${@:4}" >out 2>&1 </dev/null || status=$?
  [[ $status = "$1" && $(<out) = *"$2"* ]] || die "${*:3}: exit code $status, not $1 and '$2': $(cat out)"
}

# ---- download_mnist.sh ---------------------------------------------------------------------

# download TEXT: fails, says that, and leaves what was there, and nothing else.
download() {
  echo old >data/mnist_test.csv
  does 1 "$1" download_mnist.sh
  holds data mnist_test.csv
  same data/mnist_test.csv - <<<old
}
images=train-images-idx3-ubyte

case_ 'a source that is not MNIST'
export MNIST_SOURCE=-source
download "there is no $images and no $images.gz in MNIST_SOURCE=./-source"
mv source ./-source
echo no images >./-source/$images
download "source/$images is not the file of MNIST: its content has another SHA-256"
rm ./-source/$images
seq 1000 | gzip | head -c 1000 >./-source/$images.gz
download "could not unpack"
# It stops a byte behind the content that is expected, long before the disk is full.
head -c 50000000 /dev/zero | gzip -1 >./-source/$images.gz
download "$images.gz is not the file of MNIST: it has more than the 47040016 bytes of that"
DATA_DIR=$PWD/log does 1 'cannot write to the folder' download_mnist.sh
unset MNIST_SOURCE

case_ 'mirrors that fail, by https alone, are tried once; a file has a largest size'
stand_in curl <<'END'
case $* in *amazonaws*) echo 'no answer' >&2; exit 7; esac
while [ "$1" != -o ]; do shift; done
head -c 20000000 /dev/zero >"$2"
END
download "Without internet: put $images.gz "
[ "$(grep -c 'curl .*--proto =https --proto-redir =https .* https://' log)" = 2 ]
grep -q 'no answer' out
! grep -q 'not the file of MNIST' out || die "$(cat out)"
stand_in curl <<<'kill $PPID; exit 7'
download ''
[ "$(wc -l <log)" = 1 ]

case_ 'it says what it takes'
does 0 'MNIST_SOURCE  a folder' download_mnist.sh --help
does 1 'takes no arguments' download_mnist.sh now
[ ! -s log ]
rm bin/*

# ---- setup.sh ------------------------------------------------------------------------------

stand_in sudo <<<'shift; exec "$@"'
# Installing is only written down; updating fails, which must not matter.
stand_in apt-get <<<'[ $1 = install ]'
stand_in apt-cache <<<'echo "  Candidate: 12.4.131~12.4.1-2"'

case_ 'setup installs what is missing, or says how'
NVCC='' does 0 'everything is there but nvcc, so the build is CPU-only' setup.sh
[ ! -s log ]
stand_in gcc <<<'[ "$1" = -fopenmp ]' # no headers
missing='libcsv-dev libstb-dev libinih-dev libjansson-dev zlib1g-dev libcmocka-dev libseccomp-dev'
NVCC='' does 0 "setup: installing $missing" setup.sh
grep -qx "apt-get install -y --no-install-recommends $missing -qq" log
stand_in clang-19 <<<'[ "$1" != -fopenmp ]'
CC=clang-19 NVCC='' does 0 'setup: installing clang-19 libomp-19-dev libc6-dev' setup.sh
stand_in apt-get <<<'exit 100'
NVCC='' does 1 "  sudo apt-get install -y --no-install-recommends $missing" setup.sh
rm bin/{gcc,clang-19}

case_ 'the driver decides whether nvcc is fetched'
stand_in python3 <<'END'
case $* in
*--version) ;;
*install*) [ ! -e offline ] || { echo 'ERROR: no network'; exit 1; }
  mkdir -p .cuda.partial/nvidia/cu13/bin .cuda.partial/nvidia/cu13/lib && cd .cuda.partial/nvidia/cu13 &&
  printf '#!/bin/sh\n' >bin/nvcc && chmod +x bin/nvcc && ! grep cublas ../../wheels.txt || : >lib/libcublas.so.13 ;;
esac
END
touch offline
while IFS='|' read -r driver setup text; do
  stand_in nvidia-smi <<<"echo $driver"
  NVCC='' CUDA=1 SETUP=$setup does 0 "$text" setup.sh
  absent .cuda .cuda.partial
done <<'END'
535.183.01|1|driver is 535.183.01, and CUDA 13 needs 580 or newer; `sudo apt-get install nvidia-cuda-toolkit` brings CUDA 12.4, which it runs
470.256.02|1|driver is 470.256.02, and CUDA 13 needs 580 or newer; update
580.95.05|1|everything is there but nvcc, so the build is CPU-only: pip cannot fetch it: no network
580.95.05|0|there is no nvcc, so the build is CPU-only: `make setup` brings it
END
NVCC='' CUDA=0 does 0 'CPU-only' setup.sh
! grep -q python3 log || die "$(<log)"

case_ 'nvcc is fetched once, cuBLAS when it is asked for'
rm offline
NVCC='' CUDA=1 does 0 'fetching nvcc into .cuda: 129 MB of' setup.sh
grep -q -e 'everything is there, CUDA through .cuda/nvidia/cu13/bin/nvcc' out
[ -d .cuda/nvidia/cu13/lib64 ] && absent .cuda.partial
NVCC=.cuda/nvidia/cu13/bin/nvcc CUDA=1 does 0 'CUDA through .cuda' setup.sh
! grep -q python3 log || die "$(<log)"
touch offline
NVCC=.cuda/nvidia/cu13/bin/nvcc CUDA=1 CUBLAS=1 does 0 'nvcc; wheels are missing: pip cannot fetch it: no network' setup.sh
rm offline
for _ in 1 2; do NVCC=.cuda/nvidia/cu13/bin/nvcc CUDA=1 CUBLAS=1 does 0 '' setup.sh; done
! grep -q python3 log || die "$(<log)"
[ -e .cuda/nvidia/cu13/lib64/libcublas.so ]
rm -r bin/* .cuda

# ---- run_tests.sh --------------------------------------------------------------------------

case_ 'tests are summed up, failed ones shown'
stand_in test_a <<<'echo 1..2; echo ok 1 - one; echo ok 2 - two'
stand_in test_b <<'END'
echo 1..6; echo noise; echo ok 1 - one
for name in 'not ok 2 # SKIP two' 'ok 3 # SKIP three' 'ok 4 - four # SKIP'; do echo there is no GPU; echo "$name"; done
echo 'not ok 5 # SKIP five'; echo ok 6 - six '#' SKIPs nothing
END
JOBS=1 does 0 '' run_tests.sh bin/test_a bin/test_b
same out - <<'END'
test_a: 2 passed, 0 failed, 0 skipped
test_b: 2 passed, 0 failed, 4 skipped
skipped 3: there is no GPU
skipped 1: no reason is given
4 passed, 0 failed, 4 skipped
END
stand_in test_a <<<"echo 1..2; echo 'not ok 1 - one'; echo '# 1 != 2'; echo ok 2 - two; exit 1"
stand_in test_b <<<'echo 1..3; echo ok 1 - one'
stand_in test_c <<<'echo 1..1; echo ok 1 - one; echo leak >&2; exit 23'
does 1 '3 passed, 4 failed, 0 skipped' run_tests.sh bin/test_a bin/test_b bin/test_c bin/nowhere
grep -qx '  | # 1 != 2' out
grep -qx '  | leak' out

case_ 'tests run at the same time, or alone'
for pair in 'a b' 'b a'; do # two that wait for each other
  stand_in test_${pair% *} <<END
touch ${pair% *}
for n in 1 2 3 4 5 6 7 8 9 10; do [ -e ${pair#* } ] && break; sleep 0.2; done
echo 1..1; [ -e ${pair#* } ] && echo ok 1 - met || echo not ok 1 - alone
END
done
JOBS=2 does 0 '2 passed, 0 failed' run_tests.sh bin/test_a bin/test_b
rm a b
stand_in test_a <<<'[ -e b ] && echo 1..1 && echo ok 1 - last'
stand_in test_b <<<'echo 1..1; sleep 0.2; touch b; echo ok 1 - one'
JOBS=3 ALONE='test_a test_d' does 0 '2 passed, 0 failed' run_tests.sh bin/test_a bin/test_b
