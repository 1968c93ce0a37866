# Tests mlp-lab on a machine without a GPU: it shows recorded runs, and the pages quote these runs.
MLP=$PROGRAMS/mlp-lab
results=$TOP/docs/results
record=$results/lab-h200.json

case_ 'a record shows what was measured'
prints 1 '^transfers: ' all --from "$record"
prints 1 '^## vector, saxpy: ' vector --problem saxpy --from "$record" --markdown
printed 0 'vector, fill: '
prints 1 '^transfers ' list --from "$record"

case_ 'what the device can do is shown beside what it does'
cat >device.json <<'END'
{"case":"machine","device":"G"}
{"case":"device","name":"memory bus","value":5120,"unit":"bits"}
{"case":"theory","name":"copy on the GPU, read + write","value":3200,"unit":"GB/s"}
{"case":"ceiling","name":"copy on the GPU, read + write","value":2400,"unit":"GB/s"}
{"case":"ceiling","name":"float32 multiply-adds alone","value":60000,"unit":"GFLOP/s"}
{"case":"topic","topic":"t","title":"T","dims":"n","unit":"GB/s","rungs":[{"rung":"r","kind":"rung","lesson":"L"}]}
{"case":"table","topic":"t","problem":"","size":"10","bytes":1.2e9,"operations":6e8,"rows":[{"rung":"r","ms":1,"occupancy":50,"limit":"registers"}]}
END
prints 1 '^memory bus +5120  bits$' device --from device.json
printed 1 '^copy on the GPU, read . write +3200 +2400  GB/s +75[.]0$'
printed 1 '^float32 multiply-adds alone +- +60000  GFLOP/s +-$'
# 1200 GB/s are half of the measured ceiling; 1.2 GB take 0.5 ms, and 0.6 GFLOP 0.01 ms
prints 1 '% theory .* op/byte +ms bytes +ms op +% warps  limit' t --from device.json
printed 1 '^1  r +1[.]00 +1200 +50[.]0 +37[.]5 +1[.]00 +0[.]50 +0[.]50 +0[.]01000 +50  registers +right$'
head -2 device.json >bare.json
prints 1 '^memory bus ' device --from bare.json
refusals 2 <<END
'device' takes only --json, --markdown and --from|device --check
unexpected argument 'reduce'|device reduce
--plot needs one topic, not 'all'|all --from device.json --plot it.png
END
fails 1 't has no timed sweep to draw in it.png' t --from device.json --plot it.png
sed 's/{"rung":"r","ms"/{"rung":"r","point":1,"ms":2},{"rung":"r","point":8,"ms"/' device.json >swept.json
prints 2 '^1  r ' t --from swept.json --plot it.png
is_png it.png
sed 's/"rung":"r"/"rung":""/g' swept.json >nameless.json
ok t --from nameless.json --plot nameless.png
is_png nameless.png

case_ 'what is no record is refused'
machine='{"case":"machine","device":"G"}'
printf '%s\n' "$machine" '{"case":"table","topic":"t","rows":[]}' >strange
printf '%s\n' "$machine" "$(grep '"case":"topic","topic":"softmax"' "$record")" \
  '{"case":"table","topic":"softmax","rows":[{"rung":"fast"}]}' >unknown
cp "$results/fusion-h200.json" fusion.json # because $results may have blanks
refusals 1 all <<END
cannot open none|--from none
line 1: it is too long|--from /dev/zero
it has no results|--from fusion.json
line 2: it does not describe the topic 't'|--from strange
line 3: softmax has no rung 'fast'|--from unknown
END

case_ 'topics are listed without a GPU, and what needs one says so'
export CUDA_VISIBLE_DEVICES=
if ! "$MLP" list >out 2>err; then
  grep 'this program was built without kernels: list --from' err
else
  [ "$(wc -l <out)" -ge 9 ]
  prints 1 '^topic reduce: ' list reduce
  printed 1 '^rung one-pass: '
  refusals 2 <<'END'
