# Classes may have names. Names are saved with the network and shown to people instead of numbers.
digits 600 100
D='--device cpu --threads 1 --train digits_train.csv --test digits_test.csv --hidden 16'
A='--device cpu --load model.st'
NAMES='T-shirt,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot'
ok $D --epochs 1 --save plain.st --confusion plain.png --mistakes many.png
ok $D --epochs 1 --save model.st --names "$NAMES" --confusion named.png --mistakes ones.png

case_ 'names are kept with the network, and come back'
same_network model.st plain.st
[ "$(value names model.st)" = "${NAMES//,/\\n}" ]
if grep -q '"names"' plain.st; then die 'numbers are names'; fi
prints 1 '^ +9 .*%  Ankle boot$' $A --evaluate --test digits_test.csv --confusion c.png --mistakes m.png
same c.png named.png
same m.png ones.png
if cmp -s c.png plain.png || cmp -s m.png many.png; then die 'a picture has no names'; fi

case_ 'predictions keep their numbers, and JSON has names'
ok $A --predict digits_test.csv --output named.csv
ok --device cpu --load plain.st --predict digits_test.csv --output plain.csv
same named.csv plain.csv
prints 1 '"names": \["T-shirt", .*, "Ankle boot"\], "counts"' $A --evaluate --test digits_test.csv --json

case_ 'names that are given anew replace them'
prints 1 '%  J$' $A --names '</script>,B,C,D,E,F,G,H,I,J' --html page.html --evaluate --test digits_test.csv
grep -q '^"names": \["\\u003c/script>", "B", ' page.html
ok $D --resume model.st --epochs 2 --save later.st
[ "$(value names later.st)" = "$(value names model.st)" ]
ok $D --resume model.st --epochs 2 --save later.st --names A,B,C,D,E,F,G,H,I,J
[ "$(value names later.st)" = 'A\nB\nC\nD\nE\nF\nG\nH\nI\nJ' ]
ok $T --classes 3 --epochs 1 --names $'a, b \303\244 ,c' --save three.st
[ "$(value names three.st)" = $'a\\nb \303\244\\nc' ]

case_ 'networks of a committee have the same names'
ok $D --resume model.st --epochs 2 --save other.st --names J,B,C,D,E,F,G,H,I,A
fails 1 'other.st and later.st have different class names; give names for both with --names' \
  --device cpu --load later.st --load other.st --evaluate --test digits_test.csv
ok --device cpu --load later.st --load other.st --evaluate --test digits_test.csv --names 0,1,2,3,4,5,6,7,8,9

case_ 'names that cannot be'
while IFS='|' read -r text names; do
  printf -v names %b "$names"
  refuses 1 "--names: $text" $T --classes 3 --names "$names" --save never.st
