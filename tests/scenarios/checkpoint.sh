# Tests networks that other programs wrote, and files that are refused: forged, damaged, truncated.
# tests/test_checkpoint.c tests the files that mlp-train writes.
printf '0,1,2,3\n1,4,5,6\n' >three.csv
load='--device cpu --evaluate --test three.csv --load'
# Writes the numbers 1 to 14 as float32.
for float in 803f 0040 4040 8040 a040 c040 e040 0041 1041 2041 3041 4041 5041 6041; do
  printf %b "\0\0\x${float:0:2}\x${float:2}"
done >floats
head -c 70000 /dev/zero | cat floats - >data

# forge HEADER [DATA [LENGTH]] writes forged.st: the header, padded to LENGTH bytes, then the first DATA bytes
# of the file data (default: up to the tensors' end). In HEADER, <0.weight 2,3 0,24> stands for a tensor: its
# name, shape (- for none) and data_offsets. <W> and <B> stand for the weights and biases of a network with 3
# inputs and 2 classes. A header that begins with < gets its outer braces here. A ' stands for a ".
forge() {
  local header
  header=$(sed -E "s/^<.*/{&}/; s/<W>/<0.weight 2,3 0,24>/g; s/<B>/<0.bias 2 24,32>/g; s/></>,</g
    s/<([^ ]*) ([^ ]*) ([^>]*)>/'\1':{'dtype':'F32','shape':[\2],'data_offsets':[\3]}/g; s/\[-]/[]/g" <<<"$1")
  printf -v header "%-${3:-0}b" "${header//\'/\"}"
  local size=${2:-$(tr '}' '\n' <<<"$header" | sed -n 's/.*,\([0-9]*\)]$/\1/p' | sort -n | tail -n 1)}
  head -c "${size:-0}" data | with_header "$header" >forged.st
}
# refused TEXT FILE checks that FILE cannot be loaded and that TEXT says why.
refused() {
  refuses 1 "cannot load $2: " $load $2
  said "$1"
}
# forgeries reads lines TEXT|HEADER|DATA. Each line makes a file (forge HEADER DATA) that must be refused with TEXT.
forgeries() {
  local text header data
  while IFS='|' read -r text header data; do
    forge "$header" $data
    refused "$text" forged.st
  done
}

case_ 'files of others are networks' # numbers in the tensors' names give the order of layers; the order of tensors in the file does not matter
while IFS='|' read -r tensors header; do
  forge "$header"
  ok --device cpu --train three.csv --test none --resume forged.st --hidden 2 --classes 2 --epochs 1 --lr 0 --save ours.st
  for tensor in $tensors; do tail -c +$((1 + ${tensor%,*})) floats | head -c ${tensor#*,}; done |
    cmp - <(tail -c +$((9 + $(header_size ours.st))) ours.st | head -c 56)
done <<'END'
0,24 24,8 32,16 48,8|<0.weight 2,3 0,24><0.bias 2 24,32><2.weight 2,2 32,48><2.bias 2 48,56>
32,24 24,8 8,16 0,8|{ '__metadata__' : {'format': 'pt', 'epoch': 'many'},\n<net.10.bias 2 0,8>, <net.10.weight 2,2 8,24>, <net.9.bias 2 24,32>, <net.9.weight 2,3 32,56>}
0,24 24,8 32,16 48,8|{'__metadata__':{},<fc1.weight 2,3 0,24>,<fc2.bias 2 48,56>,<fc1.bias 2 24,32>,<fc2.weight 2,2 32,48>}
0,24 24,8 32,16 48,8|<layers.0.weight 2,3 0,24><layers.0.bias 2 24,32><layers.1.weight 2,2 32,48><layers.1.bias 2 48,56>
END

case_ 'what is assumed of files of others is said'
forge '<0.weight 2,3 0,24><0.bias 2 24,32><2.weight 2,2 32,48><2.bias 2 48,56>'
relu='forged.st does not say how it was trained: assuming ReLU between layers'
pixels='pixels / 255, which --pixel-max, --mean and --std change'
rows 20 | sed 's/$/,7/' >four.csv
A='--device cpu --load forged.st --evaluate --test four.csv'
prints 1 "^note     $relu and $pixels$" $A
prints 1 "^note     $relu, and pixels \(p / 16 - 0.5\) / 2$" $A --pixel-max 16 --mean 0.5 --std 2
R='--device cpu --train four.csv --test none --resume forged.st --hidden 2 --classes 2 --epochs 1'
prints 1 "^note     $relu and $pixels$" $R --save ours.st
[ "$(value activation ours.st)" = relu ]
prints 0 '^note     .*assuming' --device cpu --load ours.st --evaluate --test four.csv
prints 0 '^note     .*assuming' --resume ours.st --epochs 2
forge "{'__metadata__':{'activation':'ReLU'},<0.weight 2,3 0,24>,<0.bias 2 24,32>,<2.weight 2,2 32,48>,<2.bias 2 48,56>}"
prints 1 "^note     forged.st does not say how it was trained: assuming $pixels$" $A
prints 0 '^note' $A --mean 0.5
forge "{'__metadata__':{'activation':'tanh'},<0.weight 2,3 0,24>,<0.bias 2 24,32>,<2.weight 2,2 32,48>,<2.bias 2 48,56>}"
refused 'its activation is tanh, but mlp-train has only relu' forged.st
refuses 1 'its activation is tanh' $R --save never.st
edit 's/"activation":"relu"/"activation":"logistic"/' ours.st forged.st
refused 'its activation is logistic' forged.st

case_ 'bad headers and tensors are refused'
for n in {0..8}; do
  layers+="<$n.weight 2,2 $((24 * n)),$((24 * n + 16))><$n.bias 2 $((24 * n + 16)),$((24 * n + 24))>"
done
forgeries <<<"it has more than 8 layers|$layers"
forgeries <<'END'
its header is not the JSON of a safetensors file: '}' expected|{<W>,<B>
duplicate object key near '"0.weight"'|<W><W><B>
unable to decode byte 0xff|{'0.\xff':1}
it is not a safetensors file: its header does not start with {|[]
it has no tensor named like layers.0.weight|{}
tensor 0.weight must have a dtype, a shape of 2 whole numbers and two data_offsets|{'0.weight':7,<B>}
tensor 0.bias must have a dtype, a shape of 1 whole|<W><0.bias 2,1 24,32>
tensor 0.weight is of dtype BF16; only F32 can be read|{'0.weight':{'dtype':'BF16','shape':[2,3],'data_offsets':[0,12]},<B>}
its __metadata__ must be a map of strings|{'__metadata__':{'epoch':1},<W>,<B>}
tensor out.weight does not belong to a network of linear layers|<W><B><out.weight 2,2 32,48>
9999999999.bias does not belong|<W><9999999999.bias 2 24,32>
tensor \x1b[2J\x0a does not belong|<W><B><\\u001b[2J\\n 2 32,40>
tensor 0.weight has no weight or bias beside it|<W><a.0.bias 2 24,32>
tensor b.1.weight has no weight or bias beside it, of the same name but for the number as a.0.weight|<a.0.weight 2,3 0,24><a.0.bias 2 24,32><b.1.weight 2,2 32,48><b.1.bias 2 48,56>
the shapes of tensors 0.weight and 0.bias do not fit|<W><0.bias 3 24,36>
the shapes of tensors 1.weight and 1.bias do not fit|<W><B><1.weight 2,3 32,56><1.bias 2 56,64>
tensor 0.weight: the sizes of its shape must be from 1 to 16384|<0.weight 0,3 0,0><0.bias 0 0,0>
integer|<0.weight 18446744073709551618,3 0,24><B>
the number of inputs must be 1 to 4096, not 4097|<0.weight 2,4097 0,32776><0.bias 2 32776,32784>
tensor 0.bias: its data_offsets must span 8 of the 32 bytes of data|<W><0.bias 2 24,28>|32
must span 8 of the 31 bytes of data: the file was cut off or damaged|<W><B>|31
must span 1073741824 of the 32 bytes|<0.weight 16384,16384 0,1073741824><B>|32
must span 8 of|<W><0.bias 2 9223372036854775800,9223372036854775807>|32
byte 24 of its data must belong to one tensor|<W><0.bias 2 16,24>
byte 32 of its data must belong to one tensor|<W><B>|33
it has no tensor named like layers.0.weight|<momentum.0.weight 2,3 0,24><momentum.0.bias 2 24,32>
its momentum has shapes that differ from those of its parameters|<W><B><momentum.0.weight 2,2 32,48><momentum.0.bias 2 48,56>
END

case_ 'a header has a bound' # the bound is 1 MiB; a header that is one byte longer is not read
forge '{<W>,<B>}' 32 1048576
ok $load forged.st
forge '{<W>,<B>}' 32 1048577
refused 'its header would have 1048577 bytes, at most 1048576' forged.st

case_ 'what is no file of a network is refused'
mkfifo pipe # loading must not wait for a writer of the pipe
refused 'No such file or directory' none
refused 'it is not a regular file' pipe
while IFS='|' read -r text bytes; do
  printf %b "$bytes" >short
  refused "$text" short
done <<'END'
it is not a safetensors file: it has only 0 bytes|
it is not a safetensors file: it has only 7 bytes|\5\0\0\0\0\0\0
cut off: its header has 3 bytes, the whole file 10|\3\0\0\0\0\0\0\0{}
it is a PNG picture: --classify takes pictures|\x89PNG\r\n\x1a\n more of it
it is an HDF5 file: save_file|\x89HDF\r\n\x1a\n
it is a NumPy array: save_file|\x93NUMPY\1\0v
it is CSV text: --load takes a network that --save wrote|5,0,0,0,0,0
it is not a safetensors file of a network: its header would have 18446744073709551615 bytes, at most 1048576|\377\377\377\377\377\377\377\377{}
END

case_ 'values that are not finite are refused'
ok $T --epochs 1 --names no,yes --save saved.st # 22 parameters and 22 momenta
# put AT BYTES overwrites the data of forged.st with BYTES, starting at float number AT (from 0).
put() { printf %b "$2" | dd of=forged.st bs=1 seek=$(($(wc -c <saved.st) - 4 * (44 - $1))) conv=notrunc status=none; }
while read -r name at bytes; do
  cp saved.st forged.st
  put $at "$bytes"
  refused "tensor $name has a value that is NaN or infinite" forged.st
done <<'END'
layers.0.weight 0 \0\0\300\177
layers.0.bias 11 \0\0\200\177
layers.1.bias 20 \0\0\200\377
momentum.0.weight 22 \0\0\300\377
END

case_ 'sums that overflow are told'
cp saved.st forged.st
four() { printf '%s' "$1" "$1" "$1" "$1"; }
put 8 "$(four '\0\0\200\100')$(four '\346\261\141\177')$(four '\346\261\141\177')" # four biases of 4, then weights of 3e38
fails 1 "row 1: the network's output is not a finite number: the weights are too large" \
  --device cpu --load forged.st --predict test.csv

case_ 'metadata that say mlp-train are believed only as a whole'
while IFS='|' read -r text change; do
  edit "$change" saved.st forged.st
  if cmp -s saved.st forged.st; then die "$change changes nothing"; fi
  refused "$text" forged.st
done <<'END'
different version of mlp-train: format 2, not 1|s/"version":"1"/"version":"2"/
its metadata has no valid epoch|s/"epoch":"1"/"epoch":"-2"/
no valid epoch|s/"epoch":"1"/"epoch":"+1"/
no valid best_epoch|s/"best_epoch":"1"/"best_epoch":"2147483648"/
no valid step|s/"step":"0"/"step":"18446744073709551616"/
no valid loss|s/\("loss":"[^"]*\)"/\1x"/
no valid options|s/"options"/"Options"/
its names: 1 name, but the network has 2 classes|s/no\\n/no/
its names: name 1, '', must be 1|s/no\\n/\\n/
END
