#!/usr/bin/env bash
# seal_exercise.sh emulator|gpu SOURCE SEALED COMPILER FLAG... checks a student's functions and compiles them so that the
# grader sees only these functions. First it removes comments and joins continued lines. Then it checks and compiles the
# text in a folder of its own (SEALED without .o). It prints a sentence and exits with status 1 if the text
# - is not valid CUDA for clang++,
# - includes a header that is not allowed,
# - can get round the grader's checks by assembly, attributes or names reserved for the compiler,
# - calls a function that allocates, waits, starts something, or reads a clock or a file,
# - has constructors, or
# - takes more memory than MOST_KB or more time than MOST_SECONDS to compile.
set -euo pipefail
export LC_ALL=C

kind=$1 source=$2 sealed=$3 compiler=("${@:4}")
top=$(cd "$(dirname "$0")/.." && pwd)
STATIC_BYTES=16384 SOURCE_BYTES=262144 MOST_SECONDS=20
[ "$kind" = emulator ] && MOST_KB=1000000 || MOST_KB=16000000

refuse() {
  echo "The exercise does not allow this: $1." >&2
  exit 1
}

# compile COMPILER ARGUMENT... compiles within the limits and prints the compiler's messages about the file.
compile() {
  local status=0
  (ulimit -v "$MOST_KB" -t "$MOST_SECONDS" -c 0 && exec "$@" -Iheaders 2>said) || status=$?
  if [ $status -gt 1 ] || grep -qE 'frontend command failed|out of memory|exhausted|bad_alloc|Killed|CPU time' said; then
    refuse "it takes more than $((MOST_KB / 1000)) MB of memory or $MOST_SECONDS s to compile"
  fi
  head -c 20000 said | tr -c '[:print:]\n\t' '?' >&2
  [ $status = 0 ] || exit 1
}

command -v "${compiler[0]}" >/dev/null ||
  { echo "The exercise wants ${compiler[0]}: make setup installs it, or apt-get install clang." >&2; exit 1; }

folder=${sealed%.o}
rm -rf "$folder"
mkdir -p "$folder/kernels/class" "$folder/headers/base"
sealed=$(realpath -m "$sealed") folder=$(realpath "$folder")
[ -s "$source" ] || refuse 'there is nothing in it'
[ "$(wc -c <"$source")" -le $SOURCE_BYTES ] || refuse "it has more than $SOURCE_BYTES bytes"
name=kernels/exercise.cu
[[ $source != *warmup.cu ]] || name=kernels/class/warmup.cu
text=$folder/$name
tr -d '\000' <"$source" | awk -v CHECK=1 -f "$top/src/emulator/launches.awk" >"$text"
cp "$top"/kernels/{activation.h,batch.cuh,cuda_try.h,kernels.h,unrolled.cuh,gpu.h} "$folder/headers/"
cp "$top"/src/base/{augment,host_device,optimizer,random,sizes}.h "$folder/headers/base/"
cd "$folder"

# The text is checked without expanding macros. A macro cannot make a refused name, since ## is refused.
HEADERS='"(batch\.cuh|kernels\.h)"|<(c?(math|float|limits|stdint|stddef|stdio|string|assert)(\.h)?|limits|
  algorithm|utility|type_traits|cuda_runtime(_api)?\.h)>'
HEADERS=$(tr -d ' \n' <<<"$HEADERS")
while IFS='|' read -r what pattern; do
  ! found=$(grep -m 1 -E "$pattern" "$text") || refuse "it has $what: ${found:0:80}"
done <<'END2'
assembly, an attribute or a pragma|(^|[^A-Za-z0-9_])(asm|__asm(__)?|_Pragma|__attr[a-z_]*|__declspec)([^A-Za-z0-9_]|$)
other spellings or joined words|##|%:|<:|\\u|\\U|\?\?
a directive that pretends|^\s*#\s*(line|include_next|import|embed|ident|[0-9])
names of the emulator|(^|[^A-Za-z0-9_])(EMULATOR_|emulat(ed|or))
jumps and calls to what is worked out|goto\s*\*|&&\s*[A-Za-z_]+\s*[;,)}]|::\s*\*|->\s*\*|[A-Za-z_)]\s*\.\s*\*|(^|[^A-Za-z0-9_])(virtual|thread_local|alloca|invoke|mem_fn|apply)([^A-Za-z0-9_]|$)
END2
! grep -qE '\[\s*\[' <(tr '\n' ' ' <"$text") || refuse 'it has an attribute'
! found=$(grep -E '^\s*#\s*pragma' "$text" | grep -m 1 -vE '^\s*#\s*pragma\s+(unroll(\s|\(|$)|once\s*$)') ||
  refuse "it has a pragma: $found"
! found=$(grep -E '^\s*#\s*include' "$text" | grep -m 1 -vE "^\s*#\s*include\s*($HEADERS)\s*$") ||
  refuse "it includes more than batch.cuh, kernels.h and <math.h>, <string.h>, <stdio.h>: $found"
