#!/usr/bin/env bash
# scaling.sh [FILE] times 1, 2, 4, ... ranks on the GPUs of this machine or, without a GPU, on its cores. For strong
# scaling the batch stays the same; for weak scaling the rows per rank stay the same. Writes the measurements to
# docs/results/scaling-NAME.json (NAME is the GPU's short name or cpu) and prints them as a table. With FILE it only
# prints that file's table. In every run, a rank has as many cores as in the run with the most ranks.
#   RANKS    numbers of ranks  [1 2 4 ... up to the number of GPUs or cores]
set -euo pipefail
# shellcheck source=scripts/run_words.sh
. "$(dirname "$0")/run_words.sh"

# Column `times` is the speedup over one rank with the same batch. Column `part` is the weak-scaling efficiency: rows
# per second per rank, divided by the rows per second of a single rank that has as many rows per step. Below the table
# stands the serial share s that fits the strong scaling of each case: Amdahl's time(n) / time(1) = s + (1 - s) / n, by
# least squares over n > 1. With one n it is the share of Karp and Flatt (1990). Above 1, more ranks are slower.
table() {
  awk -F '[{",:]+' -v OFS='\t' '
    function quotient(a, b) { return a && b ? sprintf("%.2f", a / b) : "-" }
    BEGIN { print "network", "precision", "batch", "ranks", "ms", "times", "part" }
    $3 != "mlp-train" { next }
    NR == FNR { ms[$5, $7, $9, $11] = $15; next } # the first of two passes
    { print $5, $7, $9, $11, $15, quotient(ms[$5, $7, $9, 1], $15), quotient(ms[$5, $7, $9 / $11, 1], $15 * $11) }
    $11 > 1 && (one = ms[$5, $7, $9, 1]) {
      key = $5 OFS $7 OFS $9
      if (!(key in squares)) order[++cases] = key
      x = 1 - 1 / $11; products[key] += x * ($15 / one - 1 / $11); squares[key] += x * x }
    END { if (cases) print "\nnetwork", "precision", "batch", "serial share"
      for (i = 1; i <= cases; i++) print order[i], quotient(products[order[i]], squares[order[i]]) }' "$1" "$1"
}
[ $# = 0 ] || { table "$1" && exit; }

if machine=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null); then
  name=$(short_name <<<"${machine%%,*}") most=$(wc -l <<<"$machine") options=(--device cuda --fusion step --epochs 12)
  cases=('2500,2000,1500,1000,500 '{fp32,tf32}' 4096' '300,100 '{fp32,tf32}' 1024')
else
  machine=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo) name=cpu most=$(nproc) options=(--device cpu --epochs 6)
  cases=('300,100 fp32 256') # a wide network would take hours
fi
read -ra ranks <<<"${RANKS:-$(for ((n = 1; n <= most; n *= 2)); do printf '%s ' $n; done)}"
[ "$name" != cpu ] || options+=(--threads $((most > ranks[-1] ? most / ranks[-1] : 1)))
command -v mpirun >/dev/null || complain 1 'there is no mpirun: make setup MPI=1, then make'
scripts/download_mnist.sh
log=build/scaling.jsonl lines=docs/results/scaling-$name.json
printf '{"machine":"%s x %s","sources":"%s","command":"RANKS=\\"%s\\" scripts/scaling.sh"}\n' \
  "$most" "${machine%%$'\n'*}" "$(make -s SETUP=0 print-sources)" "${ranks[*]}" >"$lines"

for words in "${cases[@]}"; do
  read -r hidden precision batch <<<"$words"
  for n in "${ranks[@]}"; do printf "%s $n\n" $((4 * batch)) "$batch" $((batch * n)); done | sort -u -k 1,1nr -k 2n |
    while read -r batch n; do
      rm -f $log
      timeout 60 tests/support/mpirun.sh "$n" ./mlp-train "${options[@]}" --hidden "$hidden" --precision "$precision" \
        --batch "$batch" --lr 0.01 --test none --quiet --log $log </dev/null >/dev/null || continue
      printf -v case '"who":"mlp-train","network":"784-%s-10","precision":"%s","batch":%d,"ranks":%d' \
        "${hidden//,/-}" "$precision" "$batch" "$n"
      # Leaves out the first two epochs, which read the file.
      sed -n 's/.*"train_seconds": *\([0-9.e+-]*\).*"train_rows": *\([0-9]*\).*/\1 \2/p' $log | tail -n +3 | sort -g |
        awk -v case="$case" '{ t[NR] = 1e3 * $1 }
          END { printf "{%s,\"rows\":%d,\"ms\":%.6g,\"ms_min\":%.6g,\"ms_max\":%.6g,\"epochs\":%d}\n", case, $2,
                (t[int((NR + 1) / 2)] + t[int(NR / 2) + 1]) / 2, t[1], t[NR], NR }' >>"$lines"
    done
done
table "$lines"
