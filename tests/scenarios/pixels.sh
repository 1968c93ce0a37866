# Tests that a saved network keeps the --pixel-max, --mean and --std with which it was trained.

# pixels LARGEST COUNT prints COUNT rows whose pixels are scaled: 255 becomes LARGEST.
pixels() { rows $2 | awk -F, -v OFS=, '{ print $1, int($2 * '$1' / 255), int($3 * '$1' / 255) }'; }
pixels 16 300 >dim.csv
pixels 16 100 >dim_test.csv
dim="$T --train dim.csv --test dim_test.csv"

case_ 'a small scale is told, and trains worse'
ok $dim --epochs 12 --pixel-max 16 --save 16.st
prints 1 '^note     dim.csv: the largest pixel is 16: --pixel-max 16$' $dim --epochs 12 --save 255.st
awk "BEGIN { exit !($(value test_accuracy 16.st) > 0.95) }"
awk "BEGIN { exit !($(value test_accuracy 16.st) > $(value test_accuracy 255.st)) }"

case_ 'a network keeps its scale' # even if the command line has another scale
scale='--pixel-max 16 --mean 0.5 --std 0.25'
ok $dim --epochs 12 $scale --lr 0.01 --save kept.st
evaluate='--device cpu --evaluate --test dim_test.csv'
ok --load kept.st $evaluate
printed 1 "accuracy +$(value test_accuracy kept.st | awk '{ printf "%.2f%%", 100 * $1 }')"
mv out kept
ok --load kept.st $evaluate --pixel-max 99
same out kept
# A file that another program wrote does not hold the scale, so the command line must give the scale.
edit 's/"options":"[^"]*"/"options":""/' kept.st other.st
ok --load other.st $evaluate $scale
same out kept
prints 1 '^note     other.st does not say how it was trained: assuming pixels / 255, which --pixel-max, --mean and --std change$' \
  --load other.st $evaluate
if cmp -s out kept; then die 'the scale makes no difference'; fi

case_ 'a run keeps its scale'
fails 1 '16.st was trained with a different --pixel-max; use the original value' --resume 16.st --epochs 13 --pixel-max 255

case_ 'mistakes are drawn as bright as they are to the network'
pixels 51 300 | awk -F, -v OFS=, '{ print $1, $2, $3, $3, $2 }' >low.csv
awk -F, -v OFS=, '{ print $1, 5 * $2, 5 * $3, 5 * $4, 5 * $5 }' low.csv >high.csv
ok $T --train low.csv --test low.csv --epochs 1 --pixel-max 51 --mistakes low.png
ok $T --train high.csv --test high.csv --epochs 1 --mistakes high.png
same low.png high.png
