#!/usr/bin/env bash
# Measures how training scales over ranks: strong scaling, the same batch on 1, 2, 4, ... of them,
# and weak scaling, the same rows per rank. On the GPUs of this machine, else on its cores, of which
# every rank has as many as when there are most of them. Writes docs/results/scaling-h200.json, one
# measurement a line, and its curves, .png; h200 is the GPU's short name, or cpu.
#
#   RESULTS  another folder for them  [docs/results]
#   RANKS    numbers of ranks  [1, 2, 4, ... up to the GPUs or cores]
#   SECONDS_AT_MOST  start no more points after this time  [600]
#   SECONDS_FOR_JAX  of these, for JAX beside it on GPUs  [a third]
#   MNIST_SOURCE  see scripts/download_mnist.sh
#
# A point that fails is a line with its reason. The files are written after every point, so that a run
# that is stopped leaves what it measured. Exit status 1 if no point of ours was measured.
set -euo pipefail
. "$(dirname "$0")/run_words.sh"

results=${RESULTS:-docs/results} most_seconds=${SECONDS_AT_MOST:-600}
jax_seconds=${SECONDS_FOR_JAX:-$((most_seconds / 3))}
work=build/scaling # if this is stopped, what was measured so far is here
lines=$work/lines.json
mkdir -p "$work" "$results"

gpus=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null) || gpus=
if [ -n "$gpus" ]; then
  device=cuda epochs=12 most=$(wc -l <<<"$gpus")
  machine="$most x $(head -n 1 <<<"$gpus" | sed 's/, /, driver /')"
  name=$(short_name <<<"${gpus%%,*}")
else
  device=cpu epochs=6 jax_seconds=0
  most=$(nproc)
  machine="$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1), $most cores"
  name=cpu
fi
read -ra ranks <<<"${RANKS-}"
[ ${#ranks[@]} != 0 ] || for ((n = 1; n <= most; n *= 2)); do ranks+=("$n"); done
threads=$((most / ranks[-1] > 1 ? most / ranks[-1] : 1))
command -v mpirun >/dev/null || complain 1 'there is no mpirun: make setup MPI=1, then make'
scripts/download_mnist.sh
printf '{"machine":"%s","sources":"%s","command":"RANKS=\\"%s\\" scripts/scaling.sh"}\n' \
  "$machine" "$(make -s SETUP=0 print-sources)" "${ranks[*]}" >"$lines"

to=$results/scaling-$name
write_tables() {
  cp "$lines" "$to.json"
  ./mlp-bench --from "$to.json" --plot "$to.png" >"$work/tables.txt"
}

# point HIDDEN NETWORK BATCH PRECISION RANKS: a line of a run, unless it is there already. The first
# two epochs, which read the file and capture the graphs, are left out.
point() {
  local hidden=$1 batch=$3 precision=$4 n=$5 case
  printf -v case '"who":"mlp-train","network":"%s","precision":"%s","batch":%d,"ranks":%d' "$2" "$4" "$3" "$5"
  if grep -qF "$case," "$lines" || [ "$SECONDS" -ge $((most_seconds - jax_seconds)) ]; then return 0; fi
  local launcher=()
  [ "$n" = 1 ] || launcher=(tests/support/mpirun.sh "$n")
  local level=(--fusion step --precision "$precision")
  [ "$device" = cuda ] || level=(--threads "$threads")
  rm -f "$work/log.jsonl"
  if timeout 60 "${launcher[@]}" ./mlp-train --device "$device" "${level[@]}" --hidden "$hidden" \
    --batch "$batch" --epochs $epochs --lr 0.01 --test none --quiet --log "$work/log.jsonl" \
    >"$work/out" 2>"$work/err"; then
    sed -n 's/.*"train_seconds": *\([0-9.e+-]*\).*"train_rows": *\([0-9]*\).*/\1 \2/p' "$work/log.jsonl" |
      tail -n +3 | sort -g | awk -v case="$case" '
        { t[NR] = $1; rows = $2 }
        END { printf "{%s,\"rows\":%d,\"ms\":%.6g,\"ms_min\":%.6g,\"ms_max\":%.6g,\"epochs\":%d}\n", case, rows,
              1e3 * (t[int((NR + 1) / 2)] + t[int(NR / 2) + 1]) / 2, 1e3 * t[1], 1e3 * t[NR], NR }' >>"$lines"
  else
    printf '{%s,"reason":"%s"}\n' "$case" "$(head -n 1 "$work/err" | tr -d '\\"')" >>"$lines"
  fi
  tail -n 1 "$lines"
  write_tables 2>/dev/null || true # of nothing measured there are none
}

# The cases that are worth most come first. Each case: hidden layers, network, precision, two batches, of which
# the first is that of a rank in weak scaling.
small="300,100 784-300-100-10" wide="2500,2000,1500,1000,500 784-2500-2000-1500-1000-500-10"
cases=("$wide fp32 4096 16384" "$wide tf32 4096 16384" "$small fp32 1024 4096" "$small tf32 1024 4096")
[ "$device" = cuda ] || cases=("$small fp32 256 1024") # a wide network would take hours
for words in "${cases[@]}"; do
  read -r hidden network precision first second <<<"$words"
  for batch in "$second" "$first" 'first * n'; do
    for n in "${ranks[@]}"; do point "$hidden" "$network" $((batch)) "$precision" "$n"; done
  done
done

if [ "$jax_seconds" -gt 0 ]; then
  timeout $((jax_seconds + 15)) python3 scripts/compare_peers.py --seconds "$jax_seconds" --scaling "${ranks[*]}" \
    2>"$work/jax.err" | grep '}$' | tee -a "$lines" ||
    echo "scaling: JAX ended early: $(tail -n 1 "$work/jax.err")" >&2
fi

write_tables
echo "scaling: wrote $to.json and $to.png"
