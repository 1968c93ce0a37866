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

# build FOLDER TARGET SETTING...: from a copy of the sources in $work/FOLDER; prints what it made.
build() {
  mkdir -p "$work/$1"
  cp -rp Makefile src kernels tests scripts "$work/$1"
  make -C "$work/$1" -j"$(nproc)" SETUP=0 "${@:2}" >"$work/log" 2>&1 || { cat "$work/log" >&2 && exit 1; }
  sha256sum "$work/$1"/mlp-{train,digits} 2>/dev/null | cut -c1-64 || true
  rm -rf "${work:?}/$1"
}

# twice NAME FOLDER OTHER TARGET SETTING...
twice() {
  local first second
  first=$(build "$2" "${@:4}")
  second=$(build "$3" "${@:4}")
  [ "$first" = "$second" ] || { echo "$1: another build differs" >&2 && exit 1; }
  echo "$1: the same twice, sha256 ${first//$'\n'/ }"
}

twice 'mlp-train and mlp-digits without CUDA' a another_of_a_longer_name all CUDA=0
[ "${CUDA-}" = 0 ] || [ -z "$(scripts/setup.sh --nvcc)" ] || twice 'mlp-train with CUDA' a a mlp-train
