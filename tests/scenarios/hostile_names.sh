# Names and files may hold control sequences for a terminal, or bytes that are not UTF-8. mlp-train
# escapes them whenever it prints them, and its JSON stays valid.
commands=$'\e]0;owned\a\e[2J'    # would set the terminal's title and clear the screen
name=$'\xc2\x9b31m\x9b\xff'      # the control character CSI (U+009B) as UTF-8 and as one byte; no option refuses this name
printed_name='\xc2\x9b31m\x9b\xff'

# refused TEXT ARGUMENT... checks that the run fails and prints one printable line with TEXT.
refused() {
  run "${@:2}"
  [ $status != 0 ]
  failed $status "$1"
}

case_ 'names'
for option in --train --config --resume --load; do
  refused '' $option "$name.csv" --evaluate
  refused '' $option "$commands" --evaluate
done
refused "$printed_name.csv does not exist" --train "$name.csv"
refused "$printed_name/x.st" $T --save "$name/x.st"
refused "$printed_name" $T --log "$name"

for option in --epochs --device --hidden ''; do refused '' $option "$commands$name"; done

case_ 'files'
printf '1,2,3\n1,"%s",3\n' "$commands" >hostile.csv
refused 'hostile.csv, line 2, column 2' $T --train hostile.csv
for line in "$commands=1" "[$commands]" "epochs=$commands"; do
  echo "$line" >hostile.conf
  refused '' --config hostile.conf
done

case_ 'a log of any names can be read'
cp train.csv "$name.csv"
ok $T --epochs 1 --train "$name.csv" --log log.jsonl
[ "$(value train log.jsonl)" = '\u009b31m\ufffd\ufffd.csv' ]
iconv -f UTF-8 -t UTF-16 log.jsonl >utf16
