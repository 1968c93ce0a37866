#!/usr/bin/env bash
# seal_exercise.sh emulator|gpu SOURCE SEALED COMPILER FLAG...: compiles a student's functions and
# leaves them, and nothing else of the object, visible to the grader that it is linked with.
#
# They are compiled in a folder of their own, SEALED without .o, against their two headers, batch.cuh and
# kernels.h, and what these include. Exit status 1, with a sentence, if the source
# - includes anything else but some headers of the language;
# - has assembly, attributes or pragmas (but unroll), by which code could leave what watches it;
# - calls what the exercise does not allow: nothing that allocates, waits, starts something, reads a
#   clock or a file. So what the function does is what the grader sees it do;
# - runs code before or after the grader's (constructors): answers worked out beforehand.
set -euo pipefail
export LC_ALL=C

kind=$1 source=$2 sealed=$3 compiler=("${@:4}")
read -ra CXX_NAME <<<"${CXX:-g++}"
top=$(cd "$(dirname "$0")/.." && pwd)
STATIC_BYTES=16384

refuse() {
  echo "The exercise does not allow this: $1." >&2
  exit 1
}

# ---- a folder of its own -------------------------------------------------------------------

folder=${sealed%.o}
rm -rf "$folder"
mkdir -p "$folder/kernels" "$folder/headers/base"
sealed=$(realpath -m "$sealed") folder=$(realpath "$folder")
cp "$source" "$folder/kernels/exercise.cu"
cp "$top"/kernels/{activation.h,batch.cuh,cuda_try.h,kernels.h,unrolled.cuh,gpu.h} "$folder/headers/"
cp "$top"/src/base/{augment,host_device,optimizer,random,sizes}.h "$folder/headers/base/"
cd "$folder"

# ---- the source ----------------------------------------------------------------------------

# Without comments, continued lines joined, and nothing expanded: what is refused cannot be made of
# parts, for parts are not joined either.
text=$(sed -e ':a' -e '/\\$/{N;s/\\\n//;ba' -e '}' kernels/exercise.cu | "${CXX_NAME[@]}" -fpreprocessed -dD -E -P -x c++ - 2>/dev/null) || refuse 'it is no text of C++'
HEADERS='"(batch\.cuh|kernels\.h)"|<(c?(math|float|limits|stdint|stddef|stdio|string|assert)(\.h)?|
  algorithm|utility|type_traits|cuda_runtime(_api)?\.h)>'
HEADERS=$(tr -d ' \n' <<<"$HEADERS")
while IFS='|' read -r what pattern; do
  ! found=$(grep -m 1 -E "$pattern" <<<"$text") || refuse "it has $what: ${found:0:80}"
