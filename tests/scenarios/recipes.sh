# Tests other data sets, as in docs/recipes.md: trains networks on IDX files, with as many classes as EMNIST
# has.

# write_idx COUNT CLASSES writes COUNT pictures of 28 x 28 pixels to the IDX files
# some-images-idx3-ubyte.gz and some-labels-idx1-ubyte.gz, and to plain.csv. Picture i has class i % CLASSES. Pixel p shows bit p % 6 of the class: 0 or 255.
write_idx() {
  awk -v count="$1" -v classes="$2" 'BEGIN {
    for (i = 0; i < count; i++) {
      printf "%d", i % classes
      for (p = 0; p < 784; p++) printf ",%d", int(i % classes / 2 ^ (p % 6)) % 2 * 255
      print ""
    }
  }' >plain.csv
  { big_endian 2051 $1 28 28; bytes 2-; } | gzip >some-images-idx3-ubyte.gz
  { big_endian 2049 $1; bytes 1; } | gzip >some-labels-idx1-ubyte.gz
}
big_endian() { printf %b "$(printf '%08x' "$@" | sed 's/../\\x&/g')"; }
bytes() { printf %b "$(cut -d, -f"$1" plain.csv | tr ',' '\n' | xargs printf '\\x%02x')"; }

case_ 'many classes train'
for classes in 47 62; do # EMNIST's sets: balanced, and by class
  write_idx 500 $classes
  for file in some-images-idx3-ubyte.gz plain.csv; do
    ok --device cpu --threads 1 --hidden 64 --quiet --train $file --classes $classes --validation 0.2 --epochs 30
    grep -o '.*%' out >$file.said # without the times
  done
  same plain.csv.said some-images-idx3-ubyte.gz.said
  awk '$1 == "epoch" { accuracy = $6 } END { exit !(accuracy + 0 >= 95) }' out || die "$classes classes: $(cat out)"
done

case_ 'IDX files predict, and say what is wrong with them'
T='--device cpu --threads 1 --hidden none --quiet --epochs 9 --batch 4 --test none'
write_idx 20 10
ok $T --train plain.csv --save ten.st
gunzip -k some-images-idx3-ubyte.gz some-labels-idx1-ubyte.gz
ok --device cpu --load ten.st --predict some-images-idx3-ubyte
mv out by-idx.csv
ok --device cpu --load ten.st --predict plain.csv
same out by-idx.csv
fails 1 'some-labels-idx1-ubyte is an IDX file of labels: give the file of its pictures' $T --train some-labels-idx1-ubyte
awk -F, -v OFS=, '{ label = $1; sub(/^[0-9]*,/, ""); print $0, label }' plain.csv >last.csv # labels of IDX files are in no column
ok $T --train last.csv --label-column last --save last.st
run --device cpu --load last.st --evaluate --test some-images-idx3-ubyte --json
if grep -q 'the label is' err; then die "$(cat err)"; fi
ok $T --train some-images-idx3-ubyte --save idx.st
run --device cpu --load idx.st --evaluate --test last.csv --label-column last
if grep -q 'the label is' out; then die "$(cat out)"; fi
cp some-images-idx3-ubyte EMNIST-images-idx3-ubyte
cp some-labels-idx1-ubyte EMNIST-labels-idx1-ubyte
run $T --train EMNIST-images-idx3-ubyte
grep -q "note: EMNIST-images-idx3-ubyte: EMNIST's pictures lie on their side" err || die "$(cat err)"
cp some-images-idx3-ubyte unnamed
fails 1 'their labels cannot be found by its name: rename both files, or link them with ln -s, to names like my-images and my-labels' \
  $T --train unnamed
