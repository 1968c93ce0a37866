# Tests that a file which cannot be read is refused with what to do about it, and that this works.
N=${T% --train *}
# table COUNT MAXIMUM AWK prints COUNT rows of a label from 0 to 3 and 16 pixels p from 0 to MAXIMUM, each as the value
# of the expression AWK. The picture's column `label` is bright.
table() {
  awk -v count="$1" -v most="$2" 'BEGIN {
    for (r = 0; r < count; r++) {
      label = (r * 7 + int(r / 3)) % 4
      line = label
      for (i = 0; i < 16; i++) { p = i % 4 == label ? most : most * (r * i % 5) / 16; line = line "," '"$3"' }
      print line
    }
  }'
}
names() { awk 'BEGIN { printf "label"; for (i = 0; i < 16; i++) printf ",pixel%d", i; print "" }'; }
S="$N --classes 4 --test none --epochs 40"
# cured FILE TEXT COMMAND [OPTION]... checks that FILE is refused with TEXT, and that what COMMAND makes of FILE trains
# with the options.
cured() {
  local file=$1 text=$2 command=$3
  shift 3
  fails 1 "$text" $S --train "$file"
  eval "$command" <"$file" >cured.csv
  ok $S --train cured.csv "$@"
  printed 0 '^note'
}
table 40 255 'int(p)' >rows.csv
names | cat - rows.csv >named.csv
ok $S --train named.csv
printed 0 '^note'

case_ 'lines that are no rows are named'
{ echo 'sep=;'; tr , ';' <named.csv; } >excel.csv
cured excel.csv 'line 1 is only for Excel: remove it, as tail -n +2 does' 'tail -n +2'
{ echo '# made by a script'; cat named.csv; } >comment.csv
cured comment.csv 'line 1 is a comment: remove it, as tail -n +2 does' 'tail -n +2'
printf '# A page\n\nIt has no rows.\n' >page.md # a heading is no comment
fails 1 'page.md, line 2: a blank line, but more lines follow' $S --train page.md
if grep -q comment err; then die "$(cat err)"; fi
cat named.csv named.csv >twice.csv
cured twice.csv "line 42, column 1: 'label' is not a label from 0 to 3: the header comes again: remove this line" 'sed 42d'
{ awk 'BEGIN { printf "0,0.1"; for (i = 2; i < 17; i++) printf ",0.%d", i; print "" }'; cat rows.csv; } >pandas.csv
cured pandas.csv 'line 1 is a header that pandas made of a row: remove it, as tail -n +2 does' 'tail -n +2'
{ names | tr , ' '; tr , ' ' <rows.csv | awk '{ print "\"" NR "\"", $0 }'; } >r.txt
cured r.txt "write the rows without names, as R's write.table(..., row.names = FALSE) does" "sed 's/^\"[0-9]*\" //'"
tr , ' ' <rows.csv | sed 's/$/ /' >blanks.txt
cured blanks.txt "all lines end with a separator: remove it, as sed 's/[ ,;\\t]*\$//' does" "sed 's/[ ,;\\t]*\$//'"

case_ 'a label that is none is named'
# shellcheck disable=SC2016 # awk expands $1
hot='{ line = ""; for (i = 0; i < 4; i++) line = line (i == $1 ? "True" : "False") ","; sub(/^[0-9],/, ""); print line $0 }'
awk -F, "$hot" rows.csv >true.csv
cured true.csv 'columns of True and False are a one-hot label' \
  "awk -F, '{ for (i = 1; i <= 4; i++) if (\$i == \"True\") printf \"%d\", i - 1; for (i = 5; i <= NF; i++) printf \",%s\", \$i; print \"\" }'"
same cured.csv rows.csv
{ echo "label,$(seq -s, 16)" && awk -F, -v OFS=, '{ $1 = $1 % 2 ? "yes" : "no"; print }' rows.csv; } >yes.csv
sed 's/^yes/True/; s/^no/False/' yes.csv >truth.csv # one column of True and False is words
fails 1 "' is not a label from 0 to 1: no class has this name: no, yes" $N --epochs 4 --train yes.csv --test truth.csv
awk '{ print NR + 1999 "," $0 }' rows.csv >counted.csv # more than pixels and classes are
fails 1 'counted.csv, line 1, column 1:' $S --train counted.csv
awk '{ print NR "," $0 }' rows.csv >counted.csv
awk -F, -v OFS=, '{ $1 = $1 % 2 ? 1 : -1; print }' rows.csv >signs.csv
cured signs.csv 'labels are -1 and 1: write 0 for -1' 'sed s/^-1,/0,/' --classes 2
cured counted.csv 'column 1 numbers the rows: --ignore-columns 1 leaves it out' cat --ignore-columns 1 --save counted.st
ok $S --train rows.csv --save rows.st
same_network counted.st rows.st
fails 1 'column 1 numbers the rows: --ignore-columns 1 leaves it out' --device cpu --load rows.st --predict counted.csv
ok --device cpu --load rows.st --predict counted.csv --ignore-columns 1 --output answers.csv
awk -F, -v OFS=, 'BEGIN { split("hat shoe coat bag", w, " ") } { $1 = w[1 + $1]; print }' named.csv | sed "1s/^[^,]*/label/" >words.csv
fails 1 "'hat' is not a label from 0 to 3: --names lists words that are labels, in the order of classes" \
  $N --classes 4 --epochs 4 --train rows.csv --test words.csv