done <<'END2'
assembly, an attribute or a pragma|(^|[^A-Za-z0-9_])(asm|__asm(__)?|_Pragma|__attr[a-z_]*|__declspec|__REDIRECT[A-Z_]*)([^A-Za-z0-9_]|$)
an attribute|\[\s*\[
other spellings or joined words|##|%:|<:|\\u|\?\?
functions of the compiler that leave the program|__builtin_[a-z_]*(jmp|return|frame|apply|address)
a directive that pretends|^\s*#\s*(line|include_next|import|embed|ident|[0-9])
END2
! found=$(grep -E '^\s*#\s*pragma' <<<"$text" | grep -m 1 -vE 'pragma\s+(unroll|once)') ||
  refuse "it has a pragma: $found"
! found=$(grep -E '^\s*#\s*include' <<<"$text" | grep -m 1 -vE "include\s*($HEADERS)\s*$") ||
  refuse "it includes more than batch.cuh, kernels.h and <math.h>, <string.h>, <stdio.h>: $found"

# ---- the object ----------------------------------------------------------------------------

if [ "$kind" = emulator ]; then
  for name in kernels/exercise.cu headers/{batch,unrolled}.cuh; do
    awk -v NAME="${name#headers/}" -f "$top/src/emulator/launches.awk" "$name" >rewritten
    mv rewritten "$name"
  done
  "${compiler[@]}" -Iheaders -x c++ -c kernels/exercise.cu -o object.o
else
  "${compiler[@]}" -Iheaders -c kernels/exercise.cu -o object.o
fi

# Of the C library: <math.h>, the mem functions, what prints, assert(). Of compilers: what they call
# by themselves.
MATH='(a?(sin|cos|tan)h?|atan2|exp(2|m1)?|log(2|10|1p|b)?|pow|sqrt|cbrt|hypot|erfc?|[lt]gamma|fabs|
  fma|fmod|fmax|fmin|fdim|floor|ceil|round|l?lround|trunc|rint|l?lrint|nearbyint|remainder|frexp|
  ldexp|modf|scalbl?n|copysign|nextafter)[fl]?'
PRINT='printf|puts|putchar|__assert_fail|mem(cpy|move|set)'
COMPILER='__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|__(mul|div|add|sub|fix|float|extend|trunc).*|
  __dso_handle|__g(cc|xx)_personality_v0|_Unwind_Resume|__cxa_guard_.*'
allowed="$MATH|$PRINT|$COMPILER|cuda(GetLastError|PeekAtLastError|FuncSetAttribute|GetDevice|
  DeviceGetAttribute)"
if [ "$kind" = emulator ]; then
  allowed="$allowed|__tsan_.*|__ubsan_handle_out_of_bounds|__sanitizer_cov_trace_pc|_Z[0-9]+emulator_.*|
    emulator_(thread|block|block_size|grid_size)"
else # what nvcc makes of <<< >>> and of a kernel's registration, and what asks and changes nothing
  allowed="$allowed|cudaLaunchKernel(ExC)?|__cuda(LaunchKernel|PushCallConfiguration|PopCallConfiguration|
    Register.*|UnregisterFatBinary|GetKernel|InitModule)|cuda(FuncGetAttributes|
    OccupancyMaxActiveBlocksPerMultiprocessor)|atexit|__cxa_atexit|exit|mem(cmp)|str(len|cmp|ncmp)|
    __(f?printf|memcpy|memset|memmove)_chk"
fi
allowed=$(tr -d ' \n' <<<"$allowed")
foreign=$(nm --undefined-only --format=posix object.o | cut -d' ' -f1 | grep -vxE "$allowed" |
  paste -sd' ' || true)
[ -z "$foreign" ] || refuse "it uses $foreign, and has only its arrays, <math.h>, memcpy and printf"

renamed=()
if [ "$kind" = emulator ]; then
  sections=$(objdump -h -w object.o)
  # One constructor says that it is watched: that of -fsanitize=thread.
  constructors=$(awk '$2 ~ /^\.(preinit_array|init_array|fini_array|ctors|dtors)/ {print $2, $3}' <<<"$sections")
  [[ $constructors =~ ^\.init_array\.(00099|0|00000)\ 0*8$ ]] ||
    refuse 'it has a constructor, which runs before anything is asked of it'
  total=0
  for hex in $(awk '$2 ~ /^\.(data|bss)(\.|$)/ && $2 !~ /^\.data\.(rel|DW)/ {print $3}' <<<"$sections") \
    $(nm --format=posix object.o | awk '$2 == "C" {print $4}'); do
    total=$((total + 16#$hex))
  done
  [ $total -le $STATIC_BYTES ] ||
    refuse "it has $total bytes of variables that outlive a call, and may have $STATIC_BYTES"
  for name in memcpy memmove memset printf; do renamed+=("--redefine-sym=$name=__tsan_$name"); done
fi
# DW.ref...: every file of C++ has it, and the linker keeps one.
for symbol in launch_exercise_{forward,softmax,loss,update} DW.ref.__g{xx,cc}_personality_v0; do
  renamed+=("--keep-global-symbol=$symbol")
done
objcopy "${renamed[@]}" object.o "$sealed"
