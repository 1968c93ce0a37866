#!/usr/bin/env bash
# Builds the programs twice and checks that they are the same, byte for byte. Without CUDA from two
# folders; mlp-train with CUDA, where nvcc is found, from one folder and with the files' times kept:
# nvcc names a file's private symbols after its folder, and writes the file's time beside its lines.
# Exit status 1 if any differs.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

# build FOLDER TARGET SETTING...: from a copy of the sources in $work/FOLDER.
build() {
  rm -rf "${work:?}/$1"
  mkdir "$work/$1"
  cp -rp Makefile src kernels tests scripts "$work/$1"
  make -C "$work/$1" -j"$(nproc)" SETUP=0 "${@:2}" >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 1
  }
}

different=0
# compare NAME FILE OTHER
compare() {
  if cmp "$2" "$3"; then echo "$1: the same twice, sha256 $(sha256sum <"$2" | cut -c1-64)"; else different=1; fi
}

build a all CUDA=0
build another_of_a_longer_name all CUDA=0
for program in mlp-train mlp-digits; do
  compare "$program without CUDA" "$work/a/$program" "$work/another_of_a_longer_name/$program"
done

if [ "${CUDA-}" != 0 ] && [ -n "$(scripts/setup.sh --nvcc)" ]; then
  build a mlp-train
  mv "$work/a/mlp-train" "$work/first"
  build a mlp-train
  compare 'mlp-train with CUDA' "$work/first" "$work/a/mlp-train"
fi
exit $different
