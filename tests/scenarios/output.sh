# Where an output goes: through links, into pipes, devices and descriptors, and to which places it cannot
# go. tests/test_output.c has modes and owners.
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
