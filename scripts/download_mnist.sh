#!/usr/bin/env bash
# Writes data/mnist_train.csv and data/mnist_test.csv: one row per line, label first, then 784 pixels.
# Does nothing if both files exist and are complete. Installed as mlp-train-fetch, it writes them to
# the user's cache. mlp-train looks there if the working folder has no data/.
#
#   MNIST_SOURCE  a folder with the four IDX files, plain or .gz; if set, nothing is downloaded
#   DATA_DIR      another folder for the result  [data; ~/.cache/mlp-train]
#
# The exit code is 0, or 1 after printing the reason. A CSV file is never left incomplete.
set -euo pipefail

self=${0##*/}
self=${self%.sh}
case ${1-} in
'') ;;
--help) sed -n '/^set/q; 2,$s/^# \{0,1\}//p' "$0" && exit ;;
*) echo "$self: takes no arguments, but variables; --help names them" >&2 && exit 1 ;;
esac
# To the commands below, a name that begins with a dash would look like an option.
[[ ${MNIST_SOURCE-} != -* ]] || MNIST_SOURCE=./$MNIST_SOURCE
[[ ${DATA_DIR-} != -* ]] || DATA_DIR=./$DATA_DIR
data=${DATA_DIR:-data}
if [ "$self" = mlp-train-fetch ]; then
  data=${DATA_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/mlp-train}
  mkdir -p "$data"
fi
mirrors=(https://ossci-datasets.s3.amazonaws.com/mnist
         https://storage.googleapis.com/cvdf-datasets/mnist)

MOST=64000000 # bytes of a file, packed or not: more than the largest has
# SHA-256 of each file (LeCun, Cortes, Burges, 1998) and the number of bytes of each uncompressed IDX
# file. Unpacking stops soon after that number of bytes.
declare -A bytes digest
while read -r name sha256 size; do digest[$name]=$sha256 bytes[$name]=$size; done <<'END'
train-images-idx3-ubyte ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db 47040016
train-labels-idx1-ubyte 65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5 60008
t10k-images-idx3-ubyte 0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7 7840016
t10k-labels-idx1-ubyte ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2 10008
mnist_train.csv fb60bc58af4dac3554e394af262b3184479833d3cc540ff8783f274b73492d5d
mnist_test.csv 51c292478d94ec3a01461bdfa82eb0885d262eb09e615679b2d69dedb6ad09e7
END

say() { echo "$self: $*" >&2; }

fail() {
  say "$*"
  exit 1
}

# is_whole FILE NAME succeeds if FILE has the content that belongs to NAME.
is_whole() { [ -f "$1" ] && echo "${digest[$2]}  $1" | sha256sum --check --status 2>/dev/null; }

# fetch SOURCE NAME prints file NAME or NAME.gz. SOURCE is a folder, or a mirror that is read by https.
# A mirror must answer within 5 seconds, must never pause for 10 seconds, and must end within 15 minutes.
fetch() {
  if [ -z "${MNIST_SOURCE-}" ]; then
    curl -fsSL --proto =https --proto-redir =https --connect-timeout 5 --speed-limit 1000 --speed-time 10 \
      --max-time 900 --max-filesize $MOST "$1/$2.gz"
  else
    cat "$1/$2" 2>/dev/null || cat "$1/$2.gz"
  fi
}

# take_from SOURCE gets the files that are still missing and stops at the first failure. It cuts off an unpacked
# file one byte after its proper size, and a packed one after MOST bytes: the header of a gzip file may be endless.
take_from() {
  local name
  for name in {train,t10k}-{images-idx3,labels-idx1}-ubyte; do
    is_whole "$work/$name" "$name" && continue
    [ -z "${MNIST_SOURCE-}" ] || [ -f "$1/$name" ] || [ -f "$1/$name.gz" ] ||
      fail "there is no $name and no $name.gz in MNIST_SOURCE=$1"
    { fetch "$1" "$name" || :; } | head -c $MOST | { gunzip -cf 2>/dev/null || :; } | head -c "$((bytes[$name] + 1))" >"$work/$name" || :
    is_whole "$work/$name" "$name" || { say "$1 does not give the $name of MNIST" && return 1; }
  done
}

! is_whole "$data/mnist_train.csv" mnist_train.csv || ! is_whole "$data/mnist_test.csv" mnist_test.csv || exit 0

work=$(mktemp -d "$data/.mnist.XXXXXX") ||
  fail "cannot write to the folder $data: make it writable or set DATA_DIR to another"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

command -v curl >/dev/null || [ -n "${MNIST_SOURCE-}" ] || fail "needs curl: sudo apt-get install curl"
[ -z "${MNIST_SOURCE-}" ] || mirrors=("$MNIST_SOURCE")
for mirror in "${mirrors[@]}" ''; do
  [ -n "$mirror" ] || fail "no MNIST from ${mirrors[*]}. Without internet: put the four IDX files into a folder and" \
    "set MNIST_SOURCE to it, or train on what mlp-digits draws"
  take_from "$mirror" && break
done
while read -r set csv; do
  # od prints one picture per line, and paste puts its label before it.
  paste -d '' <(od -An -v -tu1 -w1 -j8 "$work/$set-labels-idx1-ubyte" | tr -d ' ') \
              <(od -An -v -tu1 -w784 -j16 "$work/$set-images-idx3-ubyte" | tr -s ' ' ,) \
              >"$work/$csv" || fail "cannot write to $work/$csv"
  is_whole "$work/$csv" "$csv" || fail "$csv came out wrong: is $data full?"
done <<<$'train mnist_train.csv\nt10k mnist_test.csv'
mv "$work"/mnist_*.csv "$data"
echo "$self: wrote $data/mnist_train.csv and $data/mnist_test.csv"
