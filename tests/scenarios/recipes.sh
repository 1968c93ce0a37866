# Other data sets, as docs/recipes.md tells: IDX files, plain and packed, become CSV, and networks of
# as many classes as EMNIST has train on it.
idx=$TOP/scripts/idx_to_csv

# write_idx COUNT CLASSES: the files images, of 4 rows of 3 pixels, and labels; plain.csv and
# lying.csv are what they become. The class of picture i is i % CLASSES; its pixels are the class
# in binary, bright and dark, and i at the end.
write_idx() {
  awk -v count="$1" -v classes="$2" '
    function number(n) { return sprintf("\\x00\\x00\\x%02x\\x%02x", n / 256, n % 256) }
    BEGIN {
      printf "%s", "\\x00\\x00\\x08\\x03" number(count) number(4) number(3) >"images.text"
      printf "%s", "\\x00\\x00\\x08\\x01" number(count) >"labels.text"
      for (i = 0; i < count; i++) {
        label = i % classes
        printf "\\x%02x", label >"labels.text"
        for (p = 0; p < 12; p++) {
          pixel[p] = p == 11 ? i % 256 : int(label / 2 ^ (p % 6)) % 2 * 255
          printf "\\x%02x", pixel[p] >"images.text"
        }
        plain = lying = label
        for (p = 0; p < 12; p++) {
          plain = plain "," pixel[p]
          lying = lying "," pixel[p % 4 * 3 + int(p / 4)]
        }
        print plain >"plain.csv"
        print lying >"lying.csv"
      }
    }'
  printf %b "$(<images.text)" >images
  printf %b "$(<labels.text)" >labels
}

case_ 'IDX becomes CSV'
write_idx 100 47
"$idx" images labels | cmp - plain.csv
"$idx" --transpose images labels | cmp - lying.csv
gzip -k images labels
"$idx" images.gz labels.gz | cmp - plain.csv

case_ 'wrong IDX files are named'
write_idx 19 10
mv labels few
write_idx 20 10
head -c 99 images >short
: >empty
while IFS='|' read -r code text words; do
  status=0
  "$idx" $words >out 2>err || status=$?
  [ "$status" = "$code" ]
  said "$text"
  [ ! -s out ]
done <<'END'
1|cannot read none|none labels
1|labels is not an IDX file of pictures|labels images
1|images is not an IDX file of labels|images images
1|images has 20 pictures, few has 19 labels|images few
1|short is not whole|short labels
1|empty is not an IDX file of pictures|empty labels
2|usage: idx_to_csv [--transpose] IMAGES LABELS|images
2|usage: |--help
END

case_ 'many classes train'
for classes in 47 62; do # as EMNIST has: balanced, and by class
  write_idx 2000 $classes
  "$idx" images labels >train.csv
  ok --device cpu --threads 1 --train train.csv --classes $classes --validation 0.2 --epochs 30 \
    --hidden 64 --quiet
  awk '$1 == "epoch" && $2 == "30/30" { accuracy = $6 } END { exit !(accuracy + 0 >= 95) }' out ||
    die "$classes classes: $(cat out)"
done
