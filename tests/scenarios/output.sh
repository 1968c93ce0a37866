# Where an output goes: through links, into pipes, devices and descriptors, to which places it cannot go,
# and which paths are the same file. tests/test_output.c has modes and owners.
# shellcheck disable=SC2094 # that is what is refused
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
link sub/wrong
../link sub/link
sub/new to-new
circle circle
END
saves sub/link old # sub/wrong names sub/link, and leads to it
echo old >old
saves sub/wrong old
saves to-new sub/new
saves to-new sub/new
for link in link sub/wrong sub/link to-new; do [ -L $link ]; done
refuses 1 'cannot write circle: Too many levels of symbolic links' $ask circle

case_ 'names may be long'
for length in 240 255; do saves "$(printf %0${length}d 0)"; done

case_ 'nobody knows the name of the temporary file' # a link waits at the one that could be guessed, or a file
echo precious >victim
for planted in 'ln -s victim' 'cp -p stale'; do
  install -m 0 /dev/null stale
  sh -c "$planted a.tmp.\$\$"'; exec "$@"' sh "$MLP" $ask a
  same a wanted
  same victim - <<<precious
  [ "$(compgen -G 'a.tmp.*' | wc -l)" = 1 ]
  rm -f a.tmp.* a
done

case_ 'places where nothing can be written'
ln -s none/new nowhere
exec 7<victim
while IFS='|' read -r path text; do
  refuses 1 "cannot write $path: $text" $ask "$path"
  refuses 1 "cannot write $path: " $T --save "$path" # before it trains
done <<END
none/new|its folder does not exist
nowhere|its folder does not exist
later/|its folder does not exist
victim/new|Not a directory
victim/|Not a directory
.|Is a directory
../${PWD##*/}/sub|Is a directory
$(printf %0299d 0)|File name too long
/dev/fd/9999|Bad file descriptor
/dev/fd/7|Bad file descriptor
END
refuses 1 'cannot write /dev/fd/7: Bad file descriptor' $T --plot /dev/fd/7
absent ./*.tmp.*

case_ 'pipes and devices are written in place'
mkfifo pipe
ln -s pipe to-pipe
ln -s /dev/null null
exec 8<>pipe
ok $ask to-pipe
head -c "$(wc -c <wanted)" <&8 | same - wanted
ok $ask null
mkfifo pipe.png # whose reader comes after the training
start $T --epochs 1 --plot pipe.png
printing 1 '^epoch 1'
cat pipe.png >read.png
finish
is_png read.png
[ -p pipe ] && [ -c /dev/null ] && [ -L to-pipe ] && [ -L null ]

case_ 'descriptors are written at their offset' # as of /dev/stdout, which the shell sent to a file
exec 7>a
printf '1 ' >&7
for path in /dev/fd/7 /proc/self/fd/7; do
  ln -sf $path to-descriptor
  ok $ask $path
  ok $ask to-descriptor
  [ -L to-descriptor ]
done
printf 2 >&7
{ printf '1 ' && cat wanted wanted wanted wanted && printf 2; } | same a -

cp train.csv a.csv
ln a.csv hard.csv
while read -r target link; do ln -s $target $link; done <<'END'
a.csv soft.csv
soft.csv softer.csv
../a.csv sub/up.csv
sub other-sub
sub/new.png to-new.png
to-new.png to-to-new.png
/dev/null null.png
circle.png circle.png
END

case_ 'a file has many names'
for name in a.csv ./a.csv sub/../a.csv hard.csv soft.csv softer.csv sub/up.csv sub//up.csv "$PWD/a.csv"; do
  refuses 2 "--train a.csv and --log $name are the same file: give one of them another name" $T --train a.csv --log $name
  refuses 2 "--train $name and --log a.csv are the same file" $T --train $name --log a.csv
  ok $T --train $name --test a.csv --log b.csv --epochs 1
done
same a.csv train.csv

case_ 'a file that is yet to come has many names'
for name in sub/new.png ./sub/new.png other-sub/new.png sub/../sub/new.png to-new.png to-to-new.png; do
  refuses 2 "--plot sub/new.png and --confusion $name are the same file" $T --plot sub/new.png --confusion $name
  refuses 2 "--plot $name and --confusion sub/new.png are the same file" $T --plot $name --confusion sub/new.png
  ok $T --plot new.png --confusion $name --epochs 1
  ok $T --plot $name --confusion sub/newer.png --epochs 1
  rm sub/new.png
done
refusals 1 $T <<'END' # whoever opens these says what is wrong with them
Too many levels of symbolic links|--plot circle.png --confusion circle.png
Not a directory|--plot a.csv/new.png --confusion a.csv/new.png
its folder does not exist|--plot none/new.png --confusion none/new.png
END

case_ 'devices are not files, pipes are'
ok $T --epochs 1 --plot /dev/null --confusion /dev/null
ok $T --epochs 1 --plot /dev/null --confusion null.png
refuses 1 '/dev/null is empty' $T --train /dev/null --plot /dev/null
exec 9<pipe 8>pipe
refusals 2 --load net --device cpu <<'END' # it would wait for itself
are the same file|--predict pipe --output ./pipe
are the same file|--predict /dev/fd/9 --output /dev/fd/8
END

# streams INPUT OUTPUT COMMAND...: with a.csv as standard input and output.
streams() {
  status=0
  "$MLP" --load net --device cpu --quiet --predict $1 --output $2 2>err || status=$?
}
case_ 'standard input and output may be any file'
while read -r input output; do
  streams $input $output <a.csv >>a.csv
  failed 2 'are the same file'
done <<'END'
- hard.csv
a.csv -
/dev/stdin a.csv
a.csv /dev/stdout
- /dev/fd/1
END
same a.csv train.csv
streams - b.csv <a.csv >>a.csv
[ $status = 0 ]
streams a.csv - <a.csv >b.csv
[ $status = 0 ]
streams - - </dev/null >/dev/null
failed 1 'is empty'