# Names that begin with __, or with _ and a capital, are reserved for the compiler. CUDA's such names are allowed.
names() { grep -oE '(^|[^A-Za-z0-9_])(__|_[A-Z])[A-Za-z0-9_]*' "$1" | grep -oE '_[A-Za-z0-9_]*' | sort -u; }
known=$(names "$top/src/emulator/device.h" | grep -vE '^__(attribute|builtin|clang|cuda|assert|restrict__$)')
[ "$kind" = emulator ] || known+=$'\n'$(names "$text" | grep -E '^__[a-z][a-z0-9_]*$' | grep -vE '^__(builtin|asm|attr)')
found=$(names "$text" | grep -vxF "$known"$'\n__restrict\n__restrict__\n__FILE__\n__LINE__\n__func__\n__cplusplus' | paste -sd' ' || true)
[ -z "$found" ] || refuse "it uses $found, which the emulator does not know"

if [ "$kind" = emulator ]; then
  resources=$("${compiler[0]}" -print-resource-dir)/include # avoids clang's own versions of <algorithm> and other headers
  compile "${compiler[0]}" -x cuda -std=c++17 -nocudainc -nocudalib -nobuiltininc --cuda-device-only -w \
    --cuda-gpu-arch=sm_80 -Xclang -fno-cuda-host-device-constexpr -fsyntax-only -ferror-limit=20 \
    -isystem "$top/src/emulator/include" -isystem "$resources" -I"$top/src" -include emulator/device.h "$name"
  for file in "$name" headers/{batch,unrolled}.cuh; do
    awk -f "$top/src/emulator/launches.awk" "$file" >rewritten
    mv rewritten "$file"
  done
  compile "${compiler[@]}" -x c++ -c "$name" -o object.o
else
  compile "${compiler[@]}" -c "$name" -o object.o
fi

# Allowed from the C library: the functions of <math.h> that do not write through pointers, the mem functions,
# functions that print, and assert(). Functions that compilers call by themselves are allowed, too.
MATH='(a?(sin|cos|tan)h?|atan2|exp(2|m1)?|log(2|10|1p|b)?|pow|sqrt|cbrt|hypot|erfc?|tgamma|fabs|
  fma|fmod|fmax|fmin|fdim|floor|ceil|round|l?lround|trunc|rint|l?lrint|nearbyint|remainder|
  ldexp|scalbl?n|copysign|nextafter)[fl]?'
PRINT='printf|puts|putchar|__assert_fail|mem(cpy|move|set)'
COMPILER='__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|__(mul|div|add|sub|fix|float|extend|trunc|popcount).*|
  __dso_handle|__g(cc|xx)_personality_v0|_Unwind_Resume|_ZTVN10__cxxabiv1.*'
allowed="$MATH|$PRINT|$COMPILER|cuda(GetLastError|PeekAtLastError|FuncSetAttribute|GetDevice|
  DeviceGetAttribute)"
if [ "$kind" = emulator ]; then
  allowed="$allowed|__tsan_.*|__ubsan_handle_.*|__sanitizer_cov_trace_pc|_Z[0-9]+emulator_.*|
    emulator_(thread|block|block_size|grid_size|dynamic_shared)"
else # calls that nvcc makes for <<< >>> and to register kernels, and calls that only return information
  allowed="$allowed|cudaLaunchKernel(ExC)?|__cuda(LaunchKernel|PushCallConfiguration|PopCallConfiguration|
    Register.*|UnregisterFatBinary|GetKernel|InitModule)|cuda(FuncGetAttributes|
    OccupancyMaxActiveBlocksPerMultiprocessor)|atexit|__cxa_(atexit|guard_.*)|exit|mem(cmp)|str(len|cmp|ncmp)|
    __(f?printf|memcpy|memset|memmove)_chk"
fi
allowed=$(tr -d ' \n' <<<"$allowed")
foreign=$(nm --undefined-only --format=posix object.o | cut -d' ' -f1 | grep -vxE "$allowed" |
  paste -sd' ' || true)
[ -z "$foreign" ] || refuse "it uses $foreign, and has only its arrays, <math.h>, memcpy and printf"

renamed=()
if [ "$kind" = emulator ]; then
  sections=$(objdump -h -w object.o)
  # The only constructor must be the one that -fsanitize=thread adds.
  constructors=$(awk '$2 ~ /^\.(preinit_array|init_array|fini_array|ctors|dtors)/ {print $2, $3}' <<<"$sections")
  [[ $constructors =~ ^\.init_array\.0\ 0*8$ ]] ||
    refuse 'it has a constructor, which runs before anything is asked of it'
  total=0
  for hex in $(awk '$2 ~ /^\.(data|bss)(\.|$)/ && $2 !~ /^\.data\.(rel\.ro|DW)/ {print $3}' <<<"$sections") \
    $(nm --format=posix object.o | awk '$2 == "C" {print $4}'); do
    total=$((total + 16#$hex))
  done
  [ $total -le $STATIC_BYTES ] ||
    refuse "it has $total bytes of variables that outlive a call, and may have $STATIC_BYTES"
  for function in memcpy memmove memset printf __assert_fail; do
    renamed+=("--redefine-sym=$function=__tsan_${function#__}")
  done
fi
# Symbol DW.ref... stays global. Every C++ file has this symbol, and the linker keeps one copy.
renamed+=(--keep-global-symbol={launch_{exercise_{forward,softmax,loss,update},warmup_{map,index,reverse,sum,copy}},DW.ref.__g{xx,cc}_personality_v0})
# Symbols that every C++ file may have (comdat) become local, because another sealed file has the same symbols.
ld -r --force-group-allocation object.o -o flat.o
objcopy "${renamed[@]}" flat.o "$sealed"
