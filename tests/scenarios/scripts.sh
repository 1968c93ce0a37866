# The scripts. What they would call on the network, to install or on a GPU is a stand-in, first in
# PATH: nothing is downloaded or installed.
# shellcheck disable=SC2016 # what stand-ins are told
mkdir bin source data
export PATH=$PWD/bin:$PATH DATA_DIR=$PWD/data
unset NVCC CC CUDA MPI MNIST_SOURCE

# stand_in FILE: a program that runs in this folder, of the shell's lines on standard input; it
# writes to log what it was called with.
stand_in() {
  { printf '#!/bin/sh\ncd "%s" || exit\n' "$PWD" && cat; } >"$1"
  chmod +x "$1"
}

# does STATUS SCRIPT ARGUMENT...: its exit code; what it said is in out.
does() {
  status=0
  : >log
  "$TOP/scripts/$2" "${@:3}" >out 2>&1 </dev/null || status=$?
  [ $status = "$1" ] || die "${*:2}: exit code $status, not $1: $(cat out)"
}

# says TEXT...: all of them stand in out, as they are.
says() {
  local text
  for text; do [[ $(<out) = *"$text"* ]] || die "'$text' is not in: $(cat out)"; done
}

# ---- download_mnist.sh ---------------------------------------------------------------------

# download TEXT...: fails, says all of that, and leaves what was there, and nothing else.
download() {
  echo old >data/mnist_test.csv
  does 1 download_mnist.sh
  says "$@"
  holds data mnist_test.csv
  same data/mnist_test.csv - <<<old
}
images=train-images-idx3-ubyte

case_ 'a source that is not MNIST'
export MNIST_SOURCE=$PWD/source
download "there is no $images and no $images.gz in MNIST_SOURCE=$MNIST_SOURCE"
echo no images >source/$images
download "source/$images is not the file of MNIST: its content has another SHA-256"
gzip source/$images
download "$images.gz is not the file of MNIST: its content has another SHA-256"
seq 1000 | gzip | head -c 1000 >source/$images.gz
download "could not unpack"
# It stops a byte behind the content that is expected, long before the disk is full.
head -c 50000000 /dev/zero | gzip -1 >source/$images.gz
download "$images.gz is not the file of MNIST: it has more than the 47040016 bytes of that"
DATA_DIR=$PWD/log does 1 download_mnist.sh
says 'cannot write to the folder' DATA_DIR
unset MNIST_SOURCE

case_ 'mirrors that fail are tried once'
stand_in bin/curl <<'END'
for address; do :; done # the last argument
echo "$address" >>log
case $address in *amazonaws*) echo 'no answer' >&2; exit 7; esac
while [ "$1" != -o ]; do shift; done
echo something else >"$2"
END
download 'no answer' 'no MNIST from https://ossci-datasets.s3.amazonaws.com/mnist' \
  "$images.gz is not the file of MNIST" \
  'no MNIST from https://storage.googleapis.com/cvdf-datasets/mnist' \
  "Without internet: put $images.gz " 'set MNIST_SOURCE to it'
same log - <<END
https://ossci-datasets.s3.amazonaws.com/mnist/$images.gz
https://storage.googleapis.com/cvdf-datasets/mnist/$images.gz
END

case_ 'a signal ends the download'
stand_in bin/curl <<<'echo called >>log; kill $PPID; exit 7'
download ''
same log - <<<called

case_ 'only https is used'
stand_in bin/curl <<<'echo "$*" >>log; exit 7'
download ''
[ "$(grep -c -e '--proto =https --proto-redir =https' log)" = 2 ]
rm bin/curl
mkdir tools
stand_in tools/wget <<<'echo "$*" >>log; exit 4'
for tool in bash cat gunzip head mktemp rm sha256sum wc; do ln -s "$(command -v $tool)" tools; done
PATH=$PWD/tools does 1 download_mnist.sh # without curl
[ "$(grep -c -e '--max-redirect=0.* https://' log)" = 2 ]

# ---- setup.sh ------------------------------------------------------------------------------

# can_install STATUS: installing is only written down, and ends so; updating fails, which must not
# matter.
can_install() {
  stand_in bin/apt-get <<<"echo \"\$@\" >>log; [ \$1 = install ] && exit $1"
  stand_in bin/sudo <<<'shift; exec "$@"'
}
no_openmp='[ "$1" != -fopenmp ]'

case_ 'setup finds what is there'
can_install 1
NVCC='' does 0 setup.sh
same out - <<<'setup: everything is there but nvcc, so the build is CPU-only'
[ ! -s log ]
stand_in bin/nvcc </dev/null
stand_in bin/g++ </dev/null
does 0 setup.sh --nvcc
same out - <<<"$PWD/bin/nvcc"
does 0 setup.sh
says "setup: everything is there, CUDA through $PWD/bin/nvcc"
[ -e /dev/nvidia0 ] || [ -e /dev/dxg ] || says 'can be left out: `make CUDA=0`'
CUDA=0 NVCC='' does 0 setup.sh
says 'the build is CPU-only. `make CUDA=1` also builds the kernels'

