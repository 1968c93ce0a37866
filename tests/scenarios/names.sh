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
fails 1 'the class names of other.st are not those of later.st: --names gives names for both' \
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
