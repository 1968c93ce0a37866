# Tests other data sets, as in docs/recipes.md: converts IDX files to CSV, and trains networks with as
# many classes as EMNIST has.

# write_idx COUNT CLASSES writes COUNT pictures of 28 x 28 pixels to the IDX files images.gz and labels.gz,
# and to plain.csv. Picture i has class i % CLASSES. Pixel p shows bit p % 6 of the class: 0 or 255.
write_idx() {
  awk -v count="$1" -v classes="$2" 'BEGIN {
    for (i = 0; i < count; i++) {
      printf "%d", i % classes
      for (p = 0; p < 784; p++) printf ",%d", int(i % classes / 2 ^ (p % 6)) % 2 * 255
      print ""
    }
  }' >plain.csv
  { big_endian 2051 $1 28 28; bytes 2-; } | gzip >images.gz
  { big_endian 2049 $1; bytes 1; } | gzip >labels.gz
}
big_endian() { printf %b "$(printf '%08x' "$@" | sed 's/../\\x&/g')"; }
bytes() { printf %b "$(cut -d, -f"$1" plain.csv | tr ',' '\n' | xargs printf '\\x%02x')"; }

case_ 'many classes train'
for classes in 47 62; do # EMNIST's sets: balanced, and by class
  write_idx 500 $classes
  paste -d '' <(zcat labels.gz | od -An -v -tu1 -w1 -j8 | tr -d ' ') \
    <(zcat images.gz | od -An -v -tu1 -w784 -j16 | tr -s ' ' ,) >train.csv
  same train.csv plain.csv
  ok --device cpu --threads 1 --hidden 64 --quiet --train train.csv --classes $classes --validation 0.2 --epochs 30
  awk '$1 == "epoch" { accuracy = $6 } END { exit !(accuracy + 0 >= 95) }' out || die "$classes classes: $(cat out)"
done