ln -s unnamed my-images
ln -s some-labels-idx1-ubyte my-labels
ok $T --train my-images --save linked.st
ok $T --train some-images-idx3-ubyte --save named.st
same_network linked.st named.st
ok --device cpu --load ten.st --predict unnamed # needs no labels
same out by-idx.csv
cp some-images-idx3-ubyte lone-images-idx3-ubyte
fails 1 'there is no file of their labels, lone-labels-idx1-ubyte' $T --train lone-images-idx3-ubyte
{ big_endian 2049 19; head -c 19 some-labels-idx1-ubyte; } >lone-labels-idx1-ubyte
fails 1 'holds 19 labels, but lone-images-idx3-ubyte holds 20 pictures' $T --train lone-images-idx3-ubyte
cp some-labels-idx1-ubyte lone-labels-idx1-ubyte
head -c -1 some-images-idx3-ubyte >lone-images-idx3-ubyte
fails 1 'lone-images-idx3-ubyte ends before the end of its 20 pictures' $T --train lone-images-idx3-ubyte
{ cat some-images-idx3-ubyte; echo; } >lone-images-idx3-ubyte
fails 1 'lone-images-idx3-ubyte does not end after its 20 pictures' $T --train lone-images-idx3-ubyte
{ cat some-labels-idx1-ubyte; echo; } >lone-labels-idx1-ubyte
fails 1 'lone-labels-idx1-ubyte does not end after its 20 labels' $T --train lone-images-idx3-ubyte
head -c -1 some-labels-idx1-ubyte >lone-labels-idx1-ubyte
fails 1 'lone-labels-idx1-ubyte ends before the end of its 20 labels' $T --train lone-images-idx3-ubyte
big_endian 2051 1 65 64 >lone-images-idx3-ubyte
fails 1 'holds 1 pictures of 65 x 64 pixels: at least 1 picture of 1 to 4096 pixels' $T --train lone-images-idx3-ubyte

case_ 'the labels of pictures are known, whatever the options say of columns'
awk -F, '{ for (i = 2; i <= NF; i++) printf "%s,", $i; print $1 }' plain.csv >last.csv
O='--device cpu --hidden none --epochs 9 --batch 4'
run $O --train last.csv --test some-images-idx3-ubyte --label-column last --save last.st
[ $status = 0 ] || die "$(cat err)"
"$MLP" --load last.st --device cpu --evaluate --test plain.csv --label-column 1 | grep ^loss >wanted
"$MLP" --load last.st --device cpu --evaluate --test some-images-idx3-ubyte | grep ^loss | same - wanted
"$MLP" --load last.st --device cpu --predict plain.csv --label-column 1 >wanted
for words in '' '--label-column last' '--ignore-columns 1'; do
  "$MLP" --load last.st --device cpu --predict some-images-idx3-ubyte $words | same - wanted
done
{ big_endian 2051 20 3 261; tail -c +17 some-images-idx3-ubyte; } | head -c $((16 + 20 * 783)) >odd-images-idx3-ubyte
refuses 1 'odd-images-idx3-ubyte has 783 pixels a row, but the network takes 784' \
  --load last.st --device cpu --predict odd-images-idx3-ubyte
cp some-labels-idx1-ubyte odd-labels-idx1-ubyte # now each line has as many numbers as the network has pixels
refuses 1 'odd-images-idx3-ubyte has 783 pixels a row, but the network takes 784' \
  --load last.st --device cpu --predict odd-images-idx3-ubyte

run $O --train some-images-idx3-ubyte --test none --classes 11
grep -q '^note     some-images-idx3-ubyte: .* not occur: --classes is 11$' out || die "$(cat out)"

case_ 'no output replaces the labels that are read with pictures'
mkdir both
cp some-images-idx3-ubyte some-labels-idx1-ubyte both
ln -s some-labels-idx1-ubyte both/log.csv
ln -s both/some-labels-idx1-ubyte link.png
train='--device cpu --test none --epochs 1 --train both/some-images-idx3-ubyte'
for output in '--save both/some-labels-idx1-ubyte' '--log both/log.csv' '--plot link.png'; do
  refuses 2 "$output and --train both/some-labels-idx1-ubyte are the same file; use a different" $train $output
done
gzip both/some-images-idx3-ubyte both/some-labels-idx1-ubyte
ln -sf both/some-labels-idx1-ubyte.gz link.png
ln -s link.png labels
refuses 2 "--plot link.png and --train both/some-labels-idx1-ubyte.gz are the same file" $train.gz --plot link.png
refuses 2 'are the same file' --device cpu --load ten.st --predict both/some-images-idx3-ubyte.gz --output labels
gunzip both/some-labels-idx1-ubyte.gz
same both/some-labels-idx1-ubyte some-labels-idx1-ubyte
cp test.csv images.csv # is no IDX file, so a file like this has no part in it
cp test.csv labels.csv
run $T --epochs 1 --classes 2 --train images.csv --log labels.csv
[ $status = 0 ] || die "$(cat err)"
