# Tests mlp-bench on a machine without a GPU: it times the CPU, shows recorded runs, and names the
# files that it cannot show.
export MLP=$PROGRAMS/mlp-bench
results=$TOP/docs/results
record=("$results"/fusion-*[0-9].json) # with all levels of the default network

case_ 'peers that are not installed'
if ! python3 -S -c 'import json, gzip' 2>err; then
  skip_ 'there is no Python'
elif python3 -S -c 'import numpy' 2>err; then
  skip_ 'Python has numpy without site-packages, too'
else
  python3 -S "$TOP/scripts/compare_peers.py" jax >out
  cp out peers.json
  printed 1 '^{"case":"epoch",.*"reason":"not installed"'
  ok --from peers.json
  printed 1 'JAX: not installed'
fi

case_ 'networks, batches and numbers of networks are timed on the CPU'
"$PROGRAMS/mlp-digits" --train-rows 300 --test-rows 60 --output-dir . >out
CUDA_VISIBLE_DEVICES='' prints 2 '^20 .* +1 +(32|64) +mlp-train on the CPU ' --hidden 20:12,10 \
  --train digits_train.csv --test digits_test.csv --batches 32,64 --networks 1,2 --epochs 1 --json it.json
printed 2 '^20 .* +2 +(32|64) +mlp-train --seeds '
printed 2 '^12,10 .* mlp-train --seeds '
printed 1 '^a run of 10 epochs .* the other epochs .* ms .*%'
printed 0 'nan|not measured|--seeds +fp32 +0\.0+ '
cp out measured
ok --from it.json --plot it.png
same out measured
is_png it.png

case_ 'a record shows what was measured'
prints 4 '^300,100 .* fusion step .* fp32 ' --from "${record[0]}" --plot it.png
is_png it.png
prints 1 '^## An epoch' --from "${record[0]}" --markdown

case_ 'files that cannot be are named'
refuses 1 no/file --from no/file
refuses 1 no/file --train no/file
refuses 1 no/file --json no/file
refuses 2 'standard output and --from /dev/stdout are the same' --from /dev/stdout
rm -f peers.json # it exists only where there is Python
for words in 'bench --train no/file' 'lab all'; do
  MLP=$PROGRAMS/mlp-${words%% *}
  echo precious >it.json
  CUDA_VISIBLE_DEVICES='' refuses 1 '' ${words#* } --json it.json
  same it.json <(echo precious)
  holds . digits_test.csv digits_train.csv err it.json it.png measured out test.csv train.csv
done
