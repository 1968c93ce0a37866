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

case_ 'an output that is an open descriptor is appended to'
for log in /dev/stdout /proc/self/fd/1 to-stdout /dev/fd/8; do
  ln -sf /dev/stdout to-stdout
  echo precious >both
  "$MLP" $T --epochs 3 --log $log >>both 8>&1
  [ "$(head -n 1 both)" = precious ]
  grep -v '^{' both | sed 1d >screen
  [ "$(grep -c '^{.*}$' both)" = 6 ] && [ "$(wc -l <both)" = $((7 + $(wc -l <screen))) ]
  "$MLP" $T --epochs 3 --log $log >both 8>&1 # shares the descriptor's offset
  [ "$(grep -c '^{.*}$' both)" = 6 ] && [ "$(wc -l <both)" = $((6 + $(wc -l <screen))) ]
done
[ -L to-stdout ]
echo precious >both
"$MLP" $ask /proc/self/fd/8 8>>both
same both <(echo precious && cat wanted)

case_ 'two outputs do not become one file'
mkdir far
ln -s ../made far/link
ln -s far/link link.png
ln -s made twin.html
ln -s . here
while read -r options; do
  refuses 2 ' are the same file; use a different name for one of them' $T --epochs 1 $options
  absent made made.png ./*.tmp.*
done <<'END'
--save made --plot link.png
--plot link.png --html twin.html
--plot link.png --save far/../made
--plot made.png --weights here/made.png
--save far/link --log made
--plot /dev/fd/8 --weights /proc/self/fd/8
END
ok $T --epochs 1 --save far/link --quiet
[ -L far/link ] && [ -f made ]
"$PROGRAMS/mlp-train" --load made --device cpu --evaluate --test test.csv >out
rm made
while read -r output options; do
  echo old >"$output"
  STDOUT=$output fails 2 "standard output and --$options are the same file: redirect standard output to another file" $T --epochs 1 --$options
done <<'END'
a.csv log a.csv
a.png plot a.png
a.png plot /dev/stdout
END
mkdir twins
ln -s digits_train.csv twins/digits_test.csv
MLP=$PROGRAMS/mlp-digits refuses 2 ' are the same file' --output-dir twins --train-rows 3 --test-rows 3
holds twins digits_test.csv

cp train.csv a.csv
ln a.csv hard.csv
ln -s a.csv soft.csv

case_ 'a file has many names'
for name in a.csv sub/../a.csv hard.csv soft.csv "$PWD/a.csv"; do
  refuses 2 "--train a.csv and --log $name are the same file; use a different name for one of them" $T --train a.csv --log "$name"
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
while read -r options; do
  status=0
  # shellcheck disable=SC2034,SC2094
  "$MLP" $options >>a.csv 2>err || status=$?
  failed 2 "standard output and --${options##*--} are the same file: redirect standard output to another file"
  same a.csv train.csv
done <<END
--load net --device cpu --predict a.csv
--load net --device cpu --predict soft.csv
--load net --device cpu --evaluate --test hard.csv
$T --epochs 1 --train a.csv
END

case_ 'a pipe is not read under two names'
exec 7<>pipe
while read -r options; do
  refuses 2 ' are the same input, which can be read only once; use a file for one of them' $T --epochs 1 $options
done <<'END'
--train pipe --test ./pipe
--train pipe --test /dev/fd/7
--train train.csv --validation pipe --test sub/../pipe
END
for twin in - /dev/stdin /proc/self/fd/0; do
  status=0
  "$MLP" $T --epochs 1 --train - --test $twin <pipe >out 2>err || status=$?
  failed 2 "--train - and --test $twin are the same input, which can be read only once"
done
status=0
"$MLP" $T --epochs 1 --train - --test - <train.csv >out 2>err || status=$? # a file, but one offset
failed 2 '--train - and --test - are the same input, which can be read only once'
