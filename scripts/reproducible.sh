#!/usr/bin/env bash
# Builds the programs without CUDA twice, from two folders: they must come out the same, byte for
# byte. Exit code 1 if one does not.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

folders=("$work/a" "$work/another_of_a_longer_name")
mkdir "${folders[0]}"
cp -r Makefile src tests scripts "${folders[0]}"
cp -r "${folders[0]}" "${folders[1]}"
for folder in "${folders[@]}"; do
  make -C "$folder" -j"$(nproc)" SETUP=0 CUDA=0 all >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 1
  }
done

different=0
for program in mlp-train mlp-digits; do
  read -r sum _ < <(sha256sum "${folders[0]}/$program")
  if cmp "${folders[0]}/$program" "${folders[1]}/$program"; then
    echo "$program is the same from two folders: sha256 $sum"
  else
    different=1
  fi
done
exit $different
