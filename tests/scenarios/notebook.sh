# Runs docs/colab.ipynb, cell by cell, in a copy of this checkout with the objects and programs of this
# build. FLAGS keeps `make` from building them again. Without a GPU, cells that need a GPU say so, and
# the exercise runs on the emulator.
case_ 'every cell of the notebook runs'
if ! command -v python3 >/dev/null || [ "$PROGRAMS" != "$TOP" ]; then
  skip_ 'the notebook is for python3 and the build without a sanitizer'
else
  mkdir mlp-train
  (cd "$TOP" && ls -d Makefile scripts src kernels configs data/README.md build/flags build/lib*.a \
    build/{src,kernels,emulated} mlp-* 2>/dev/null) >parts || true
  tar c -C "$TOP" --exclude='*.csv' -T parts | tar x -C mlp-train
  [[ ${MAKEFLAGS-} = *' -- '* ]] || MAKEFLAGS="${MAKEFLAGS-} -- "
  # shellcheck disable=SC2016,SC2089 # make expands $(shell ...)
  MAKEFLAGS+=' FLAGS=$$(shell\ cat\ build/flags) WERROR=0 EPOCHS=1 SETUP=0 SHAPE=5x7x3'
  # shellcheck disable=SC2090
  export MAKEFLAGS MNIST_SOURCE=/nowhere
  python3 - "$TOP/docs/colab.ipynb" >out 2>&1 <<'END' || die "$(<out)"
# In a notebook, a line that begins with `!` is a shell command. %cd changes the folder. The rest is Python.
import json, os, subprocess, sys, types
names, shown = {}, types.ModuleType("IPython.display")
shown.display = shown.Image = str
sys.modules.update({"IPython": types.ModuleType("IPython"), "IPython.display": shown})
for cell in json.load(open(sys.argv[1], encoding="utf-8"))["cells"]:
    if cell["cell_type"] == "code" and cell["source"][0][0] not in "!%":
        exec("".join(cell["source"]), names)
    elif cell["cell_type"] == "code":
        for line in cell["source"]:
            if line.startswith("%cd "):
                os.chdir(line[4:].strip())
            else:
                subprocess.run(["bash", "-c", line[1:]], check=True, stderr=subprocess.STDOUT)
END
  grep -q '^epoch 1/1 ' out # it trains on drawn digits
  nvidia-smi -L >gpus 2>&1 || printed 2 'This cell needs a GPU\.'
  [ -z "$(command -v clang++ clang++-{14..22})" ] || printed 2 '^4 of 4 right, 0 of 4 fused$'
fi
