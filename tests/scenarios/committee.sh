# If --load is given more than once, several networks predict together. These networks have different
# shapes and seeds and little training, so that they disagree.
member() { ok $T --epochs 1 --lr 0.002 --hidden $1 --seed $2 --save $3; }
member 4 1 a.st
member none 2 b.st
member 8,3 3 c.st
all='--load a.st --load b.st --load c.st'
ask='--device cpu --predict test.csv --probabilities --output'
for name in a b c; do ok --load $name.st $ask $name.csv; done
ok $all $ask all.csv

# Predictions are lines ROW,LABEL,PROBABILITY,PROBABILITY after a heading.
case_ 'probabilities are averaged'
paste -d , all.csv a.csv b.csv c.csv | tail -n +2 | awk -F , '
  function off(x) { return x > 2e-6 || x < -2e-6 }
  {
    if (off($3 - ($7 + $11 + $15) / 3) || off($4 - ($8 + $12 + $16) / 3)) wrong++
    if ($1 != NR || $2 != ($4 > $3)) wrong++
    others += ($6 != $2) + ($10 != $2) + ($14 != $2)
  }
  END { exit !(NR == 50 && !wrong && others > 0) }'

case_ 'it is evaluated'
right=$(paste -d , test.csv <(tail -n +2 all.csv) | awk -F , '$1 == $5' | wc -l)
prints 1 "^loss .* $((2 * right))\.00%" $all --device cpu --evaluate --test test.csv

case_ 'each member scales pictures for itself'
awk 'BEGIN {
  printf "P5 28 28 255\n"
  for (i = 0; i < 784; i++) printf "%c", (i % 28 == 14 && i > 200 && i < 600 ? 1 : 250)
}' >a.pgm
for max in 255 16; do
  rows 300 | awk -F, -v OFS=, '{ print $1, int($2 * '$max' / 255), int($3 * '$max' / 255), int($3 * '$max' / 255), int($2 * '$max' / 255) }' >$max.csv
  ok $T --train $max.csv --test none --epochs 2 --pixel-max $max --save $max.st
  ok --device cpu --load $max.st --classify a.pgm --json --confidence 0
  sed -E 's/.*"probabilities": \[([^]]*)\].*/\1/' out >$max.answer
done
paste -d, 255.answer 16.answer | awk -F', *' '{ printf "%.4f %.4f\n", ($1 + $3) / 2, ($2 + $4) / 2 }' >wanted
for order in '--load 255.st --load 16.st' '--load 16.st --load 255.st'; do
  ok --device cpu $order --classify a.pgm --json --confidence 0
  sed -E 's/.*"probabilities": \[([^]]*)\].*/\1/' out | awk -F', *' '{ printf "%.4f %.4f\n", $1, $2 }' | same wanted -
done
# Rows of one range do not fit both.
prints 1 '^note     255.csv with 16.st: pixels are 0 to 255, in training 0 to 16: multiply them by 0.0627$' \
  --device cpu --load 255.st --load 16.st --evaluate --test 255.csv

case_ 'members whose columns differ'
sed -E 's/^([^,]*),(.*)/\2,\1/' train.csv >last.csv
ok $T --train last.csv --test none --label-column last --epochs 1 --save last.st
pair='--device cpu --load a.st --load last.st'
refuses 1 'last.csv does not say where its labels are, and the networks had them in different columns: --label-column' \
  $pair --evaluate --test last.csv
refuses 1 'last.csv does not say where its labels are' $pair --predict last.csv
ok $pair --evaluate --test last.csv --label-column 3
ok $pair --evaluate --test <(echo a0,a1,label && cat last.csv)
ok $pair --predict <(cut -d, -f2- train.csv) # rows without labels
ok $T --train <(echo label,a,b && cat train.csv) --test none --epochs 1 --save ab.st
ok $T --train <(echo label,b,a && cat train.csv) --test none --epochs 1 --save ba.st
refuses 1 'ba.st and ab.st were trained on columns with different names or in a different order' \
  --device cpu --load ab.st --load ba.st --predict test.csv

case_ 'what does not fit is refused'
printf '0,1,2,3\n1,200,3,4\n2,5,6,7\n' >three.csv
ok $T --train three.csv --test none --classes 3 --epochs 1 --save three.st
predict='--load a.st --device cpu --predict test.csv'
refuses 1 'three.st has 3 inputs and 3 classes, but a.st has 2 and 2' $predict --load three.st
refuses 1 missing.st $predict --load missing.st
refuses 2 '--weights draws a single network; give --load only once' $all --evaluate --weights w.png
