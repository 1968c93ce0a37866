# --tune: the learning-rate range test.
S="$T --batch 2" # 150 steps

# printed_rate: prints the word behind the last --lr that the program printed.
printed_rate() { grep -o -- '--lr [^ ]*' out | tail -n 1 | cut -d ' ' -f 2; }

case_ 'a rate is found' # with it the network learns much better than at the lowest
rows 6000 >many.csv # 750 steps
M="$T --train many.csv"
prints 1 '^tune +[0-9]+ steps at [0-9]+ rates from 1e-05 to [0-9.]+' $M --tune tune.png
printed 1 '^wrote +tune.png$'
is_png tune.png
rate=$(printed_rate)
ok $M --epochs 1 --lr $rate --save found.st
[[ $(value test_accuracy found.st) =~ ^(1$|0\.9) ]]
ok $M --epochs 1 --lr 1e-5 --save low.st
[[ $(value test_accuracy low.st) =~ ^0\.[0-8] ]]

case_ 'the command is repeated'
ok $S --tune 'a picture.png' -l 3 --lr=5 --seed 2 --lr 4
called=$MLP
[[ $called != *[^a-zA-Z0-9/._-]* ]] || called="'$called'"
grep -qxF "try      $called $S --seed 2 --lr $(printed_rate)" out
ok $S '--tune=a picture.png' --quiet
[ ! -s out ]

case_ 'a loss that diverges ends it' # labels that the pixels do not tell: no rate helps
awk 'BEGIN {
  for (row = 0; row < 1000; row++) print (row * 7919 % 13 < 6) ",255," row % 256
}' >noise.csv
prints 1 '^tune .*, where the loss diverged$' $S --hidden 32,32 --train noise.csv --tune noise.png

case_ 'what it cannot do is refused'
for output in '--save x.st' '--log x.csv' '--plot x.png' '--weights x.png' '--mistakes x.png' \
  '--confusion x.png' '--resume x.st' '--load x.st'; do
  refuses 2 "--tune only looks for a learning rate: leave out ${output% *}" $S --tune t.png $output
done
refuses 2 'leave out --resident no' $S --tune t.png --resident no
refuses 2 '--tune writes a file that ends in .png' $S --tune t.jpg
fails 1 missing/t.png $S --tune missing/t.png
fails 1 '--tune wants at least 20 steps, but 300 rows in batches of 16 are 19: try a smaller --batch' \
  $T --batch 16 --tune t.png
