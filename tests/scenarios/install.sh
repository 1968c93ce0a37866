# `make install` puts the programs under PREFIX. There they work from any folder.
mkdir built any
cp "$MLP" "$PROGRAMS/mlp-lab" built
touch built/mlp-{bench,digits} built/mlp-{train,bench,digits,lab}.1 built/libmlp-ranks.so

# to_root TARGET runs make TARGET on the files in built/. Option -o keeps make from building these files.
to_root() {
  local built
  built=$(realpath --relative-to="$TOP" built) # because make cannot handle paths with blanks
  env MAKEFLAGS= make -C "$TOP" -o all BUILD="$built" PLACE="$built" CUDA=0 SETUP=0 \
    MPI_FLAGS=-lmpi CXX=true DESTDIR="$PWD/a root" PREFIX=/usr "$1" >out 2>&1 || die "$(<out)"
}

case_ 'a build in a folder of any name'
folder="a b\$(touch x);touch y;'c"
mkdir "$folder"
cp -r "$TOP"/{Makefile,kernels,scripts,src,tests} "$folder"
parts=build/src/base/error.o
! command -v g++ >/dev/null || parts+=' build/watched/kernels/lab/constant.o'
[ -z "$(command -v clang++ clang++-{14..22})" ] || parts+=' build/sealed_exercise_emulator.o'
MAKEFLAGS='' make -C "$folder" $parts CUDA=0 SETUP=0 >out 2>&1 || die "$(<out)"
holds "$folder" Makefile build kernels scripts src tests
rm -r "$folder"

to_root install
root=$PWD/'a root'

case_ 'everything is installed'
(cd "$root" && find . -type f ! -name '*.conf' -printf '%m %p\n') | sort -k 2 >list
diff list - <<'END'
755 ./usr/bin/mlp-bench
755 ./usr/bin/mlp-digits
755 ./usr/bin/mlp-lab
755 ./usr/bin/mlp-train
755 ./usr/bin/mlp-train-fetch
755 ./usr/lib/mlp-train/libmlp-ranks.so
644 ./usr/share/bash-completion/completions/mlp-bench
644 ./usr/share/bash-completion/completions/mlp-digits
644 ./usr/share/bash-completion/completions/mlp-lab
644 ./usr/share/bash-completion/completions/mlp-train
644 ./usr/share/doc/mlp-train/formats.md
644 ./usr/share/doc/mlp-train/lab-h200.json
644 ./usr/share/doc/mlp-train/options.md
644 ./usr/share/doc/mlp-train/recipes.md
644 ./usr/share/man/man1/mlp-bench.1
644 ./usr/share/man/man1/mlp-digits.1
644 ./usr/share/man/man1/mlp-lab.1
644 ./usr/share/man/man1/mlp-train.1
END
diff -r "$TOP/configs" "$root/usr/share/mlp-train/configs"

case_ 'an installed copy works anywhere'
export XDG_CACHE_HOME=$PWD/cache
unset HOME
cd any || exit
MLP=$root/usr/bin/mlp-train
prints 1 '^lr = 0.03$' -c literature.conf --dry-run
fails 1 literature.conf -c ./literature.conf
MLP=$root/usr/bin/mlp-lab
CUDA_VISIBLE_DEVICES='' fails 1 '/../share/doc/mlp-train/lab-h200.json shows a recorded run' softmax --check
record=$(sed -n 's/.*--from \(.*\) shows a recorded run.*/\1/p' err)
ok softmax --from "$record"
MLP=$root/usr/bin/mlp-train-fetch
export MNIST_SOURCE=/nowhere
fails 1 'there is no train-images-idx3-ubyte'
MLP=$root/usr/bin/mlp-train
rows 20 | tee ../cache/mlp-train/mnist_{train,test}.csv >out # where mlp-train-fetch puts them
prints 1 '^data .*/cache/mlp-train/mnist_train.csv: ' --device cpu --epochs 1 --classes 2
mkdir data
rows 20 | tee data/mnist_{train,test}.csv >out
prints 1 '^data     data/mnist_train.csv: ' --device cpu --epochs 1 --classes 2
cd .. || exit

case_ 'nothing is left after make uninstall'
to_root uninstall
[ -z "$(cd "$root" && find . ! -type d)" ]
[ -z "$(find "$root" -path '*mlp-train*')" ]

# Few shells expand the ~ of an argument NAME=~/folder. make gets it from those that do not.
case_ 'PREFIX=~/.local and DESTDIR=~/x are folders in the home folder, whatever the shell'
built=$(realpath --relative-to="$TOP" built)
home="$PWD/at  home"
for shell in sh bash dash zsh fish; do
  command -v $shell >out || continue
  for words in 'PREFIX=~/.local' 'DESTDIR=~/.local PREFIX=' 'PREFIX=~/.local DESTDIR=~'; do
    to=$home/.local
    [[ $words != *DESTDIR=~ ]] || to=$home$home/.local
    for target in install uninstall; do
      (cd "$TOP" && env MAKEFLAGS= HOME="$home" $shell -c "make -o all BUILD=$built PLACE=$built CUDA=0 SETUP=0 CXX=true $words $target") \
        >out 2>&1 || die "$shell, $words: $(<out)"
      [ "$target" = uninstall ] || [ -x "$to/bin/mlp-train" ] || die "$shell, $words: $(<out)"
    done
    [ -z "$(find "$home" ! -type d)" ] || die "$shell, $words leave $(find "$home" ! -type d)"
    absent "$TOP/~"
    rm -r "$home"
  done
done
status=0
make -C "$TOP" -n uninstall BUILD="$built" CUDA=0 SETUP=0 PREFIX='~nobody-has-this-name/x' >out 2>&1 || status=$?
[ $status = 2 ]
printed 1 'there is no home folder ~nobody-has-this-name'