unknown topic 'nonsense'|nonsense
unknown topic 'nonsense'|list nonsense
--size of softmax must be 'rows x width'|softmax --size 5
matmul has no rung 'cublas': |matmul --problem bf16 --rung cublas
END
fi
for topic in 'softmax --check' all; do
  refuses 1 "mlp-lab ${topic% *} --from docs/results/lab-h200.json shows" $topic
  grep -qE '^mlp-lab: (no .*GPU|no NVIDIA driver|this program was built without CUDA)' err
done

case_ 'on the emulator ladders are right, and ask for what is predicted'
if ! "$MLP" list --on emulator >out 2>err; then
  skip_ 'mlp-lab-emulator was not built'
else
  while IFS='|' read -r words row; do
    prints 1 "$row" $words --on emulator
    printed 0 ' WRONG$'
    # at its own sizes, which are powers of two, a rung is as predicted or says why not
    [[ $words = *--size* ]] || printed 0 'the prediction is for full warps and tiles'
  done <<'END'
vector --problem fill --size 32000|^3  segment .* 32000 +31.25 +0 +32.0 +31.2  right$
reduce --problem sum --size 25600|^3  sequential .* 4545 +1.00 +5.68 +5.68  right$
reduce --problem dot --size 25601|^6  one-pass +0.20 +1.00 .* right$
reduce --problem maximum --size 25601|^6  one-pass +0.10 +1.00 .* right$
vector --problem multiply --size 25601|^refused, unchecked: threads of its last block would write past the end of the array
vector --problem relu --size 25600|^2  unchecked .* 4.00 +4.00  right$
vector --problem exponentiate --size 3001|^7  word +0.0240 .* right$
softmax --problem logits --size 8x1024|^7  online +0.0655 +1.00 +2048 +16.00 .* 1.00 +1.00  right$
softmax --problem logits --size 8x1024|^2  tree .* 8.00 +8.00  right$
softmax --problem neighbours --size 64x1024|^9  fused +0.28 +1.00 .* right$
matmul --problem float32 --size 64x64x32|^ 9  async-copies .* right$
matmul --problem bf16 --size 64x64x32|^10  tensor-cores .* right$
matmul --problem bf16 --size 64x64x32|^refused, wgmma: it needs compute capability 9.0
transpose --size 64x64|^1  one-thread .* right$
transpose --size 64x64|^4  tile-32 .* 32.0 +32.0  right$
transpose|^4  tile-32 .* 32.0 +32.0  right$
reduce --problem sum|^3  sequential .* 5.65 +5.65  right$
transpose --size 300x300|^tile-32, counted 29.1, predicted 32.0: the prediction is for full warps and tiles
matmul --problem float32|^shared-tiles, counted 2.00, predicted 1.50: nvcc joins loads
matmul --problem float32|^ 7  warp-tiles .* 0.12 +0.12  right$
matmul --problem bf16|^11  stages .* 0.0234 +0.0234  right$
reduce --problem sum --size 25600|^interleaved-conflicts, counted 18.9, predicted 17.9: nvcc joins
pairwise --size 64x32|^registers, counted .* predicted 0.0625: copies to shared memory
pairwise --size 64x32|^multiply, counted 2.03, predicted 2.00: each pair's result is counted, too
divergence|^lane, counted 31.5, predicted 32.0: the work before and after the branch
histogram --problem skewed --size 3000x65536|^2  coarse-bins .* right$
histogram --problem uniform --size 3000x256|^refused, cub: a library has no sources
pairwise --size 40x20|^7  product .* right$
copy_patterns --size 1024|^ 4  stride-4 +3 .* 11.64 .* 12.0 +11.6  right$
copy_patterns --size 33333 --rung random-4|^7  random-4 .* 31.9 +31.9  right$
copy_patterns --size 4001 --rung random-16|^8  random-16 .* right$
copy_patterns --size 64000 --rung blocks-2d|^9  blocks-2d +8 .* 4.00 +4.00  right$
divergence --size 64|^3  lane .* 32.0 +3[12].[0-9]  right$
divergence --size 64|^7  loops-divergent .* 2.00 +[12].[0-9]+  right$
constant --size 96|^2  read-only +32 .* right$
END
  refuses 2 'math and transfers need a GPU' math --on emulator
  refuses 2 "'device' takes only --json, --markdown and --from" device --on emulator
  # every command of seeds.md names a topic, problem and rung that there are
  # shellcheck disable=SC2016 # Markdown quotes code with `
  commands=$(grep -oE '`\./mlp-lab [^`]*`' "$TOP/docs/seeds.md" | tr -d '`' | sort -u)
  [ "$(wc -l <<<"$commands")" -ge 15 ]
  while read -r _ topic words; do
    case $topic in math | transfers | device) continue ;; esac
    "$MLP" list "$topic" --on emulator >listed
    for kind in problem rung; do
      name=$(grep -oE -- "--$kind [a-z0-9-]+" <<<"$words" | cut -d' ' -f2) || continue
      grep -qE "^$kind $name(:|$)" listed || die "seeds.md: $topic has no $kind $name"
    done
  done <<<"$commands"
  prints 1 right$ divergence --rung lane --size 64 --on emulator --json it.json
  cp out measured
  prints 1 right$ divergence --from it.json
  same out measured
