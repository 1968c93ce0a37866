#!/usr/bin/env bash
# student_kit.sh BUILD [VARIANT] makes BUILD/student-kit/ and .tar.gz for students of the exercise. The kit has only the
# files named here. It has no answers, no fused kernels, and no unfused kernels that are better than the functions handed
# out. VARIANT, any text, draws the constants of kernels/class/transformer.h, so that our answers are wrong.
set -euo pipefail
cd "$(dirname "$0")/.."

kit=$1/student-kit
files=(
  LICENSE docs/{exercise,emulator,tile}.md .devcontainer
  kernels/exercise.cu kernels/class/{transformer.cu,transformer.h,warmup.cu} kernels/{activation.h,batch.cuh,unrolled.cuh,cuda_try.h,gpu.h,kernels.h}
  scripts/{seal_exercise,grade_all}.sh
  src/mlp_exercise.c src/emulator
  src/exercise/{exercise.h,exercise.mk,run.h} src/exercise/{expect,reference}.{c,h}
  src/exercise/{apart,calls,emulated,gpu,problem,report,run,tasks,transformer}.c
  src/base/{augment.h,clock.h,host_device.h,optimizer.h,random.h,sizes.h} src/base/{error,interrupt,nearest,output,stats,stream,text}.{c,h}
  src/cli/option_{kinds,table}.{c,h}
  src/engine/{engine,training}.h src/ranks/ranks.h src/engine/cuda/cuda_error.{c,h} src/model/network.h
  src/measure/record.{c,h} src/measure/cuda/{launch_count.c,rung.{c,h}}
)

rm -rf "$kit" "$kit.tar.gz"
mkdir -p "$kit"
tar -cf - "${files[@]}" | tar -xf - -C "$kit"
cp src/exercise/kit.mk "$kit/Makefile"
# draw NAME VALUE... sets constant NAME to one of the values. Sums of the values' multiples must be exact in float32 for
# RESIDUAL_SCALE, and all values differ from those of the repository.
draw() {
  local name=$1 number
  shift
  number=$(cksum <<<"$variant $name" | cut -d' ' -f1)
  shift $((number % $#))
  sed -i "s/^#define $name [^ ]*/#define $name $1f/" "$kit/kernels/class/transformer.h"
}
variant=${2-}
if [ -n "$variant" ]; then
  draw GELU_SCALE 0.5 0.75 1.25 1.5 1.75
  draw NORM_EPS 0.01 0.02 0.03 0.05 0.1
  draw GAIN_OFFSET 0.5 1.0 1.5 2.0 2.5
  draw RESIDUAL_SCALE 0.25 0.5 0.75 1.25 1.5
  draw ADAM_DECAY 0.01 0.02 0.03 0.05 0.1
fi
# Turns links to files that the kit lacks into plain text. A link may continue on the next line.
find "$kit" -name '*.md' -exec perl -0777 -pi -e '
  ($folder = $ARGV) =~ s|[^/]*$||;
  s{\[([^]]*)\]\((?![^)#]*://)([^)#]+)(#[^)]*)?\)}{-e $folder . $2 ? $& : $1}ge' {} +
# The same files must give the same kit, byte for byte.
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$1" -cf - student-kit |
  gzip -n >"$kit.tar.gz"
echo "$kit/ and $kit.tar.gz"
