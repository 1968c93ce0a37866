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

case_ 'what does not fit is refused'
printf '0,1,2,3\n1,200,3,4\n2,5,6,7\n' >three.csv
ok $T --train three.csv --test none --classes 3 --epochs 1 --save three.st
predict='--load a.st --device cpu --predict test.csv'
refuses 1 'three.st has 3 inputs and 3 classes, but a.st has 2 and 2' $predict --load three.st
refuses 1 missing.st $predict --load missing.st
refuses 2 '--weights draws one network: give it one --load' $all --evaluate --weights w.png
