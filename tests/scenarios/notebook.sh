# docs/colab.ipynb, cell by cell, in a copy of this checkout that is already built. Cells that need a
# GPU run where there is one, and say so elsewhere; the exercise's run on the emulator there. The copy
# has the objects and programs of this build: FLAGS tells make that its flags are theirs, which name the
# folder.
case_ 'every cell of the notebook runs'
if ! command -v python3 >/dev/null; then
  skip_ 'python3 is not installed'
elif [ "$PROGRAMS" != "$TOP" ]; then
  skip_ 'the notebook is for the build without a sanitizer'
else
  mkdir mlp-train
  (cd "$TOP" && ls -d Makefile scripts src kernels configs data/README.md build/flags build/lib*.a \
    build/{src,kernels} mlp-* 2>/dev/null) >parts || true
  tar c -C "$TOP" --exclude='*.csv' -T parts | tar x -C mlp-train
  [[ ${MAKEFLAGS-} = *' -- '* ]] || MAKEFLAGS="${MAKEFLAGS-} -- "
  # shellcheck disable=SC2016 # make's
  MAKEFLAGS+=' FLAGS=$$(shell\ cat\ build/flags) WERROR=0 EPOCHS=1 SETUP=0' MNIST_SOURCE=/nowhere \
    python3 "$TOP/tests/support/run_notebook.py" "$TOP/docs/colab.ipynb" >out 2>&1 || die "$(<out)"
  grep -q '^epoch 1/1 ' out # on digits that were drawn
  if nvidia-smi -L >gpus 2>&1; then grep -q 'fusion epoch' out; else printed 2 'This cell needs a GPU\.'; fi
  printed 2 '^4 of 4 right, 0 of 4 fused$'
fi
