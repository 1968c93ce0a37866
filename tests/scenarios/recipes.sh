# Other data sets, as docs/recipes.md tells: IDX files, plain and packed, are read as CSV is, and
# networks of as many classes as EMNIST has train on them.

# write_idx COUNT CLASSES: the files images, of 4 rows of 3 pixels, labels, and plain.csv, which says
# the same. The class of picture i is i % CLASSES; its pixels are the class in binary, bright and
# dark, and i at the end.
write_idx() {
  awk -v count="$1" -v classes="$2" 'BEGIN {
    for (i = 0; i < count; i++) {
      printf "%d", i % classes
      for (p = 0; p < 11; p++) printf ",%d", int(i % classes / 2 ^ (p % 6)) % 2 * 255
      print "," i % 256
    }
  }' >plain.csv
  { big_endian 2051 $1 4 3; bytes 2-; } >images
  { big_endian 2049 $1; bytes 1; } >labels
}
big_endian() { printf %b "$(printf '%08x' "$@" | sed 's/../\\x&/g')"; }
bytes() { printf %b "$(cut -d, -f"$1" plain.csv | tr ',' '\n' | xargs printf '\\x%02x')"; }
N='--device cpu --threads 2 --hidden 8 --quiet'

case_ 'IDX files are rows'
write_idx 40000 47 # two chunks of a reader
cp images some-images-idx3-ubyte
gzip -c labels >some-labels-idx1-ubyte.gz
gzip -c images >packed-images.gz
cp labels packed-labels
for file in plain.csv images some-images-idx3-ubyte packed-images.gz; do
  ok $N --classes 47 --epochs 1 --train $file --validation 0.1 --save saved.st
  network saved.st >"$file.network"
  same "$file.network" plain.csv.network
  ok --device cpu --load saved.st --predict $file
  same out "$([ $file = plain.csv ] && cp out wanted; echo wanted)"
done
"$MLP" --device cpu --load saved.st --predict - <packed-images.gz | cmp - wanted
ok --device cpu --load saved.st --evaluate --test images
cp out answers
ok --device cpu --load saved.st --evaluate --test plain.csv
same out answers

case_ 'wrong IDX files are named'
write_idx 19 10
mv labels few
write_idx 20 10
mkdir one two
tee other one/x-images two/{long,cut,bad}-images two/bad-labels two/none-images-idx3-ubyte.gz <images >out
tee {short,packed,two/long}-labels <labels >out
mv few one/x-labels
head -c 99 images >short-images
gzip -c short-images >packed-images.gz
printf x >>two/long-images
gzip two/long-images
head -c 15 labels >two/cut-labels
printf '\0\0\10\3\0\0\0\0\0\0\0\2\0\0\0\2' >two/empty-images
printf '\0\0\10\3\0\0\0\1\377\377\377\377\377\377\377\377' >two/huge-images
printf '\0\0\10\3' >two/head-images
printf '\0\0\15\3\0\0\0\1\0\0\0\1\0\0\0\1abcd' >two/floats
printf '\0\0\10\3\377\377\377\377\0\0\0\2\0\0\0\2abc' | gzip >two/full-images
printf '\0\0\10\1\377\377\377\377a' >two/full-labels
refusals 1 $N --epochs 1 --test none <<'END'
labels is an IDX file of labels, but not of pictures of bytes|--train labels
two/head-images is an IDX file, but not of pictures of bytes|--train two/head-images
one/x-images has 20 pictures, but one/x-labels has 19 labels|--train one/x-images
other is an IDX file: its name must have "images" in it|--train other
two/none-images-idx3-ubyte.gz has no labels beside it: there is no two/none-labels-idx1-ubyte.gz|--train two/none-images-idx3-ubyte.gz
short-images is damaged: 20 pictures take 256 bytes, but it has 99|--train short-images
packed-images.gz is damaged: it does not end behind picture 20|--train packed-images.gz
two/long-images.gz is damaged: it does not end behind picture 20|--train two/long-images.gz
two/cut-labels is cut off|--train two/cut-images
two/bad-labels is not an IDX file of labels|--train two/bad-images
two/floats is an IDX file, but not of pictures of bytes|--train two/floats
two/full-images is damaged: it does not end behind picture 4294967295|--train two/full-images
two/empty-images has no pictures|--train two/empty-images
two/huge-images has pictures of 4294967295 x 4294967295 pixels, but a row is 1 to 4096|--train two/huge-images
labels: label 10 is 9, not from 0 to 8|--train images --classes 9
images is an IDX file: --label-column is for CSV files|--train images --label-column 1
END

case_ 'many classes train'
for classes in 47 62; do # as EMNIST has: balanced, and by class
  write_idx 2000 $classes
  ok $N --threads 1 --train images --classes $classes --validation 0.2 --epochs 30 --hidden 64
  awk '$1 == "epoch" { accuracy = $6 } END { exit !(accuracy + 0 >= 95) }' out || die "$classes classes: $(cat out)"
done
