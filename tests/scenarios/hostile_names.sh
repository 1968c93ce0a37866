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

case_ 'names of written files'
hostile=$commands$'\xc2\x9b31m' # UTF-8, so that --save takes it
shown='\x1b]0;owned\x07\x1b[2J\xc2\x9b31m'
shows() { # COUNT PROGRAM ARGUMENT...: COUNT lines of the output have the name with escapes, and no line has others
  "${@:2}" >out 2>err </dev/null
  [ -z "$(cat out err | sed 's/\xc2\xb1//g' | tr -d '\n -~')" ] || die "not printable: $(cat -v out err)"
  [ "$(grep -cF "$shown" out)" = "$1" ] || die "$(cat out)"
}
cp train.csv "$hostile.csv"
shows 3 "$MLP" $T --epochs 1 --train "$hostile.csv" --plot "$hostile.png" --log "$hostile.jsonl"
shows 2 "$MLP" $T --epochs 1 --seeds 2 --save "$hostile.st"
digits 100 50
CUDA_VISIBLE_DEVICES='' shows 1 "$PROGRAMS/mlp-bench" --train digits_train.csv --test digits_test.csv --hidden 4 \
  --batches 64 --epochs 1 --json "$hostile"
shows 1 "$PROGRAMS/mlp-bench" --from "$hostile"
rm "$hostile" && mkdir "$hostile"
shows 2 "$PROGRAMS/mlp-digits" --train-rows 2 --test-rows 2 --output-dir "$hostile"

case_ 'records from a stranger'
# Every text that can be anything has the commands.
evil='\u001b]0;owned\u0007\u001b[2J\u009b31m'
cat >evil.json <<END
{"case":"machine","device":"$evil","driver":"$evil","date":"$evil","name":"$evil","command":"$evil","sources":"$evil"}
{"case":"epoch","hidden":"$evil","batch":1,"networks":1,"precision":"$evil","fusion":"$evil","ms_per_epoch":1}
{"case":"epoch","hidden":"$evil","batch":1,"networks":1,"precision":"$evil","peer":"$evil","reason":"$evil"}
{"case":"ceiling","name":"$evil","value":1,"unit":"$evil"}
{"case":"topic","topic":"t","title":"$evil","dims":"$evil","unit":"$evil","point_name":"$evil","predicted_name":"$evil","rungs":[{"rung":"$evil","kind":"$evil","lesson":"$evil"}]}
{"case":"table","topic":"t","problem":"","size":"$evil","reason":"$evil","bytes":1,"operations":1,"rows":[{"rung":"$evil","ms":1,"point":1,"check":"$evil","note":"$evil"}]}
END
shows 9 "$PROGRAMS/mlp-bench" --from evil.json
shows 15 "$PROGRAMS/mlp-lab" t --from evil.json

case_ 'a configuration file reads back as the options that it was made from'
prints 1 '^train = a;b#c d$' --train 'a;b#c d' --dry-run
cp out back.conf
ok --config back.conf --dry-run
same out back.conf
for name in 'a ;b' 'a #b' 'a ' $'a\nb' $'a\xff'; do refuses 1 '' --train "$name" --dry-run; done
refuses 1 "--train 'a ;b' would be read back as 'a'" --train 'a ;b' --dry-run
