# CSV files as people have them: where the label is, and how it is said.

# Rows of a label, 0 or 1, and three pixels, the first always 0.
awk 'BEGIN { for (r = 0; r < 60; r++) print (r * 7 % 5 > 2) ",0," r % 200 "," r * 31 % 256 }' >first.csv
awk -F, -v OFS=, '{ print $2, $3, $4, $1 }' first.csv >last.csv
awk -F, -v OFS=, '{ print $2, $3, $1, $4 }' first.csv >middle.csv
head -n 6 last.csv >few.csv
# A header before the rows.
headed() { { echo "$1" && cat "$2"; } >"$3"; }
headed a,b,c,Label last.csv named.csv
headed 0,1,2,label last.csv numbered.csv
headed x,y,c,label last.csv surest.csv
headed a,b,kind,c middle.csv kind.csv
headed pixel0,a,b,c last.csv nameless.csv
trains="$T --epochs 2 --test none"

case_ 'the label is where the header or --label-column says'
ok $trains --train first.csv --save wanted.st
while read -r words; do
  ok $trains --save got.st --train $words
  same_network wanted.st got.st
done <<'END'
named.csv
numbered.csv
surest.csv
last.csv --label-column last
last.csv --label-column 4
nameless.csv --label-column last
middle.csv --label-column 3
kind.csv --label-column KIND
first.csv --label-column 1
END

case_ 'a label that is elsewhere is not trained on'
while IFS='|' read -r words message; do
  fails 1 "$message" $trains --save refused.st --train $words
  [ ! -e refused.st ] || die "--train $words saved a network"
done <<'END'
last.csv|last.csv: the last column looks like the label, the first has one value in 60 of 60 rows: give --label-column last
nameless.csv|nameless.csv: the last column looks like the label
few.csv|few.csv: the first column is 0 in all 6 rows: name the label's with --label-column N, NAME or last
last.csv --label-column 5|last.csv, line 1: 4 fields, but --label-column is 5
last.csv --label-column 0|last.csv, line 1: 4 fields, but --label-column is 0
last.csv --label-column kind|last.csv, line 1: no header names the column 'kind': --label-column takes a number or last, too
named.csv --label-column kind|named.csv, line 1: no field is 'kind'
END

case_ 'the column is kept with the run, and holds for other files'
ok $trains --train last.csv --label-column last --save kept.st
ok --resume kept.st --epochs 3
ok --load kept.st --device cpu --evaluate --test last.csv --label-column last
grep -v ^note out >wanted # which names the file
ok --load kept.st --device cpu --evaluate --test named.csv
grep -v ^note out | same - wanted
ok --load kept.st --device cpu --predict named.csv --output named_answers.csv
cut -d, -f1-3 last.csv >pixels.csv
ok --load kept.st --device cpu --predict pixels.csv --label-column last --output pixels_answers.csv
same named_answers.csv pixels_answers.csv
