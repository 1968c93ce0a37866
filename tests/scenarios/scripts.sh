# Tests the scripts. Nothing is downloaded or installed: the first folder in PATH has stand-ins for
# programs such as curl and apt-get.
# shellcheck disable=SC2016 # stand-ins expand the variables
mkdir bin source data
export PATH=$PWD/bin:$PATH DATA_DIR=$PWD/data
unset NVCC CC CXX CUDA CUBLAS MPI SETUP GOALS MNIST_SOURCE JOBS

# stand_in NAME makes the program bin/NAME from shell commands on standard input. The program runs in
# this folder and appends its arguments to the file log.
stand_in() {
  { printf '#!/bin/sh\ncd "%s" || exit\necho "%s $*" >>log\n' "$PWD" "$1" && cat; } >"bin/$1"
  chmod +x "bin/$1"
}

# does STATUS TEXT SCRIPT ARGUMENT... checks that the script ends with STATUS and prints TEXT.
does() {
  status=0
  : >log
  "$TOP/scripts/$3" "${@:4}" >out 2>&1 </dev/null || status=$?
  [[ $status = "$1" && $(<out) = *"$2"* ]] || die "${*:3}: exit code $status, not $1 and '$2': $(cat out)"
}

# download TEXT checks that the download fails with TEXT, keeps existing files, and adds none.
download() {
  echo old >data/mnist_test.csv
  does 1 "$1" download_mnist.sh
  holds data mnist_test.csv
  same data/mnist_test.csv - <<<old
}

case_ 'what is not MNIST leaves the files that are there'
images=train-images-idx3-ubyte
export MNIST_SOURCE=source
download "there is no $images and no $images.gz in MNIST_SOURCE=source"
echo no images >source/$images
download "no MNIST from source. Without internet: put the four IDX files into a folder"
rm source/$images
seq 1000 | gzip | head -c 1000 >source/$images.gz
download 'no MNIST from source'
unset MNIST_SOURCE
stand_in curl <<<'echo "no answer" >&2; exit 7'
download 'Without internet: '
grep -q 'no answer' out
[ "$(grep -c 'curl .*--proto =https --proto-redir =https .*--max-time 900 --max-filesize 64000000 https://' log)" = 2 ]
stand_in curl <<<'printf "\\037\\213\\010\\010\\0\\0\\0\\0\\0\\003"; tr "\\0" a </dev/zero' # a name without end
download 'does not give the train-images-idx3-ubyte of MNIST'

case_ 'setup installs what is missing, or says how'
stand_in sudo <<<'shift; exec "$@"'
stand_in apt-get <<<'[ $1 = install ]' # `update` fails, which must not matter
stand_in gcc <<<'[ "$1" = -fopenmp ]'  # compiles nothing that includes headers
missing='libcsv-dev libstb-dev libinih-dev libjansson-dev zlib1g-dev libcmocka-dev libseccomp-dev'
NVCC='' does 0 "setup: installing $missing" setup.sh
grep -qx "apt-get install -y --no-install-recommends $missing -qq" log
stand_in apt-get <<<'exit 100'
NVCC='' does 1 "  sudo apt-get install -y --no-install-recommends $missing" setup.sh

# In the folder alone are the tools that setup.sh needs, but no compiler that is installed here.
case_ 'what only tests need is installed for tests, or named'
mkdir alone
for tool in bash sh env dirname grep head sort cat id make awk true; do ln -s "$(type -P $tool)" alone; done
ln -s true alone/gcc
ln -s true alone/curl
ln -s true alone/chromium
cp bin/{sudo,apt-get} alone
while IFS='|' read -r goals mpi packages text; do
  PATH=$PWD/alone NVCC='' CUDA=0 GOALS=$goals MPI=$mpi does 0 "$text" setup.sh
  said=$(<out)
  if [ -z "$packages" ]; then
    ! grep -q apt-get log || die "$(<log)"
  else
    grep -qx "apt-get install -y --no-install-recommends $packages -qq" log || die "$(<log)"
    [[ $said = *"setup: tests that need $packages are skipped"* ]] || die "$said"
  fi
