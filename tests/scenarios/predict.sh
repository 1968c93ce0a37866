# Tests that a saved network predicts rows and pictures, and that --mistakes draws its wrong predictions.
digits 600 400
cut -d, -f2- digits_test.csv >unlabelled.csv
A='--device cpu --load model.st'
# The network is wrong on about 80 of 400 rows. That is more mistakes than --mistakes draws.
ok --device cpu --train digits_train.csv --test digits_test.csv --hidden 64 --epochs 8 \
  --save model.st --log run.jsonl --plot curves.png --weights weights.png \
  --mistakes mistakes.png --confusion confusion.png
accuracy=$(value test_accuracy run.jsonl | tail -n 1)
right=$(awk "BEGIN { print 400 * $accuracy }")

case_ 'evaluation says what training did'
[ "$right" -gt 240 ] && [ "$right" -lt 336 ] # so more than the 64 mistakes that are shown
ok $A --evaluate --test digits_test.csv
percent=$(awk "BEGIN { printf \"%.2f\", 100 * $accuracy }")
printed 1 "^loss [0-9.]+  accuracy +$percent%  wrong $((400 - right)) of 400 rows$"
printed 10 '^ +[0-9] .*%$'

case_ 'predictions are the same anywhere'
ok $A --predict digits_test.csv --output answers.csv --quiet
[ ! -s out ]
for how in unlabelled.csv 'unlabelled.csv --output -' 'digits_test.csv --threads 1'; do
  ok $A --predict $how
  same out answers.csv
done

case_ 'each row has its answer, in file order' # the rows fill two staging buffers and a part of a third
mkdir many
"$PROGRAMS/mlp-digits" --train-rows 1 --test-rows 20000 --output-dir many >out
mv many/digits_test.csv many.csv
ok $A --predict many.csv --probabilities --output whole.csv
[ "$(head -n 1 whole.csv)" = ImageId,Label,P0,P1,P2,P3,P4,P5,P6,P7,P8,P9 ]
sed -n 7001,14000p many.csv >part.csv
ok $A --predict part.csv --probabilities
sed '1d; s/[0-9]*,//' out | cmp - <(sed -n '7002,14001s/[0-9]*,//p' whole.csv)
# --evaluate must count the same answers as --predict. Its loss must be the mean of -log(P of the label).
ok $A --evaluate --test many.csv --json
paste -d , whole.csv <(echo label && cut -d, -f1 many.csv) | tail -n +2 | awk -F, -v said="$(value loss out)" '
  $1 != NR { exit bad = 1 }
  { count[$13 * 10 + $2]++; loss -= log($(3 + $13)) / 20000 }
  END {
    for (i = 0; i < 100; i++) printf "%s%d%s", i % 10 ? ", " : i ? "], [" : "[[", count[i], i == 99 ? "]]" : ""
    exit bad || loss / said > 1.0001 || loss / said < 0.9999
  }' >counts
grep -qF "\"counts\": $(<counts)}" out
STDOUT=/dev/full fails 1 'cannot write to standard output: No space left' $A --predict many.csv

case_ 'what cannot be asked'
refusals 1 $A <<'END'
train.csv, line 1: 3 fields, but the network takes 784 pixels a row|--predict train.csv --output never.csv
train.csv has 2 pixels a row, but the network takes 784|--evaluate --test train.csv
unlabelled.csv|--evaluate --test unlabelled.csv
none.csv: no such file|--evaluate --test none.csv
. is a directory, not a CSV file|--evaluate --test .
cannot open train.csv/under: Not a directory|--evaluate --test train.csv/under
none.png|--classify none.png
END
refuses 1 'cannot load .: it is not a regular file' --evaluate --load .
absent never.csv

case_ 'a failure leaves the file that was there, and no other'
head -n 399 unlabelled.csv | cat - <(echo 1,2) >bad.csv
echo old >old.csv
files=$(ls -A)
fails 1 'bad.csv, line 400: 2 fields, but line 1 has 784' $A --predict bad.csv --output old.csv
[ "$(cat old.csv)" = old ]
[ "$(ls -A)" = "$files" ]

# ---- pictures of digits --------------------------------------------------------------------