fi

case_ 'on the emulator a training step is counted, kernel by kernel, at levels none and layer'
if ! "$MLP" list --on emulator >out 2>err; then
  skip_ 'mlp-lab-emulator was not built'
else
  prints 1 '^none +19 .* right$' levels --on emulator --hidden 8 --batch 4 --json it.json
  printed 1 '^layer +3 .* right$'
  printed 1 '^step was not run: it runs the kernels of level layer'
  printed 1 '^epoch was not run: its blocks wait'
  printed 1 '^head_kernel +1 '
  # gemm: 4 x 784 pixels, 784 x 8 weights, 4 x 8 sums; 4 x 8 values, 8 x 10 weights, 4 x 10 sums
  grep -q '"kernel":"gemm","launches":2,"moved_mb":0.038368,' <(tr -d ' ' <it.json)
  cp out measured
  prints 1 '^gemm +2 ' levels --from it.json
  same out measured
  prints 1 '^## levels: one training step of 784-8-10 at batch 4$' levels --from it.json --markdown
  sed 's/"check": *"right"/"check":"WRONG","note":"it is late"/' it.json >wrong.json
  fails 1 'a level is wrong: see above' levels --from wrong.json
  grep -q '^none is WRONG: it is late[.]$' out
  fails 1 '784-4096-10 at batch 4096 would take the emulator long' \
    levels --on emulator --hidden 4096 --batch 4096
  # a record shows only what it has
  refusals 1 <<'END'
it.json has no topics: 'mlp-lab all --json FILE' writes them|all --from it.json
it.json has no topics|list --from it.json
it.json has no limits of a GPU: 'mlp-lab device --json FILE' writes them|device --from it.json
END
  refuses 2 "unknown topic 'softmax': 'mlp-lab list --from it.json' lists" softmax --from it.json
  refuses 2 "'levels' takes only --on" levels --on emulator --check
fi
refuses 1 'the emulator counts levels: add --on emulator' levels
refuses 1 'lab-h200.json has no levels' levels --from "$record"
refusals 2 <<'END'
'levels' takes only --on, --hidden, --batch|levels --size 64
--hidden and --batch are for 'levels' only|t --batch 64 --from device.json
--from shows what was recorded: remove --hidden and --batch|levels --from device.json --hidden 8
END

case_ 'pages have the tables of the record, and a picture is drawn of another'
cp -r "$TOP/docs" docs
PROGRAMS=$PROGRAMS "$TOP/scripts/docs.sh" "$PWD/docs"
diff -r "$TOP/docs/lab" docs/lab
is_png docs/results/fusion-h200.png
is_png docs/results/copy-patterns-h200.png

case_ 'what a page reads aloud stands in the kernels'
for page in docs/lab/[!R]*.md; do
  topic=$(basename "$page" .md)
  awk '/^```/ { drawn = !drawn } !drawn' "$page" | sed -n 's/^    //p' | while IFS= read -r line; do
    grep -qxF -e "$line" "$TOP/kernels/lab/$topic"*.cu* || die "not in the kernels: $topic: $line"
  done
done
