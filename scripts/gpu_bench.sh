#!/usr/bin/env bash
# Measures mlp-train and its peers, JAX and PyTorch, on this GPU, for the tables of README.md and docs/lab. Takes some
# ten minutes. It writes files to docs/results, named after the GPU (here, h200):
#
#   fusion-h200.json, .png                     every measurement, one per line; a picture of the epochs at batch 64
#   lab-h200.json                              the measurements of the ladders
#
#   PART     the parts to run, separated by spaces: levels (mlp-bench), peers (JAX, PyTorch), lab (mlp-lab)  [all]
#   CASES    what to time, a row for each run, as in the table below
#   RESULTS  another folder for these files  [docs/results]
#   MNIST_SOURCE  see scripts/download_mnist.sh
#
# A part that does not run keeps what it measured last in build/gpu-bench. The exit status is 1 if mlp-bench or mlp-lab
# failed. The tables name peers that failed.
set -euo pipefail

# program, networks, batches, networks at once, and the seconds after which a peer starts no more measurements
cases=${CASES:-'
  levels  300,100:128:512,512                      64,32,128,1024  1
  levels  1000,500:2500,2000,1500,1000,500         1024,4096       1
  levels  512:1024:784,784:none                    64,128          1
  levels  300,100:128                              64              7,16,64
  levels  256,128:512:512,512                      64              16
  jax     300,100:128:512,512                      64,32,128       1        90
  jax     300,100:128                              1024            1        70
  jax     1024:784,784:none                        64,128          1        90
  jax     300,100:128                              64              16,64    120
  jax     1000,500:2500,2000,1500,1000,500         1024,4096       1        200
  torch   300,100:128                              64              1        70'}
results=${RESULTS:-docs/results}
work=build/gpu-bench # keeps the measurements if this script is stopped

. "$(dirname "$0")/run_words.sh"

# rows PROGRAM... prints the rows of these programs, each with its number.
rows() { grep -n . <<<"$cases" | sed 's/^\([0-9]*\):/\1 /' | grep -wE "$(IFS='|' && echo "$*")"; }

levels() {
  rows levels | while read -r n _ hidden batches networks; do
    ./mlp-bench --hidden "$hidden" --batches "$batches" --networks "$networks" --json "$work/$n.json" >"$work/$n.txt"
  done
}
# Each row is a process of its own, so that none suffers from another's memory pool, libraries or crash.
peers() {
  rows jax torch | while read -r n peer hidden batches networks seconds; do
    timeout $((seconds + 45)) python3 scripts/compare_peers.py "$peer" --hidden "$hidden" --batches "$batches" \
      --networks "$networks" --seconds "$seconds" >"$work/$n.json" ||
      echo "gpu_bench: the comparison with $peer, $hidden, ended early (the reason is above)" >&2
  done
}
lab() {
  ./mlp-lab all --json "$work/lab.json" >"$work/lab.txt"
}

parts=(levels peers lab)
read -ra wanted <<<"${PART:-all}"
[ "${wanted[*]}" != all ] || wanted=("${parts[@]}")
for part in "${wanted[@]}"; do
  [[ " ${parts[*]} " = *" $part "* ]] || complain 1 "PART=$part is not a part: use all or some of ${parts[*]}"
done
scripts/download_mnist.sh
mkdir -p "$work" "$results"
SOURCES=$(make print-sources) && export SOURCES
for part in "${wanted[@]}"; do $part; done

name=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | short_name)
# The first run has the machine, its limits and the parts of a whole run; only epochs are taken from the others. A line
# without an end is of a peer that was killed while it wrote.
first=$(rows levels | head -n 1 | cut -d ' ' -f 1)
files=$(rows levels jax torch | while read -r n _; do [ ! -f "$work/$n.json" ] || echo "$work/$n.json"; done)
if [ -f "$work/$first.json" ]; then
  to=$results/fusion-$name
  # shellcheck disable=SC2086 # $files is split into names
  awk -v first="$work/$first.json" '/}$/ && (FILENAME == first || /"case":"(epoch|peers)"/)' $files >"$to.json"
  ./mlp-bench --from "$to.json" --plot "$to.png" >"$work/tables.txt"
  echo "gpu_bench: wrote $to.json and $to.png"
fi
if [ -f "$work/lab.json" ]; then
  cp "$work/lab.json" "$results/lab-$name.json"
  echo "gpu_bench: wrote $results/lab-$name.json"
fi
