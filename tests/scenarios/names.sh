# Classes have names, which stay with the network and stand for their numbers wherever people read.
digits 600 100
D='--device cpu --threads 1 --train digits_train.csv --test digits_test.csv --hidden 16'
A='--device cpu --load model.st'
NAMES='T-shirt,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot'
ok $D --epochs 1 --save plain.st --confusion plain.png --mistakes plain_mistakes.png
ok $D --epochs 1 --save model.st --names "$NAMES" --confusion named.png --mistakes named_mistakes.png

case_ 'names are kept with the network'
same_network model.st plain.st
[ "$(value names model.st)" = "${NAMES//,/\\n}" ]
[ -z "$(value names plain.st)" ]

case_ 'they come back when it is asked'
ok $A --evaluate --test digits_test.csv --confusion c.png --mistakes m.png
printed 1 '^ +T-shirt Trouser Pullover .* Ankle boot  +rows'
printed 1 '^Ankle boot '
same c.png named.png
same m.png named_mistakes.png
! cmp -s named.png plain.png || die 'the matrix has no names'
! cmp -s named_mistakes.png plain_mistakes.png || die 'the mistakes have no names'
ok $A --evaluate --test digits_test.csv --json
printed 1 '"names": \["T-shirt", .*, "Ankle boot"\], "counts"'
ok $A --html page.html --test none
grep -q '^"names": \["T-shirt", ' page.html

case_ 'predictions keep their numbers, and JSON has names'
ok $A --predict digits_test.csv
mv out predictions
ok --device cpu --load plain.st --predict digits_test.csv
same out predictions
ok $A --predict digits_test.csv --json
printed 100 '"label": [0-9], "name": "[A-Z][^"]+", "likeliest": '

case_ 'pictures are answered by names'
sed -n '1s/^[0-9]*,//p' digits_test.csv | tr ',' '\n' | awk '
  BEGIN { printf "P5 28 28 255\n" }
  { printf "%c", 250 - int($1 * 0.9) }' >digit.pgm
ok $A --classify digit.pgm --confidence 0
printed 1 '^digit.pgm +[A-Z][A-Za-z -]+ +[0-9.]+%'
ok $A --classify digit.pgm --confidence 0 --json
printed 1 '"answer": [0-9], "name": "[A-Z][^"]+", "sure": true, .*"rows": \["[A-Z][^"]+"\]\}$'

case_ 'names that are given anew replace them'
printf '%s\r\n' '</script>' B C D E F G H I J >letters.txt
ok $A --names letters.txt --evaluate --test digits_test.csv
printed 1 '^ +J '
ok $A --names letters.txt --html page.html --test none
grep -q '^"names": \["\\u003c/script>", "B", ' page.html
ok $D --resume model.st --epochs 2 --save later.st
[ "$(value names later.st)" = "$(value names model.st)" ]
ok $D --init model.st --epochs 1 --save later.st --names letters.txt
[ "$(value names later.st)" = '</script>\nB\nC\nD\nE\nF\nG\nH\nI\nJ' ]
ok $D --epochs 1 --ensemble 2 --names letters.txt --save a.st
[ "$(value names a-2.st)" = "$(value names later.st)" ]

case_ 'names that cannot be'
refusals 1 <<'END'
--names: 2 names, but the network has 10 classes|--names A,B --train digits_train.csv --test none
--names: name 2 is empty|--names A,,C,D,E,F,G,H,I,J --train digits_train.csv --test none
letters.txt: 10 names, but the network has 2 classes|--names letters.txt --classes 2 --save never.st
--names: cannot read none.txt: No such file or directory|--load model.st --names none.txt --evaluate
END
fails 2 'are the same file' $D --names letters.txt --save letters.txt
fails 2 'leave out --names' $D --names letters.txt --tune tune.png
absent never.st
