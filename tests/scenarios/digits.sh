# mlp-digits writes two files of drawn digits. Each file is complete or does not exist.
export MLP=$PROGRAMS/mlp-digits
mkdir drawn

case_ 'files hold the digits'
ok --output-dir drawn --train-rows 700 --test-rows 1 --seed 9
printed 1 '^drawn/digits_train.csv: 700 drawn digits$'
printed 1 '^drawn/digits_test.csv: 1 drawn digits$'
# All compilers, machines and optimisations draw the same digits. If you change the digits on purpose, write the new sums here.
sha256sum --quiet -c <<'END'
7e59b5736d29707150009e578fcd62c8e585d6b355fe0f17b48a07b90419f2d8  drawn/digits_train.csv
a3236094098a1a73910284de079c9b2c7275d3fdcc854de59c6a5008af7d0155  drawn/digits_test.csv
END
ok --output-dir drawn --train-rows 3 --test-rows 2 # replaces the files
cat >sums <<'END'
dfc53c560dbb1fb06253462d423f0c1cf792a6ba52ae144baf2af44a15850492  drawn/digits_train.csv
7100c097bbde48ab87e51b54217339e05a81918f721842c0c34be2884b62b839  drawn/digits_test.csv
END
sha256sum --quiet -c sums
holds drawn digits_test.csv digits_train.csv
ok --output-dir . --train-rows 3 --test-rows 2 --seed 4294967297 # a seed of more than 32 bits
if cmp -s digits_test.csv drawn/digits_test.csv; then die 'two seeds draw the same'; fi

case_ 'a full disk leaves what was there'
(ulimit -f 100 && fails 1 'digits_train.csv: File too large' --output-dir drawn --train-rows 1000) # acts like a full disk
holds drawn digits_test.csv digits_train.csv
sha256sum --quiet -c sums

case_ 'a signal leaves nothing'
rm drawn/*
start --output-dir drawn --train-rows 100000000
until_ compgen -G 'drawn/*' >names
kill $pid
finish
[ $status = 143 ]
holds drawn

case_ 'a folder that is not there'
fails 1 'cannot write /nowhere/at-all/' --output-dir /nowhere/at-all
said 'its folder does not exist'