# tests/test_photographs.c tests photographs of many kinds.
# Draws a page of two digits. The first digit is pale, and the page is dark at one side.
awk -F, '
  NR <= 2 { for (i = 0; i < 784; i++) ink[NR - 1, i] = $(i + 2) }
  END {
    printf "P5 400 400 255\n"
    for (y = 0; y < 400; y++)
      for (x = 0; x < 400; x++) {
        level = 250 - int(x / 4)
        digit = int((x - 20) / 190)
        column = int((x - 20 - 190 * digit) / 6)
        row = int((y - 100) / 6)
        if (x >= 20 && y >= 100 && digit < 2 && column < 28 && row < 28)
          level *= 1 - ink[digit, row * 28 + column] * (digit ? 0.8 : 0.6) / 255
        printf "%c", level
      }
  }' digits_test.csv >page.pgm

case_ 'digits of a page are answered one by one'
prints 2 '^page.pgm  [0-9]+x[0-9]+[+][0-9]+[+][0-9]+ +[0-9] .*%' $A --classify page.pgm
prints 2 '%  unsure$' $A --classify page.pgm --confidence 1
prints 0 unsure $A --classify page.pgm --confidence 0

case_ 'digits of a page are a line of text'
line=$(awk '/%/ { printf "%s", $3 }' out)
printed 1 "^page.pgm  line 1 +$line$"
prints 1 '^page.pgm  line 1 +[?]{2}$' $A --classify page.pgm --confidence 1
ok $A --classify page.pgm --confidence 0 --names a,b,c,d,e,f,g,h,i,'"j'
printed 1 "^page.pgm  line 1 +$(tr 0-9 a-j <<<"${line:0:1} ${line:1}")$"
ok $A --classify page.pgm --confidence 0 --json --names a,b,c,d,e,f,g,h,i,'"j'
printed 1 '"answer": [0-8], "name": "[a-i]", "sure": true, .*"rows": \["[a-i] [a-i]"\]\}$'

case_ 'pictures that cannot be answered'
STDOUT=/dev/full fails 1 'No space left' $A --classify page.pgm
ok $T --epochs 1 --save two.st
refuses 1 'the network takes 2 pixels, which do not make a square picture' --device cpu --load two.st \
  --classify page.pgm
head -c 1000 curves.png >half.png
: >empty.png
fails 1 'half.png cannot be read as a PNG, JPEG, BMP or PGM' $A --classify half.png
fails 1 'empty.png is empty' $A --classify empty.png
fails 1 'train.csv is CSV text: it has rows' $A --classify train.csv
fails 1 'cannot read .' $A --classify .

case_ 'a pipe is read as a file'
ok $A --classify page.pgm
cut -d' ' -f2- out >answers
ok $A --classify <(cat page.pgm)
cut -d' ' -f2- out | same - answers

# known INPUTS CLASSES [BYTE] writes known.st, a network without hidden layers. Standard input has the
# biases. BYTE is the value of every byte of the weights. By default it is 0, so logits equal the biases.
known() {
  local size=$(($1 * $2 * 4))
  cat <(head -c $size /dev/zero | tr '\0' "${3-\\0}") - | with_header "$(tr "'" '"' <<<"{'0.weight':{'dtype':'F32','shape':[$2,$1],
    'data_offsets':[0,$size]},'0.bias':{'dtype':'F32','shape':[$2],'data_offsets':[$size,$((size + 4 * $2))]}}")" >known.st
}
case_ 'an answer is as likely as the network says'
awk 'BEGIN {
  printf "P5 28 28 255\n"
  for (i = 0; i < 784; i++) printf "%c", (i % 28 == 14 && i > 200 && i < 600 ? 1 : 250)
}' >a.pgm
printf '%b' "$(printf '\\0%.0s' {1..44})" '\x90\x39\x8c\x40' | known 100 12 # bias log(80) for class 11: p = 80 / (80 + 11)
ok --device cpu --load known.st --confidence 0.5 --classify a.pgm # the picture has more pixels than the network takes
printed 1 '^note     known.st does not say how it was trained: assuming pixels / 255, which --pixel-max'
same <(sed 1d out) - <<<'a.pgm  11  87.91%'
printf '\0\0\x20\x42\0\0\0\0' | known 100 2 '\177' # all weights are 3.4e38
fails 1 "a.pgm: the network's output is not a finite number" --device cpu --load known.st --classify a.pgm

