#!/usr/bin/env bash
# Measures mlp-train and its peers, JAX and PyTorch, on this GPU. Takes several minutes. Runs mlp-bench,
# scripts/compare_peers.py, and every ladder of mlp-lab. It writes files to docs/results, named after
# the GPU (here, h100):
#
#   fusion-h100.json, .png                     every measurement, one per line; a picture of the epochs at batch 64
#   lab-h100.json                              the measurements of the ladders
#
#   SHAPES    the networks to time  [300,100:128:512,512:1000,500:2500,2000,1500,1000,500]
#   BATCHES   the batch sizes to time  [64,256,1024,4096]
#   NETWORKS  how many of each of the first two networks to train at once  [16,64,256]
#   RESULTS  another folder for these files  [docs/results]
#   SECONDS_FOR_PEERS  the seconds after which no more measurements of peers are started  [200]
#   MNIST_SOURCE  see scripts/download_mnist.sh
#
# The exit status is 1 if mlp-bench or mlp-lab failed. The tables name peers that failed.
set -euo pipefail

results=${RESULTS:-docs/results}
work=build/gpu-bench # keeps the measurements if this script is stopped

. "$(dirname "$0")/run_words.sh"

scripts/download_mnist.sh
mkdir -p "$work" "$results"
SOURCES=$(make print-sources) && export SOURCES
shapes=${SHAPES:-300,100:128:512,512:1000,500:2500,2000,1500,1000,500}
first=$(cut -d : -f 1,2 <<<"$shapes") networks=${NETWORKS:-16,64,256} batches=${BATCHES:-64,256,1024,4096}
./mlp-bench --hidden "$shapes" --batches "$batches" --json "$work/levels.json" >"$work/tables.txt"
./mlp-bench --hidden "$first" --batches 64 --networks "$networks" --json "$work/all.json" >"$work/networks.txt"
grep '"case":"epoch"' "$work/all.json" >"$work/networks.json"
# Each framework runs in its own process, so that none suffers from another's memory pool, libraries or crash.
seconds=$((${SECONDS_FOR_PEERS:-200} / 3))
for options in {jax,torch}" --hidden $shapes --batches $batches" "jax --hidden $first --batches 64 --networks $networks"; do
  # shellcheck disable=SC2086 # $options is split into words
  timeout $((seconds + 45)) python3 scripts/compare_peers.py $options --seconds $seconds || \
    echo "gpu_bench: the comparison with $options ended early (the reason is above)" >&2
done >"$work/peers.json"

name=$(sed -n '1s/.*"device": *"\([^"]*\)".*/\1/p' "$work/levels.json" | short_name)
to=$results/fusion-$name
# Leaves out unfinished lines. A peer that is killed while it writes leaves such a line.
grep -h '}$' "$work"/{levels,networks,peers}.json >"$to.json"
./mlp-bench --from "$to.json" --plot "$to.png" >"$work/tables.txt"
echo "gpu_bench: wrote $to.json and $to.png"

to=$results/lab-$name
./mlp-lab all --json "$to.json" >"$work/lab.txt"
echo "gpu_bench: wrote $to.json"