done <<'END'
all|||CPU-only
test|0|clang python3 libarchive-tools g++|CPU-only
test||clang python3 libarchive-tools g++|setup: MPI is left out, so tests of several ranks are skipped; `make test MPI=1` brings it
watched||g++|CPU-only
END
ln -s true alone/clang++-19
ln -s true alone/g++
ln -s true alone/python3
ln -s true alone/bsdtar
rm alone/chromium
PATH=$PWD/alone NVCC='' CUDA=0 GOALS='all test' does 0 'no browser is installed, so tests of --html are skipped' setup.sh
! grep -q apt-get log || die "$(<log)"
rm bin/gcc

case_ 'the driver decides whether nvcc is fetched'
stand_in g++ <<<''
stand_in python3 <<'END'
case $* in *install*) echo 'ERROR: no network'; exit 1; esac
END
while IFS='|' read -r driver setup text; do
  stand_in nvidia-smi <<<"echo $driver"
  NVCC='' CUDA=1 SETUP=$setup does 0 "$text" setup.sh
  absent .cuda .cuda.partial
done <<'END'
535.183.01|1|driver is 535.183.01, and CUDA 13 needs 580 or newer: update it
580.95.05|1|everything is there but nvcc, so the build is CPU-only: pip cannot fetch it: no network
580.95.05|0|there is no nvcc, so the build is CPU-only: `make setup` brings it
END
NVCC='' CUDA=0 does 0 'CPU-only' setup.sh
! grep -q python3 log || die "$(<log)"

case_ 'tests are summed up, failed ones shown'
stand_in test_a <<<'echo 1..2; echo ok 1 - one; echo ok 2 - two'
stand_in test_b <<'END'
echo 1..5; echo noise; echo ok 1 - one
for name in 'not ok 2 # SKIP two' 'ok 3 # SKIP three' 'ok 4 - four # SKIP'; do echo there is no GPU; echo "$name"; done
echo 'not ok 5 # SKIP five'
END
JOBS=1 does 0 '' run_tests.sh bin/test_a bin/test_b
same out - <<'END'
test_a: 2 passed, 0 failed, 0 skipped
test_b: 1 passed, 0 failed, 4 skipped
skipped 3: there is no GPU
skipped 1: no reason is given
3 passed, 0 failed, 4 skipped
END
stand_in test_a <<<"echo 1..2; echo 'not ok 1 - one'; echo '# 1 != 2'; echo ok 2 - two; exit 1"
stand_in test_b <<<'echo 1..3; echo ok 1 - one'
stand_in test_c <<<'echo 1..1; echo ok 1 - one; echo leak >&2; exit 23'
does 1 '3 passed, 4 failed, 0 skipped' run_tests.sh bin/test_a bin/test_b bin/test_c bin/nowhere
grep -qx '  | # 1 != 2' out
grep -qx '  | leak' out

case_ 'a class is not graded for points that cannot be written'
mkdir class folder.csv
for csv in "$PWD/points" "$PWD/class/.csv"; do
  does 1 "CSV=$csv must end with .csv" grade_all.sh "$PWD/class" "$csv" "$PWD/built"
done
does 1 "folder.csv is a folder" grade_all.sh "$PWD/class" "$PWD/folder.csv" "$PWD/built"
does 1 'Not a directory' grade_all.sh "$PWD/class" /dev/null/points.csv "$PWD/built"
absent built points

case_ 'ARCH takes the name of a GPU, and says why not'
echo 'echo sm_75; echo sm_80; echo sm_89' >some_nvcc
some_nvcc=$(realpath --relative-to="$TOP" some_nvcc) # make cannot handle paths with blanks
# As flags of its own differ from those of the last build, make would build everything again if it found them in build/.
build=$(realpath --relative-to="$TOP" .)/build
makes() { make -C "$TOP" BUILD="$build" "$@"; }
arch() { makes -n CUDA=1 SETUP=0 NVCC="sh $some_nvcc" ARCH="$1" "$build/kernels/lab/reduce.o" >said 2>&1 || true; }
while IFS='|' read -r name text; do
  arch "$name"
  grep -qF -- "$text" said || die "$(tail -n 2 said)"
