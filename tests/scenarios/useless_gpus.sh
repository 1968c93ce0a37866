# Tests GPUs that cannot be used. mlp-train-faults simulates them: it has
# tests/support/cuda_stand_in.c in place of CUDA's runtime.
faults=$PROGRAMS/mlp-train-faults
[ -x "$faults" ] || faults=$PROGRAMS/build/mlp-train-faults
ln -s "$faults" mlp-train
MLP=$PWD/mlp-train
export CUDA_STAND_IN
small="$T --hidden 16,3 --epochs 1 --device-memory 1"

case_ 'a GPU that cannot be used is named, and auto takes the CPU'
[ ! -x "$MLP" ] || run $T --device cuda --epochs 1
if [ ! -x "$MLP" ] || grep -q 'built without CUDA' err; then
  skip_ 'there is no stand-in for a GPU'
else
  while IFS='|' read -r CUDA_STAND_IN text; do
    fails 1 "$text" $small --resident yes --device cuda
    said '; use --device cpu to run without a GPU'
    prints 1 "^device   CPU" $small --resident yes --device auto
    grep -qF "$text" out
  done <<'END'
none|no GPU is visible
no-driver|no NVIDIA driver is installed
old-driver|the GPU's driver supports CUDA 11.8, but this program was built with
old-gpu|this program has no code for the stand-in (compute capability 5.0)
full|MB of memory left: try --resident no
|MB that the GPU needs: try --resident no
END
fi