case_ 'setup installs what is missing'
can_install 0
stand_in bin/curl </dev/null
stand_in bin/gcc <<<'[ "$1" = -fopenmp ]' # no headers
missing='libcsv-dev libstb-dev libinih-dev libjansson-dev zlib1g-dev libcmocka-dev'
NVCC='' does 0 setup.sh
says "setup: installing $missing"
same log - <<END
update -qq
install -y --no-install-recommends $missing -qq
END
stand_in bin/clang-19 <<<"$no_openmp"
CC=clang-19 NVCC='' does 0 setup.sh
says 'setup: installing clang-19 libomp-19-dev libc6-dev'

case_ 'setup says what it cannot install'
can_install 100
stand_in bin/gcc <<<"$no_openmp"
NVCC='' does 1 setup.sh
says 'gcc libc6-dev missing. On Debian or Ubuntu run:
  sudo apt-get install -y --no-install-recommends gcc libc6-dev'
rm bin/*

# ---- run_tests.sh --------------------------------------------------------------------------

export JOBS=1 ALONE=

case_ 'tests are summed up'
stand_in bin/test_a <<<'echo 1..2; echo ok 1 - one; echo ok 2 - two'
stand_in bin/test_b <<'END'
echo 1..4; echo noise; echo ok 1 - one
for name in '2 # SKIP two' '3 # SKIP three'; do echo "not ok $name"; echo there is no GPU; done
echo 'not ok 4 # SKIP four'
END
stand_in bin/test_c <<'END'
echo 1..4; echo there is no GPU; echo 'ok 1 # SKIP one'; echo there is no GPU
echo 'ok 2 - two # SKIP'; echo ok 3 - three; echo ok 4 - four '#' SKIPs nothing
END
does 0 run_tests.sh bin/test_a bin/test_b bin/test_c
same out - <<'END'
test_a: 2 passed, 0 failed, 0 skipped
test_b: 1 passed, 0 failed, 3 skipped
test_c: 2 passed, 0 failed, 2 skipped
skipped 4: there is no GPU
skipped 1: no reason is given
5 passed, 0 failed, 5 skipped
END

case_ 'failed tests are shown'
stand_in bin/test_a <<<"echo 1..2; echo 'not ok 1 - one'; echo '# 1 != 2'; echo ok 2 - two; exit 1"
stand_in bin/test_b <<<'echo 1..3; echo ok 1 - one'
stand_in bin/test_c <<<'echo 1..1; echo ok 1 - one; echo leak >&2; exit 23'
does 1 run_tests.sh bin/test_a bin/test_b bin/test_c bin/nowhere
says '  | # 1 != 2' '  | leak'
for test in a b c; do says "test_$test: 1 passed, 1 failed, 0 skipped"; done
[ "$(tail -n 1 out)" = '3 passed, 4 failed, 0 skipped' ]

case_ 'tests run at the same time, or alone'
for pair in 'a b' 'b a'; do # two that wait for each other
  read -r test other <<<"$pair"
  stand_in bin/test_$test <<END
touch $test
for n in 1 2 3 4 5 6 7 8 9 10; do [ -e $other ] && break; sleep 0.2; done
echo 1..1; [ -e $other ] && echo ok 1 - met || echo not ok 1 - alone
END
done
JOBS=2 does 0 run_tests.sh bin/test_a bin/test_b
[ "$(tail -n 1 out)" = '2 passed, 0 failed, 0 skipped' ]
rm a b
stand_in bin/test_a <<<'[ -e b ] && echo 1..1 && echo ok 1 - last'
stand_in bin/test_b <<<'echo 1..1; sleep 0.2; touch b; echo ok 1 - one'
JOBS=3 ALONE='test_a test_d' does 0 run_tests.sh bin/test_a bin/test_b
[ "$(tail -n 1 out)" = '2 passed, 0 failed, 0 skipped' ]

# ---- check_all.sh --------------------------------------------------------------------------

case_ 'checks are summed up'
stand_in bin/make <<<'echo "$*" >>log; echo working; echo "came of $*"; [ "$1" != lint ]'
does 0 check_all.sh test 'test SANITIZE=1'
says 'make test                   came of test
ok ' 'make test SANITIZE=1        came of test SANITIZE=1
2 checks passed, 0 '
printf 'test\ntest SANITIZE=1\n' | cmp - log
does 1 check_all.sh lint test
says '  | working
  | came of lint
FAILED  ' '1 checks passed, 1 failed, in 0:'
rm bin/*

# ---- profile.sh ----------------------------------------------------------------------------

# profile STATUS: its exit code, with stand-ins for the lab, a GPU and, of the lines on standard
# input, ncu.
profile() {
  stand_in bin/ncu
  stand_in bin/nvidia-smi </dev/null
  LAB=$PWD/lab REPORTS=$PWD/reports does "$1" profile.sh copies "${@:2}"
}
stand_in lab <<'END'
echo 'topic copies: what copies cost'
echo 'metric a__sectors.ratio: sectors a load'
echo 'rung shifted: a lesson'
echo 'points shifted: 0 16'
END

case_ 'profile.sh reads counters'
counts='echo "$*" >>log
waits=_per_issue_active.ratio
case "$*" in --export*) echo "==PROF== Profiling one" ;; *) cat ;; esac <<CSV
"ID","Kernel Name","a__sectors.ratio","dram__bytes.sum","gpu__time_duration.sum","x_issue_stalled_barrier$waits","x_issue_stalled_selected$waits","x_issue_stalled_long_scoreboard$waits","x_issue_stalled_mio_throttle$waits","x_issue_stalled_wait$waits"
"","","","byte","nsecond","","","","",""
"0","one","4","1,500,000","720,512","0.5","1","12.25","3","0.25"
"1","one","4.97","2500000","90000","2","1","0","0","0"
CSV'
profile 0 <<<"$counts"
says 'copies: what copies cost' \
  'shifted              0      one                                     4         1.50     0.7205  long_scoreboard 12.2  mio_throttle 3.0  barrier 0.5' \
  'shifted              16     one                                  4.97         2.50     0.0900  barrier 2.0' \
  "reports: $PWD/reports/copies-*.ncu-rep"
for words in '--nvtx-include shifted/' dram__bytes.sum,a__sectors.ratio \
  'copies --rung shifted --profile$' '--import .*/reports/copies-shifted.ncu-rep'; do
  grep -q -e "$words" log
