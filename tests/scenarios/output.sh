# Where an output goes: through links, into pipes and devices, to which places it cannot go, and which
# paths are the same file. tests/test_output.c has modes.
ok $T --epochs 1 --save net
ask='--load net --device cpu --quiet --predict test.csv --output'
ok $ask wanted

# saves PATH [FILE]: what is written to the path is in the file.
saves() {
  ok $ask "$1"
  same "${2:-$1}" wanted
}

case_ 'links are followed'
mkdir sub
echo old >old
while read -r target link; do ln -s $target $link; done <<'END'
old link
../link sub/link
sub/new to-new
circle circle
none/new nowhere
END
saves sub/link old
saves to-new sub/new
saves to-new sub/new
for link in link sub/link to-new; do [ -L $link ]; done
saves "$(printf %0255d 0)"

case_ 'places where nothing can be written'
echo precious >victim
while IFS='|' read -r path text; do
  refuses 1 "cannot write $path: $text" $ask "$path"
  refuses 1 "cannot write $path: " $T --save "$path" # before it trains
done <<END
none/new|its folder does not exist
nowhere|its folder does not exist
later/|its folder does not exist
circle|Too many levels of symbolic links
victim/new|Not a directory
.|Is a directory
$(printf %0299d 0)|File name too long
END
same victim - <<<precious
absent ./*.tmp.*

case_ 'pipes and devices are written in place'
mkfifo pipe
ln -s pipe to-pipe
ln -s /dev/null null
exec 8<>pipe
for path in to-pipe /dev/fd/8; do
  ok $ask $path
  head -c "$(wc -c <wanted)" <&8 | same - wanted
done
ok $ask null
"$MLP" $ask /dev/stdout | same - wanted
mkfifo pipe.png # whose reader comes after the training
start $T --epochs 1 --plot pipe.png
printing 1 '^epoch 1'
cat pipe.png >read.png
finish
is_png read.png
[ -p pipe ] && [ -c /dev/null ] && [ -L to-pipe ] && [ -L null ]

cp train.csv a.csv
ln a.csv hard.csv
ln -s a.csv soft.csv
ln -s sub other-sub
ln -s sub/new.png to-new.png
ln -s circle.png circle.png

case_ 'a file has many names'
for name in a.csv sub/../a.csv hard.csv soft.csv "$PWD/a.csv"; do
  refuses 2 "--train a.csv and --log $name are the same file: give one of them another name" $T --train a.csv --log $name
  refuses 2 "--train $name and --log a.csv are the same file" $T --train $name --log a.csv
done
ok $T --train soft.csv --test a.csv --log b.csv --epochs 1
same a.csv train.csv

case_ 'a file that is yet to come has many names'
for name in sub/new.png ./sub/new.png other-sub/new.png to-new.png; do
  refuses 2 "--plot sub/new.png and --confusion $name are the same file" $T --plot sub/new.png --confusion $name
done
ok $T --plot to-new.png --confusion sub/newer.png --epochs 1
refusals 1 $T <<'END' # whoever opens these says what is wrong with them
Too many levels of symbolic links|--plot circle.png --confusion circle.png
its folder does not exist|--plot none/new.png --confusion none/new.png
END

case_ 'devices are not files, pipes are'
ok $T --epochs 1 --plot /dev/null --confusion /dev/null
refuses 1 '/dev/null is empty' $T --train /dev/null --plot /dev/null
refuses 2 'are the same file' --load net --device cpu --predict pipe --output ./pipe # it would wait for itself

case_ 'standard input and output may be any file'
while read -r input output; do
  status=0
  # shellcheck disable=SC2034,SC2094 # failed looks at the status; that is what is refused
  "$MLP" $ask $output --predict $input <a.csv >>a.csv 2>err || status=$?
  failed 2 'are the same file'
done <<'END'
- hard.csv
a.csv -
/dev/stdin a.csv
a.csv /dev/stdout
END
same a.csv train.csv