prints 1 '^epoch 4/4 .*%.*%' $N --classes 4 --epochs 4 --train rows.csv --test words.csv --names hat,shoe,coat,bag
awk -F, '{ label = $1; $1 = ""; print substr($0, 2) " " label }' rows.csv | sed 's/^[0-9]*/5/; 2s/^[0-9]*/90/; s/ /,/g' >last.csv
cured last.csv 'it looks like a pixel, and the last column, 0 to 3, like the label: --label-column last' cat --label-column last
awk -F, -v OFS=, '{ label = $1; $1 = (NR * 7) % 40; print $0, label }' rows.csv >either.csv # both columns could be labels
cured either.csv 'labels go up to 39: --classes 40 takes them; if the last column, 0 to 3, is the label: --label-column last' \
  cat --label-column last
awk -F, -v OFS=, '{ $1 = NR % 26; print }' rows.csv >letters.csv
cured letters.csv 'labels go up to 25: --classes 26 takes them' cat --classes 26
sed 's/^[0-9]*//' rows.csv >none.csv
fails 1 'no row has a label, so that they can only be given to --predict' $S --train none.csv
ok $S --train rows.csv --save net.st
ok --device cpu --load net.st --predict none.csv
L='--device cpu --load net.st'
fails 1 'line 1 is only for Excel: remove it, as tail -n +2 does' $L --evaluate --test excel.csv
fails 1 'line 1 is a comment: remove it, as tail -n +2 does' $L --evaluate --test comment.csv
fails 1 'line 1 is a comment: remove it, as tail -n +2 does' $L --predict comment.csv
fails 1 'write the rows without names' $L --predict r.txt
fails 1 'all lines end with a separator' $L --evaluate --test blanks.txt

case_ 'pixels that are none are named'
table 40 1 'p' >1.csv
cured 1.csv 'multiply pixels of 0 to 1 by 255' "awk -F, -v OFS=, '{ for (i = 2; i <= NF; i++) \$i = int(255 * \$i + 0.5); print }'"
table 40 16 'p * 0.99' >16.csv
cured 16.csv 'round pixels to whole numbers, and give --pixel-max 16' \
  "awk -F, -v OFS=, '{ for (i = 2; i <= NF; i++) \$i = int(\$i + 0.5); print }'" --pixel-max 16
table 40 2 'p - 1' >minus.csv
cured minus.csv 'pixels are -1 to 1: write round((p + 1) * 127.5), and give --mean 0.5 --std 0.5 for the same numbers' \
  "awk -F, -v OFS=, '{ for (i = 2; i <= NF; i++) \$i = int((\$i + 1) * 127.5 + 0.5); print }'" --mean 0.5 --std 0.5
table 40 1 '(p - 0.1307) / 0.3081' >normal.csv
cured normal.csv 'write round((p + 0.42421) * 78.565), and give --mean 0.1307 --std 0.3081 for the same numbers' \
  "awk -F, -v OFS=, '{ for (i = 2; i <= NF; i++) \$i = int((\$i + 0.42421) * 78.565 + 0.5); print }'" --mean 0.1307 --std 0.3081
table 40 65535 'int(p)' >16_bits.csv
cured 16_bits.csv 'pixels go up to 65535: write round(p * 0.00389105)' \
  "awk -F, -v OFS=, '{ for (i = 2; i <= NF; i++) \$i = int(\$i * 0.00389105 + 0.5); print }'"
{ echo emotion,pixels; sed 's/,/ /2g; s/,\(.*\)/,"\1"/' rows.csv; } >field.csv
cured field.csv 'pixels are all in one field: write each in a field of its own' "tail -n +2 | tr ' ' , | tr -d '\"'"
echo name,label >pictures.csv
for r in 0 1 2 3; do
  printf 'P5 4 4 255\n' >$r.png # a picture of 4 x 4 pixels; its bytes say that it is PGM
  for i in {0..15}; do if [ $((i % 4)) = $r ]; then printf '\377'; else printf '\0'; fi; done >>$r.png
  echo "$r.png,$r" >>pictures.csv
done
fails 1 'the rows name pictures: write the pixels of each into its row, or give the pictures to --classify' \
  $S --train pictures.csv
while IFS=, read -r name label; do
  [ "$name" = name ] || echo "$label,$(tail -c 16 "$name" | od -An -v -tu1 | xargs | tr ' ' ,)"
done <pictures.csv >cured.csv
ok $S --train cured.csv --save cured.st
ok --device cpu --load net.st --classify {0,1,2,3}.png

case_ 'pixels in colour are no columns too many'
awk 'BEGIN { for (r = 0; r < 40; r++) { printf "%d", r % 4; for (i = 0; i < 192; i++) printf ",%d", i % 4 == r % 4 ? 255 : r * i % 30; print "" } }' >colours.csv
prints 1 '^note     colours.csv: 192 pixels seem to be 8 x 8 in 3 colours: they train as they are, ' $S --train colours.csv
printed 0 'too many'

case_ 'a lower --lr is advised only after enough steps'
ok $S --train rows.csv --batch 40 --epochs 3 --lr 0.000001
printed 0 'try a'
printed 1 '^note     after epoch 3 the network is no better than a constant answer: it took only 3 steps: more --epochs, or a smaller --batch$'
ok $S --train rows.csv --batch 4 --epochs 40
printed 0 '^note'
