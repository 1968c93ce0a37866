# Tests where mlp-train writes an output, which places it refuses, and that it knows two paths of one file.
# tests/test_output.c tests the modes (permissions) of files.
ok $T --epochs 1 --save net
ask='--load net --device cpu --quiet --predict test.csv --output'
ok $ask wanted

case_ 'links are followed, devices and pipes are written in place'
mkdir sub
echo old >old
ln -s old link
ln -s ../link sub/link
ln -s circle circle
ok $ask sub/link
same old wanted
[ -L link ] && [ -L sub/link ]
ok $ask "$(printf %0255d 0)"
mkfifo pipe
exec 8<>pipe
for path in pipe /dev/fd/8; do
  ok $ask $path
  head -c "$(wc -c <wanted)" <&8 | same - wanted
done
ok $ask /dev/null
"$MLP" $ask /dev/stdout | same - wanted
[ -p pipe ] && [ -c /dev/null ]

case_ 'places where nothing can be written'
echo precious >victim
while IFS='|' read -r path text; do
  refuses 1 "cannot write $path: $text" $ask "$path"
  refuses 1 "cannot write $path: " $T --save "$path" # refuses before it trains
done <<END
none/new|its folder does not exist
later/|its folder does not exist
circle|Too many levels of symbolic links
victim/new|Not a directory
.|Is a directory
$(printf %0299d 0)|File name too long
END
same victim - <<<precious
absent ./*.tmp.*

cp train.csv a.csv
ln a.csv hard.csv
ln -s a.csv soft.csv

case_ 'a file has many names'
for name in a.csv sub/../a.csv hard.csv soft.csv "$PWD/a.csv"; do
  refuses 2 "--train a.csv and --log $name are the same file: give one of them another name" $T --train a.csv --log "$name"
done
refuses 2 'are the same file' $T --plot new.png --confusion new.png
refuses 2 'are the same file' $T --plot new.png --confusion "$PWD/./new.png"
refuses 2 'are the same file' --load net --device cpu --predict pipe --output ./pipe # otherwise mlp-train would wait for its own output
ok $T --train soft.csv --test a.csv --log b.csv --epochs 1 --plot /dev/null --confusion /dev/null
same a.csv train.csv

case_ 'standard input and output may be any file'
while read -r input output; do
  status=0
  # shellcheck disable=SC2034,SC2094 # `failed` reads status; mlp-train must refuse to read and write one file
  "$MLP" $ask $output --predict $input <a.csv >>a.csv 2>err || status=$?
  failed 2 'are the same file'
done <<'END'
- hard.csv
a.csv -
/dev/stdin a.csv
END
same a.csv train.csv