done <<'END'
sm_89|-gencode arch=compute_89,code=[sm_89,compute_89]
sm_61|sm_61: the kernels need a GPU of compute capability 7.5 or newer; `make CUDA=0` builds for the CPU
sm_200|sm_200: this nvcc does not know it, but sm_89; a newer CUDA Toolkit does
END

case_ 'a GPU that is too old or too new for the kernels is said'
while IFS='|' read -r capability nvcc gpu text; do
  stand_in nvidia-smi <<<"echo $capability"
  makes -n CUDA="$nvcc" ARCH=auto SETUP=1 NVCC="sh $some_nvcc" GPUS=/dev/nvidia0 setup "$build/kernels/lab/reduce.o" >said 2>&1
  grep -qF -- "$gpu" said || die "$(cat said)"
  grep -qF -- "$text" said || die "$(cat said)"
done <<'END'
6.1|1|code=[sm_90,compute_90]|TOO_OLD='6.1' TOO_NEW=''
8.9|1|-gencode arch=compute_89,code=sm_89|TOO_OLD='' TOO_NEW=''
8.7|1|-gencode arch=compute_80,code=compute_80|TOO_OLD='' TOO_NEW='8.7'
13.0|1|-gencode arch=compute_89,code=compute_89|TOO_OLD='' TOO_NEW='13.0'
END
makes -n CUDA=auto ARCH=auto SETUP=1 GPUS=/dev/nvidia0 setup >said 2>&1
grep -q "CUDA='1'" said
stand_in nvidia-smi <<<'echo 6.1'
makes -n CUDA=auto ARCH=auto SETUP=1 GPUS=/dev/nvidia0 setup >said 2>&1
grep -q "CUDA='0'" said
NVCC='' CUDA=0 TOO_OLD=6.1 does 0 'kernels need a GPU of compute capability 7.5 or newer, which leaves out one of 6.1' setup.sh
stand_in nvcc <<<''
NVCC=nvcc CUDA=1 TOO_NEW=13.0 does 0 'nvcc does not know compute capability 13.0, so that the driver compiles the kernels' setup.sh
stand_in nvcc <<'END'
echo '#error -- unsupported GNU version! gcc versions later than 15 are not supported! The nvcc flag' >&2
exit 1
END
NVCC=nvcc CUDA=1 does 1 "g++ is too new for nvcc, which takes g++ up to 15: install g++-15 and export NVCC_PREPEND_FLAGS='-ccbin g++-15'" setup.sh

# Each variable of the Makefile that the environment may not set has a value there that would be seen.
case_ 'the environment sets no variable of the Makefile but those that help names'
names=$(grep -ohE '\$\([A-Z_]+\)|^[A-Z_]+ *[:?+]?=' "$TOP"/{Makefile,src/exercise/exercise.mk} | grep -oE '[A-Z_]+' | sort -u)
may=$(makes -s help CUDA=0 SETUP=0 | sed -n 's/.*environment can set \(.*\)\./\1/p')
[[ $may = *CFLAGS* && $names = *SUBMISSION* ]]
asked=(makes -s -n -o all -o setup install uninstall exercise warmup grade-all run soak fuzz fresh PLACE="$build" CUDA=0)
unset MAKEFLAGS MAKELEVEL MFLAGS
"${asked[@]}" >as_is 2>&1 || true
for name in $names; do
  [[ " $may HOME PATH PWD SHELL MAKE MAKEFLAGS MAKECMDGOALS CURDIR " = *" $name "* ]] || export "$name=poison"
done
"${asked[@]}" >poisoned 2>&1 || true
diff as_is poisoned >out || die "$(head -n 20 out)"

case_ 'the next make does not build everything again because of these commands'
[ ! "$TOP/build/flags" -nt train.csv ]