case_ 'bad pictures stop no others'
run $A --classify none.png page.pgm train.csv
[ $status = 1 ]
printed 2 '^page.pgm  .*%'
[ "$(sed 's/: [^:]*$//' err)" = "mlp-train: cannot open none.png
mlp-train: train.csv is CSV text" ]
fails 1 'cannot open none.png' $A --classify --json none.png page.pgm
printed 1 '^\{"picture": "page.pgm", "width": 400, "height": 400, "digits": \[.*\]\}$'
[ "$(grep -oE '\{"box": \[[0-9, ]+\], "answer": [0-9], "sure": [a-z]+, "probabilities": \[[^]]{40,}\]\}' out |
  wc -l)" = 2 ]

case_ 'what the network saw is shown'
ok $A --show seen.png --classify page.pgm
is_png seen.png
fails 1 none/seen.png $A --show none/seen.png --classify page.pgm
fails 2 'are the same file' $A --show page.pgm --classify page.pgm

case_ 'pictures can be drawn later'
is_png {curves,weights,mistakes,confusion}.png
ok $A --evaluate --test digits_test.csv --weights w.png --mistakes m.png --confusion c.png
same w.png weights.png
same m.png mistakes.png
same c.png confusion.png

case_ 'the most confident mistakes are shown' # a picture has 64 mistakes; without the other mistakes it is the same
ok $A --predict unlabelled.csv --output shares.csv --probabilities
paste -d , digits_test.csv <(tail -n +2 shares.csv) |
  awk -F, '$1 != $787 { print $($787 + 788), $786, $787 }' | sort -k 1,1gr -k 2,2n |
  awk 'NR > 64 { print $2, $3 }' >wrong
awk 'NR == FNR { label[$1] = $2; next } FNR in label { sub(/^./, label[FNR]) } { print }' \
  wrong digits_test.csv >left.csv
prints 1 '  wrong 64 of 400 rows$' $A --evaluate --test left.csv --mistakes left.png
same left.png mistakes.png

case_ 'pictures that cannot be drawn'
ln -s /dev/full full.png
fails 1 'cannot write full.png: No space left' $A --evaluate --test digits_test.csv --mistakes full.png
refuses 1 '--mistakes draws square pictures, but a row has 2 pixels' $T --epochs 1 --mistakes m.png

case_ 'a column that numbers the rows is left out, and numbers the answers'
awk -F, 'BEGIN { print "id,label,p0,p1,place" } { print "row-" NR "," $0 ",here" }' train.csv >ids.csv
ok $T --train ids.csv --ignore-columns place --test none --save ids.st
printed 1 '^note     ids.csv: column 1 numbers the rows: left out$'
ok $T --test none --save plain.st
same_network ids.st plain.st
cut -d, -f1,3,4 ids.csv | sed '2s/row-1/"row, ""1"""/' >asked.csv
run --device cpu --load ids.st --predict asked.csv --output ids_out.csv
[ "$(sed -n 2p ids_out.csv | cut -d, -f1-2)" = '"row, ""1"""' ]
[ "$(sed -n 301p ids_out.csv | cut -d, -f1)" = row-300 ]
awk -F, '{ print (NR == 1 ? "index" : NR) "," $0 }' ids.csv >more.csv
ok $T --train more.csv --ignore-columns place --test none --save more.st
printed 1 '^note     more.csv: columns 1, 2 number the rows: left out$'
same_network more.st plain.st
ok --device cpu --load more.st --predict more.csv --ignore-columns place --output more_out.csv
same <(cut -d, -f1 more_out.csv) <(echo ImageId && seq 2 301) # the first of these columns
ok --device cpu --load plain.st --predict train.csv --output plain_out.csv
same <(sed 's/.*,//' ids_out.csv) <(sed 's/.*,//' plain_out.csv)
fails 1 "no column 'place' to leave out" $T --ignore-columns place
