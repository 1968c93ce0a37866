#!/usr/bin/env bash
# Measures this GPU and the peers side by side, in one run of several minutes: mlp-bench, then
# scripts/compare_peers.py, then every ladder of mlp-lab. Writes, under the short name of the GPU,
# for example h100, into docs/results:
#
#   fusion-h100.json, .md, .png              every measurement, one a line; tables; epochs at batch 64
#   lab-h100.json, .md, lab-h100-TOPIC.png   measurements and tables; one picture per topic
#
#   RESULTS  another folder for them  [docs/results]
#   SECONDS_FOR_PEERS  start no more peers after this time  [200]
#   MNIST_SOURCE  see scripts/download_mnist.sh
#
# Exit status 1 if mlp-bench or mlp-lab failed; peers that fail are named in the tables.
set -euo pipefail

results=${RESULTS:-docs/results}
work=build/gpu-bench # if this is stopped, what was measured so far is here

. "$(dirname "$0")/run_words.sh"

scripts/download_mnist.sh
mkdir -p "$work" "$results"
sources=$(make print-sources)
./mlp-bench --sources "$sources" --json "$work/mlp-bench.json" >"$work/tables.txt"
name=$(sed -n '1s/.*"gpu": *"\([^"]*\)".*/\1/p' "$work/mlp-bench.json")
for networks in 1 7 16 64 256; do
  ./mlp-train --quiet --epochs 6 --seeds $networks --log "$work/many.jsonl"
  ms=$(sed -n 's/.*"train_seconds": *\([0-9.e-]*\).*/\1/p' "$work/many.jsonl" |
    awk -v n=$((networks < 64 ? networks : 64)) '{ print 1000 * $1 / n }' | median) # 64 at once
  echo "{\"case\": \"many\", \"fusion\": \"epoch\", \"networks\": $networks, \"batch\": 64," \
    "\"precision\": \"fp32\", \"ms_per_epoch\": $ms, \"gpu\": \"$name\", \"sources\": \"$sources\"}"
done >"$work/many.json"
python3 scripts/compare_peers.py --seconds "${SECONDS_FOR_PEERS:-200}" --sources "$sources" \
  >"$work/peers.json" || echo "gpu_bench: the comparison with the peers ended early (the reason is above)" >&2

name=$(short_name <<<"$name")
to=$results/fusion-$name
# A peer that is killed while it writes leaves an unfinished line.
grep -h '}$' "$work/mlp-bench.json" "$work/many.json" "$work/peers.json" >"$to.json"
./mlp-bench --from "$to.json" --markdown "$to.md" --plot "$to.png"
echo "gpu_bench: wrote $to.json, $to.md and $to.png"

to=$results/lab-$name
./mlp-lab all --sources "$sources" --json "$to.json" --markdown "$to.md" --plot "$to.png" \
  >"$work/lab.txt"
echo "gpu_bench: wrote $to.json, $to.md and $to-TOPIC.png"
