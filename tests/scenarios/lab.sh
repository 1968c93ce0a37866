# mlp-lab on a machine without a GPU: recorded runs are shown, and the pages quote them.
MLP=$PROGRAMS/mlp-lab
results=$TOP/docs/results
record=$results/lab-h100.json

case_ 'a record shows what was measured'
ok all --from "$record" --markdown tables.md --plot it.png
grep -q "^## transfers, twice" tables.md
set -- it-*.png
[ $# = 12 ] || die "there are $# pictures"
is_png "$@"

case_ 'one topic or problem is shown'
prints 1 '^softmax: ' softmax --from "$record"
printed 0 '^reduce, '
prints 1 '^reduce, int32: ' reduce --problem int32 --from "$record"
printed 0 '^reduce, float32: '
prints 1 '^transfers ' list --from "$record"

case_ 'a roofline is drawn of what computes'
ok all --from "$record" --roofline roof.png
is_png roof-matmul.png roof-vector.png
[ ! -e roof-transpose.png ]
fails 1 'no rung of transpose computes and was timed' transpose --from "$record" --roofline roof.png
sed 's/"ms":[^,}]*/"ms":null/' "$record" >untimed.json
fails 1 'no rung of softmax was timed: there is nothing to draw' softmax --from untimed.json --plot x.png

case_ 'what is no record, or would be overwritten, is refused'
cp "$record" r-softmax.png
sed 's/"softmax"/"..\/softmax"/' "$record" >slashes.json
refusals 1 all --plot r.png <<END
cannot open none|--from none
line 1: it is too long|--from /dev/zero
it has no results|--from $results/fusion-h100.json
'../softmax' is no topic: it has more than small letters and _|--from slashes.json
END
refusals 2 all --plot r.png <<END
--from r-softmax.png and --plot r-softmax.png are the same file|--from r-softmax.png
--markdown r-reduce.png and --plot r-reduce.png are the same file|--from $record --markdown r-reduce.png
END
same r-softmax.png "$record"

case_ 'topics are listed, and what needs a GPU says so'
ok list
if [ ! -s out ]; then
  fails 2 "built without CUDA: --from docs/results/lab-h100.json shows a recorded run" softmax
  fails 1 'this program was built without CUDA' device
else
  printed 1 '^softmax '
  prints 1 '^topic reduce: ' list reduce
  refusals 2 <<'END'
unknown topic 'nonsense'|nonsense
unknown topic 'nonsense'|list nonsense
--size of softmax must be 'rows x width'|softmax --size 5
'cublas' is not of the problem 'bf16'|matmul --problem bf16 --rung cublas
END
  export CUDA_VISIBLE_DEVICES=
  for topic in softmax 'softmax --check' all; do
    refuses 1 "; mlp-lab ${topic% *} --from docs/results/lab-h100.json shows" $topic
    grep -q '^mlp-lab: no .*GPU' err
  done
  refuses 1 'mlp-lab: no ' device
  grep -q 'GPU' err
fi

case_ 'on the emulator ladders are right, and ask for what is predicted'
if [ ! -x "$MLP-emulator" ]; then
  skip_ 'mlp-lab-emulator was not built'
else
  while IFS='|' read -r words row; do
    prints 1 "$row" $words --on emulator
    printed 0 ' WRONG$'
  done <<'END'
vector --problem fill --size 32000|^3  segment .* 32000 +31.25 +0 +- +32.0  right$
reduce --problem int32 --size 25600|^ 3  sequential .* 4545 +1.00 +5.68  right$
reduce --problem minimum --size 77|^refused, two-gpus: a library has no sources
reduce --problem dot --size 25601|^ 6  one-pass +0.20 +1.00 .* right$
vector --problem exponentiate --size 3001|^7  word +0.0240 .* right$
softmax --size 8x1024|^7  online +0.0655 +1.00 +2048 +16.00 .* 1.00  right$
matmul --problem float32 --size 64x64x32|^10  async-copies .* right$
matmul --problem bf16 --size 64x64x32|^refused, tma: it needs compute capability 9.0
transpose --size 64x64|^6  padded .* 256 +1.00 +1.00  right$
histogram --problem uniform --size 3000x256|^refused, cub: a library has no sources
pairwise --size 40x20|^6  product .* right$
pairwise --problem entropy --size 150x20|^9  fused +0.0618 .* right$
copy_patterns --size 1024|^ 4  stride-4 +3 .* 11.64 .* 12.0  right$
divergence --size 64|^3  lane .* right$
constant --size 96|^2  read-only +32 .* right$
END
  prints 1 '^constant ' list --on emulator
  refuses 2 "unknown topic 'math': 'mlp-lab list --on emulator' lists" math --on emulator
  refuses 2 'or --on emulator: they measure no times' vector --on emulator --plot x.png
fi

case_ 'pages have the tables of the record'
cp -r "$TOP/docs/lab" pages
"$TOP/scripts/lab_pages.sh" "$MLP" "$PWD/pages"
diff -r "$TOP/docs/lab" pages

case_ 'what a page reads aloud stands in the kernels'
for page in pages/[!R]*.md; do
  topic=$(basename "$page" .md)
  awk '/^```/ { drawn = !drawn } !drawn' "$page" | sed -n 's/^    //p' | while IFS= read -r line; do
    grep -qxF -e "$line" "$TOP/kernels/lab/$topic"*.cu* || die "not in the kernels: $topic: $line"
  done
done
