#!/usr/bin/env bash
# Looks for what the build needs and installs what is missing as Debian or Ubuntu packages; where
# it may not, it prints the one command that does and exits with 1.
#
#   scripts/setup.sh          NVCC in the environment is believed, empty for a build without CUDA;
#                             CC is the compiler to be used  [gcc]; MPI=1: for runs of several
#                             ranks, too; CUDA=0: say how kernels are built, if there is an nvcc
#   scripts/setup.sh --nvcc   prints where the CUDA Toolkit's compiler stands, or nothing
set -euo pipefail

has() { command -v "$1" >/dev/null; }

find_nvcc() {
  # shellcheck disable=SC2046 # the newest of several releases is the first
  command -v nvcc /usr/local/cuda/bin/nvcc /opt/cuda/bin/nvcc /usr/lib/nvidia-cuda-toolkit/bin/nvcc \
    $(printf '%s\n' /usr/local/cuda-*/bin/nvcc | sort -rV) | head -n 1 || true
}

has_header() { "${compiler[@]}" -E -x c - -o /dev/null <<<"#include <$1>" 2>/dev/null; }

# A whole program, because a compiler without its libraries still reads headers.
has_openmp() {
  "${compiler[@]}" -fopenmp -x c - -o /dev/null <<<'int main(void) { return 0; }' 2>/dev/null
}

# clang and clang-19 have OpenMP in packages of their own: libomp-dev, libomp-19-dev.
compiler_packages() {
  local name=${compiler[0]##*/}
  case $name in
  clang*) printf '%s\n' "$name" "${name/clang/libomp}-dev" libc6-dev ;;
  *) printf '%s\n' gcc libc6-dev ;;
  esac
}

missing_packages() {
  has make || echo make
  has_openmp || compiler_packages
  [ -z "$nvcc" ] || has g++ || echo g++ # nvcc leaves the host's half of a file to it
  has_header csv.h || echo libcsv-dev
  has_header stb/stb_image.h || echo libstb-dev
  has_header ini.h || echo libinih-dev
  has_header jansson.h || echo libjansson-dev
  has_header zlib.h || echo zlib1g-dev
  has_header cmocka.h || echo libcmocka-dev
  [ "${MPI-}" != 1 ] || has mpicc || echo libopenmpi-dev
  [ "${MPI-}" != 1 ] || has mpirun || echo openmpi-bin
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

install() {
  has apt-get || return
  as_root true 2>/dev/null || return
  echo "setup: installing ${packages[*]}"
  as_root apt-get update -qq # the lists that are there may do
  as_root env DEBIAN_FRONTEND=noninteractive "${command[@]}" -qq >/dev/null
}

[ "${1-}" != --nvcc ] || { find_nvcc; exit; }

nvcc=${NVCC-$(find_nvcc)}
read -ra compiler <<<"${CC:-gcc}"
mapfile -t packages < <(missing_packages)
if [ ${#packages[@]} -gt 0 ]; then
  # A machine this bare should be able to download MNIST, too.
  has curl || has wget || packages+=(curl ca-certificates)
  command=(apt-get install -y --no-install-recommends "${packages[@]}")
  install || {
    printf '%s\n' "setup: ${packages[*]} missing. On Debian or Ubuntu run:" "  sudo ${command[*]}" >&2
    exit 1
  }
fi

if [ -n "$nvcc" ]; then
  compgen -G '/dev/nvidia[0-9]*' >/dev/null || compgen -G /dev/dxg >/dev/null || slow="; without a GPU the kernels, which take \
some minutes to compile, can be left out: \`make CUDA=0\`"
  echo "setup: everything is there, CUDA through $nvcc${slow-}"
elif [ "${CUDA-}" = 0 ] && [ -n "$(find_nvcc)" ]; then
  echo "setup: everything is there, but no GPU: the build is CPU-only. \`make CUDA=1\` also builds the" \
    "kernels, which takes some minutes"
else
  echo "setup: everything is there but nvcc, so the build is CPU-only"
fi
