# mlp-bench on a machine without a GPU: recorded runs are shown, and files that cannot be are named.
export MLP=$PROGRAMS/mlp-bench
results=$TOP/docs/results

case_ 'peers that are not installed'
if ! python3 -S -c 'import json, gzip' 2>err; then
  skip_ 'there is no Python'
elif python3 -S -c 'import numpy' 2>err; then
  skip_ 'Python has numpy without site-packages, too'
else
  python3 -S "$TOP/scripts/compare_peers.py" --sources abc >peers.json
  grep '"sources": "abc"' peers.json >out
  printed 3 ''
  printed 1 '^{"case": "peers", '
  printed 2 '^{"case": "epoch", .*"reason": "not installed"'
  ok --from peers.json
  printed 1 'JAX: not installed'
fi

case_ 'a record shows what was measured'
prints 4 '^ .* fusion step .* fp32 ' --from "$results/fusion-h200.json" --markdown tables.md --plot it.png
grep -q "^## An epoch" tables.md
is_png it.png

case_ 'a record of ranks shows how they scale'
prints 1 '^Strong scaling: ' --from "$results/scaling-cpu.json" --markdown tables.md --plot it.png
printed 2 '^mlp-train .* 101\.7%$|^mlp-train .* 0\.55$'
is_png it.png
head -n 2 "$results/scaling-cpu.json" >one.json
fails 1 'nothing was measured on several ranks' --from one.json --plot it.png
head -n 1 one.json >none.json
refuses 1 'none.json holds no measurement' --from none.json

case_ 'networks at once are compared with as many at once'
while read -r line; do echo "{\"case\": \"many\", \"batch\": 64, \"networks\": $line}"; done >many.json <<'END'
16, "fusion": "epoch", "ms_per_epoch": 2
16, "peer": "some", "ms_per_epoch": 8
7, "fusion": "epoch", "ms_per_epoch": 4
256, "peer": "other", "reason": "no memory"
END
prints 1 '^ *16 .* some .* 8\.00 .* 4\.00$' --from many.json
printed 1 '^other, 256 networks, batch 64: no memory$'
[ "$(awk '$1 == 7 || $1 == 16 { printf "%s ", $1 }' out)" = '7 16 16 ' ]

case_ 'files that cannot be are named'
refuses 1 no/file --from no/file
for file in '--train no/file' '--json no/file'; do
  refuses 1 '' $file
  grep -qE 'no/file|built without CUDA' err
done
