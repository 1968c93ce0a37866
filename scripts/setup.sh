#!/usr/bin/env bash
# Finds out what the build needs, and installs missing Debian or Ubuntu packages. If it may not install, it
# prints the command that installs them, and exits with 1 if the build cannot do without them. If kernels are to
# be built but there is no nvcc, it fetches NVIDIA's wheels from PyPI into .cuda. If that fails, it prints the
# reason and goes on. For tests it also installs the compilers of the emulator and the exercise, and Python; it
# says what it leaves out.
#
#   scripts/setup.sh          sets up for a build; the Makefile passes its variables CC, CXX, NVCC (empty if
#                             there is none), CUDA, CUBLAS, MPI, GOALS (the goals of make), SETUP, and TOO_OLD
#                             and TOO_NEW, the compute capabilities of GPUs that are; if SETUP is 0, this only
#                             reports that nvcc is missing
#   scripts/setup.sh --nvcc   prints where the CUDA Toolkit's compiler is, or nothing
# shellcheck disable=SC2016 # sentences contain commands
set -euo pipefail

DRIVER=580 # the oldest NVIDIA driver that runs programs of CUDA 13
wheels=.cuda/nvidia/cu13

has() { command -v "$1" >/dev/null; }
has_one() { [ -n "$(command -v "$@")" ]; }

# makes GOAL... is true if make was asked for one of the goals.
makes() {
  local goal
  for goal; do [[ " ${GOALS-} " != *" $goal "* ]] || return 0; done
  return 1
}

find_nvcc() {
  # shellcheck disable=SC2046 # the newest of several releases comes first
  command -v nvcc /usr/local/cuda/bin/nvcc /opt/cuda/bin/nvcc /usr/lib/nvidia-cuda-toolkit/bin/nvcc \
    $(printf '%s\n' /usr/local/cuda-*/bin/nvcc | sort -rV) $wheels/bin/nvcc | head -n 1 || true
}

has_header() { "${compiler[@]}" -E -x c - -o /dev/null <<<"#include <$1>" 2>/dev/null; }

missing_packages() {
  local pair name=${compiler[0]##*/}
  has make || echo make
  # Tries to link a program. Reading headers is no test, since it needs no libraries. For clang and clang-19, OpenMP is
  # in separate packages: libomp-dev, libomp-19-dev.
  "${compiler[@]}" -fopenmp -x c - -o /dev/null <<<'int main(void) { return 0; }' 2>/dev/null || case $name in
  clang*) printf '%s\n' "$name" "${name/clang/libomp}-dev" libc6-dev ;;
  *) printf '%s\n' gcc libc6-dev ;;
  esac
  [ -z "$nvcc" ] || has g++ || echo g++ # nvcc lets g++ compile the host code of a file
  for pair in csv.h:libcsv stb/stb_image.h:libstb ini.h:libinih jansson.h:libjansson zlib.h:zlib1g cmocka.h:libcmocka \
    seccomp.h:libseccomp; do
    has_header "${pair%:*}" || echo "${pair#*:}-dev"
  done
  ! makes exercise grade-all warmup || missing_clang
  ! makes grade-all || has bsdtar || echo libarchive-tools
  ! makes lint check-all || for pair in clang-tidy cppcheck shellcheck; do has $pair || echo $pair; done
  [ "${MPI-}" != 1 ] || { has mpicc && has mpirun; } || printf '%s\n' libopenmpi-dev openmpi-bin
}

missing_clang() { has_one clang++ clang++-{14..22} || echo clang; }

# Prints the packages without which `make test` skips tests.
missing_for_tests() {
  ! makes test coverage mutants check-all || {
    missing_clang
    has python3 || echo python3
    has bsdtar || echo libarchive-tools
  }
  ! makes test watched coverage mutants check-all || has "${CXX%% *}" || echo g++
}

# Says which tests will be skipped although this script, or a package, could bring what they need.
left_out() {
  ! makes test coverage mutants check-all || {
    [ "${MPI-}" = 0 ] || has mpirun || echo 'setup: MPI is left out, so tests of several ranks are skipped; `make test MPI=1` brings it'
    has_one chromium google-chrome ||
      echo 'setup: no browser is installed, so tests of --html are skipped; sudo apt-get install chromium brings one (400 MB)'
  }
}

# Ends if nvcc refuses the release of g++, rather than leaving that to each file that it compiles.
check_host_compiler() {
  local most
  most=$($nvcc -E -x cu -o /dev/null /dev/null 2>&1 |
    sed -n 's/.*gcc versions later than \([0-9]*\) are not supported.*/\1/p' | head -n 1 || true)
  [ -n "$most" ] || return 0
  echo "setup: g++ is too new for nvcc, which takes g++ up to $most: install g++-$most and export NVCC_PREPEND_FLAGS='-ccbin g++-$most'" >&2
  exit 1
}

# ---- NVIDIA's wheels -------------------------------------------------------------------------

# Prints the wheels to fetch, with pinned versions. cuBLAS is included if CUBLAS is 1 or .cuda has it already.
wanted_wheels() {
  if [ "${CUBLAS-}" = 1 ] || [ -e $wheels/lib/libcublas.so ]; then cat; else grep -v '^nvidia-cublas='; fi \
    <"$(dirname "$0")/cuda_wheels.txt"
}