done
profile 0 shifted strided <<<"$counts"
says 'strided                     one ' 'longest kernel                                                    shifted          strided quotient
a__sectors.ratio                                                        4                4     1.00' \
  'waits, mio_throttle                                                     3                3     1.00'

case_ 'profile.sh says why not'
profile 1 <<<"echo '==ERROR== ERR_NVGPUCTRPERM: no permission'; exit 1"
says 'profile: shifted: this user may not read the counters of the GPU'
profile 0 <<<"echo '==WARNING== No kernels were profiled.'"
says 'shifted              no kernel'
profile 0 <<<'echo "refused, shifted: it needs two GPUs."; exit 1'
says 'shifted              refused: it needs two GPUs.'
LAB=/no/such/lab does 1 profile.sh copies
says '/no/such/lab is not built'

# ---- sprint.sh -----------------------------------------------------------------------------

export PROGRAM=$PWD/mlp

# sprint STATUS SEEDS CONFIG...: its exit code, with a stand-in for mlp-train that prints what a run
# does; the line on standard input sets `accuracy` by seed.
sprint() {
  stand_in mlp < <(echo 'echo "$*" | sed "s/ --log.*//" >>log
echo "device   Fake GPU, 1 GiB
at once  2 networks"
for seed in $(seq $6); do' && cat && echo 'echo "network  seed $seed  test-loss 0.2  test-acc $accuracy"
echo "{\"train_seconds\": 0.5, \"test_seconds\": 9}" >>"$8"
done')
  SEEDS=$2 does "$1" sprint.sh "${@:3}"
}

# Four seeds of mean 99.0725 and deviation 0.0457: t is 3.17 and p, of 3 degrees of freedom, 0.025,
# as tables of it have; twelve of mean 99.11 are beyond doubt.
case_ 'sprint.sh tells the mean from chance'
sprint 1 4 some/sprint-99.conf <<'END'
case $seed in 1) accuracy=99.10% ;; 2) accuracy=99.05% ;; 3) accuracy=99.12% ;; *) accuracy=99.02% ;; esac
END
says 'device  Fake GPU, 1 GiB
' 'sprint-99            4   99.072%  0.046   3.17  2.5e-02    1000.0 '
echo '--config some/sprint-99.conf --seed 1 --seeds 4' | same log -
sprint 0 12 a/x-99.conf b/y98.5.conf <<<'accuracy=99.1$((seed % 3))%'
says 'x-99                12   99.110%  0.009  44.68  ' 'y98.5               12   99.110%  0.009 '

case_ 'sprint.sh says why not'
while IFS='|' read -r code seeds config body text; do
  sprint $code $seeds $config <<<"$body"
  says "$text"
done <<'END'
1|2|a/sprint-98.conf|echo away >&2; exit 1|a/sprint-98.conf --seed 1 --seeds 2 failed
1|2|a/sprint-98.conf|accuracy=-|printed 0 test accuracies of 2
2|1|a/sprint-98.conf|accuracy=99%|SEEDS must be a number of at least 2, not '1'
2|2|a/sprint.conf|accuracy=99%|the name of a/sprint.conf does not end in the accuracy to reach
END