done <<'END'
2 names, but the network has 3 classes|a,b
name 4, '', must be 1 to 63 bytes|a,b,c,
'a' appears twice|a,b,a
'1' would name class 0, but as a label it is class 1|1,2,3
'1.0' would name class 0, but as a label it is class 1|1.0,b,c
name 3, '\xe4', must be|a,b,\344
name 2, 'b\x1b[2J', must be 1 to 63 bytes of UTF-8 without control|a,b\033[2J,c
name 3, '0123456789012345678901234567890123456789012345678901234567890123', must be|a,b,0123456789012345678901234567890123456789012345678901234567890123
END
absent never.st

case_ 'labels that are words become classes in sorted order, and answers are words'
words() { awk -F, -v OFS=, 'BEGIN { split("kiwi apple \"fig, dried\"", w, " "); w[3] = "\"fig, dried\""; print "kind,p0,p1" } { $1 = w[1 + ($1 + NR) % 3]; print }' "$1"; }
words train.csv >words.csv
W='--device cpu --threads 1 --hidden 4 --batch 8 --lr 0.05'
ok $W --train words.csv --test none --epochs 2 --save words.st
printed 1 "^note     words.csv: labels are words, sorted: class 0 is 'apple', class 2 'kiwi'$"
printed 1 '^network  2-4-3, '
header words.st | grep -qF '"names":"apple\nfig, dried\nkiwi"'
awk -F, -v OFS=, '{ $1 = (1 + ($1 + NR) % 3) % 3; $1 = $1 == 1 ? 2 : $1 == 2 ? 0 : 1; print }' train.csv >numbers.csv
ok $W --train numbers.csv --test none --epochs 2 --classes 3 --save numbers.st
[ "$(network words.st | tail -n +2 | md5sum)" = "$(network numbers.st | tail -n +2 | md5sum)" ]
ok --device cpu --load words.st --evaluate --test words.csv
ok --device cpu --load words.st --predict words.csv --output answers.csv
ok --device cpu --load numbers.st --predict numbers.csv --output numbers_out.csv
same answers.csv <(sed '2,$s/,0$/,apple/; 2,$s/,1$/,"fig, dried"/; 2,$s/,2$/,kiwi/' numbers_out.csv)
ok $W --train words.csv --test words.csv --epochs 3 --resume words.st --save later.st
sed 's/apple/plum/' words.csv >plums.csv
fails 1 "'plum' is not a label from 0 to 2: no class has this name: apple, fig, dried, kiwi" $W --train words.csv --test plums.csv --epochs 1
fails 1 'labels of words.csv: 3 names, but the network has 4 classes' $W --train words.csv --test none --classes 4
sed '5s/^apple,\|^kiwi,\|^".*",/2,/' words.csv >mixed.csv
fails 1 "labels of mixed.csv: '2' would name class 0, but as a label it is class 2" $W --train mixed.csv --test none
awk 'BEGIN { print "kind,p0"; for (i = 0; i < 1100; i++) print "w" i ",1" }' >many.csv
fails 1 'many.csv: more than 1024 different words as labels: --label-column says where labels are' $W --train many.csv --test none
sed 's/apple/\xc3\xa9t\xc3\xa9/; s/kiwi/\xe6\x97\xa5/' words.csv >unicode.csv # words of UTF-8 are words
ok $W --train unicode.csv --test none --epochs 2 --save unicode.st
header unicode.st | grep -qF "\"names\":\"fig, dried\n$(printf '\xc3\xa9t\xc3\xa9')\n$(printf '\xe6\x97\xa5')\""

case_ 'numbers are compared with words that were the labels in training'
spelled() { awk -F, -v OFS=, 'BEGIN { split("zero one two three four five six seven eight nine", w, " ") } { $1 = w[1 + $1]; print }' "$1"; }
{ echo kind,p0,p1 && awk -F, -v OFS=, '{ $1 = (7 * $1 + NR) % 10; print }' train.csv; } >digits.csv
{ echo kind,p0,p1 && tail -n +2 digits.csv | spelled /dev/stdin; } >spelled.csv
ok $W --train spelled.csv --test spelled.csv --epochs 2 --save spelled.st
cp out of_words
prints 1 "^note     digits.csv: labels are numbers, in training words: 0 is taken for 'zero', 1 for 'one', and so on$" \
  $W --train spelled.csv --test digits.csv --epochs 2
diff <(grep -o '^epoch.*%' of_words) <(grep -o '^epoch.*%' out)
E='run --device cpu --evaluate --test' # notes are on standard error
$E spelled.csv --load spelled.st --json
cp out of_words
ok $W --train digits.csv --test none --epochs 3 --resume spelled.st --save again.st
ok $W --train spelled.csv --test none --epochs 3 --resume spelled.st --save words_again.st
same_network again.st words_again.st
$E digits.csv --load spelled.st --json
same out of_words
said 'labels are numbers, in training words'
$E digits.csv --load spelled.st --json --names nine,eight,seven,six,five,four,three,two,one,zero
! cmp -s out of_words
! grep -q 'in training words' err
sed 's/eight/acht/' spelled.csv >other.csv
ok $W --train other.csv --test other.csv --epochs 1 --save other.st
why="digits.csv, line 2, column 1: '8' is a number, but the labels in training were words: acht, five, four, nine, one, seven, six, three, two, zero; write these, or give --names in the order of the numbers"
refuses 1 "$why" --device cpu --load other.st --evaluate --test digits.csv
fails 1 "$why" $W --train other.csv --test digits.csv --epochs 1
fails 1 "$why" $W --train digits.csv --test none --epochs 2 --resume other.st --save never.st
ok --device cpu --load other.st --evaluate --test digits.csv --names zero,one,two,three,four,five,six,seven,acht,nine
ok $W --train digits.csv --test none --epochs 1 --save numbers.st # the other way round
why="spelled.csv, line 2, column 1: 'eight' is not a label from 0 to 9: --names lists words that are labels, in the order of classes"
refuses 1 "$why" --device cpu --load numbers.st --evaluate --test spelled.csv
N=zero,one,two,three,four,five,six,seven,eight,nine
$E digits.csv --load numbers.st --json --names $N
cp out of_numbers
$E spelled.csv --load numbers.st --json --names $N
same out of_numbers

case_ 'names may come from a file, and set the number of classes'
printf 'a\nb, c\r\nd\n' >names.txt
ok $W --train numbers.csv --test none --epochs 1 --names names.txt --save file.st
printed 1 '^network  2-4-3, '
header file.st | grep -qF '"names":"a\nb, c\nd"'
printf '2 67\n0 65\n1 66 98\n' >mapping.txt
ok $W --train numbers.csv --test none --epochs 1 --names mapping.txt --save mapped.st
[ "$(value names mapped.st)" = 'A\nB\nC' ]
printf '0 65\n1 66\n2 67\n' >mapping.txt
run $W --train mapping.txt --test none --epochs 1 --classes 3
printed 1 "^note     mapping.txt: a row per class with the code of a character is EMNIST's mapping, not rows to train on: --names reads it$"
fails 1 '--names: cannot read none.txt: No such file or directory; to list names, separate them with commas' \
  $W --train numbers.csv --test none --names none.txt
: >empty.txt
fails 1 '--names: empty.txt is empty, too long or binary' $W --train numbers.csv --test none --names empty.txt
fails 1 '2 names, but the network has 3 classes' $W --train numbers.csv --test none --classes 3 --names a,b
ln -s names.txt here.png
refuses 2 'are the same file' $W --train numbers.csv --test none --names names.txt --plot here.png
mkfifo pipe
start $W --train numbers.csv --test none --names pipe
sleep 0.3
interrupt TERM interrupted