driver_version() {
  { PATH=$PATH:/usr/lib/wsl/lib nvidia-smi --query-gpu=driver_version --format=csv,noheader ||
    cat /proc/driver/nvidia/version; } 2>/dev/null | grep -oE '\b[0-9]{3}\.[0-9.]+' | head -n 1 || true
}

# Fetches the wheels into .cuda. If this fails, .cuda does not change, and $why holds the reason.
fetch_wheels() {
  local new=.cuda.partial
  echo "setup: fetching nvcc into .cuda: $(wanted_wheels | grep -q cublas && echo 129 MB and cuBLAS, 444 MB || echo 129 MB) of NVIDIA's wheels"
  rm -rf $new
  mkdir $new
  wanted_wheels >$new/wheels.txt
  if TMPDIR=$PWD/$new PIP_USER=0 python3 -m pip install -q --retries 1 --timeout 20 --no-deps \
    --only-binary :all: --target $new -r $new/wheels.txt >$new/log 2>&1; then
    ln -s lib $new/nvidia/cu13/lib64
    [ ! -e $new/nvidia/cu13/lib/libcublas.so.13 ] || ln -s libcublas.so.13 $new/nvidia/cu13/lib/libcublas.so
    rm -rf .cuda $new/log
    mv $new .cuda
    nvcc=$wheels/bin/nvcc
  else
    why="pip cannot fetch it: $(grep -E '^ERROR' $new/log | tail -n 1 | cut -c 8-160)"
    rm -rf $new
  fi
}

# ---- packages --------------------------------------------------------------------------------

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

install() {
  has apt-get || return
  as_root true 2>/dev/null || return
  echo "setup: installing ${packages[*]}"
  as_root apt-get update -qq # if this fails, the old lists may be enough
  as_root env DEBIAN_FRONTEND=noninteractive "${command[@]}" -qq >/dev/null
}

[ "${1-}" != --nvcc ] || { find_nvcc; exit; }

nvcc=${NVCC-$(find_nvcc)} why='' fetch=''
if [ "${CUDA-}" = 1 ] && [[ -z $nvcc || $nvcc = "$wheels"/* ]] && ! wanted_wheels | cmp -s - .cuda/wheels.txt; then
  driver=$(driver_version)
  if [ "${SETUP-}" = 0 ]; then
    why='`make setup` brings it'
  elif [ -n "$driver" ] && [ "${driver%%.*}" -lt $DRIVER ]; then
    why="the GPU's driver is $driver, and CUDA 13 needs $DRIVER or newer: update it, in Windows if this is WSL"
  else
    fetch=1
  fi
fi
if [ "${SETUP-}" = 0 ]; then
  [ -z "$why" ] || echo "setup: there is no nvcc, so the build is CPU-only: $why"
  exit
fi

read -ra compiler <<<"${CC:-gcc}"
CXX=${CXX:-g++}
mapfile -t packages < <(missing_packages)
mapfile -t for_wheels < <([ -z "$fetch" ] || { has g++ || echo g++; python3 -m pip --version >/dev/null 2>&1 || echo python3-pip; })
mapfile -t for_tests < <(missing_for_tests)
needed=${#packages[@]}
mapfile -t packages < <(printf '%s\n' "${packages[@]}" "${for_wheels[@]}" "${for_tests[@]}" | awk 'NF && !seen[$0]++')
if [ ${#packages[@]} -gt 0 ]; then
  # A machine that lacks packages may also lack curl, which downloads MNIST.
  has curl || packages+=(curl ca-certificates)
  command=(apt-get install -y --no-install-recommends "${packages[@]}")
  install || {
    printf '%s\n' "setup: ${packages[*]} missing. On Debian or Ubuntu run:" "  sudo ${command[*]}" >&2
    [ "$needed" = 0 ] || exit 1
    [ ${#for_tests[@]} = 0 ] || echo "setup: tests that need ${for_tests[*]} are skipped"
    [ -z "$fetch" ] || why="the command above lets \`make setup\` bring it" fetch=
  }
fi
[ -z "$fetch" ] || fetch_wheels

[ -z "${TOO_OLD-}" ] ||
  echo "setup: kernels need a GPU of compute capability 7.5 or newer, which leaves out one of $TOO_OLD"
[ -z "${TOO_NEW-}" ] ||
  echo "setup: nvcc does not know compute capability $TOO_NEW, so that the driver compiles the kernels; a newer CUDA Toolkit does that beforehand"
if [ -n "$nvcc" ]; then
  check_host_compiler
  echo "setup: everything is there, CUDA through $nvcc${why:+; wheels are missing: $why}"
elif [ "${CUDA-}" = 0 ] && [ -n "$(find_nvcc)" ]; then
  echo 'setup: everything is there, but no GPU: the build is CPU-only. `make CUDA=1` also builds the kernels, in minutes'
else
  echo "setup: everything is there but nvcc, so the build is CPU-only${why:+: $why}"
fi
left_out
