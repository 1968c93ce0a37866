# The manual and the bash completion that the build has made; tests/test_option_table.c compares them
# with the options.
made=$PROGRAMS
[ -f "$made/mlp-train.1" ] || made=$PROGRAMS/build

case_ 'groff has nothing to say of the manuals'
if ! command -v groff >/dev/null; then
  skip_ 'there is no groff'
else
  for page in "$made"/mlp-*.1; do
    groff -man -ww -Tutf8 -z "$page" 2>err
    [ ! -s err ] || die "$page: $(cat err)"
  done
fi

mkdir -p files/sub share/{bash-completion/completions,mlp-train/configs}
touch files/{a.csv,b.safetensors,c.conf,d.png,'e f.JPG',m.best,x.csv.gz,sub/g.csv} share/mlp-train/configs/p.conf
installed=$PWD/share/bash-completion/completions/mlp-train
cp "$TOP/src/cli/mlp.bash" "$installed"
cat >complete <<'END'
compopt() { :; } # this bash reads no lines
. "$1"
complete -p mlp-train >/dev/null || exit
COMP_WORDS=("$2" "${@:3}")
COMP_CWORD=$(($# - 2))
_mlp
printf '%s\n' "${COMPREPLY[@]}" | sort | paste -sd ' '
END

# complete_ WORD...: what bash makes of the last one, in the folder files.
complete_() {
  env -i -C files PATH="$PATH" LC_ALL=C bash -u ../complete "$installed" "$MLP" "$@"
}

# completes: each line of standard input has the words of a command line, "|", and what becomes of
# the last one.
completes() {
  local words given expected got
  while IFS='|' read -r words expected; do
    eval "given=($words)"
    got=$(complete_ "${given[@]}")
    [ "$got" = "$expected" ] || die "$words: '$got', not '$expected'"
  done
}

case_ 'options and values are completed'
completes <<'END'
--quiet --lr|--lr --lr-decay --lr-schedule
--lr-schedule ''|constant cosine linear step
--lr-schedule co|constant cosine
-d c|cpu cuda
--device = c|cpu cuda
--epochs ''|10
--augment ''|elastic none rotate scale shear shift
--augment shift,s|shift,scale shift,shear
--augment scale,shift,|scale,shift,elastic scale,shift,rotate scale,shift,shear
END
complete_ '' | grep -q -e '--hidden'

case_ 'files are completed'
completes <<'END'
--train ''|a.csv sub x.csv.gz
--test ''|a.csv none sub x.csv.gz
--test sub/|sub/g.csv
--resume ''|b.safetensors m.best sub
--config ''|c.conf p.conf sub
--plot ''|d.png sub
--load b --classify ''|d.png e f.JPG sub
--classify --load ''|b.safetensors m.best sub
END

case_ 'every program has a page and a completion'
[[ $(<"$made/mlp-digits.1") = *'
mlp\-digits \- draws digits that look handwritten and writes them as CSV in MNIST'*'
.SH SYNOPSIS
.nf
mlp\-digits [OPTION]...
.fi
.SH DESCRIPTION
'*'
\fB\-\-train\-rows\fR \fIN\fR
rows of digits_train.csv
.br
from 1 to 1000000000; default \fB60000\fR
'* ]] || die "$(<"$made/mlp-digits.1")"
MLP=$PROGRAMS/mlp-digits
completes <<<"--train-rows ''|60000"
