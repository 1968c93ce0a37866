#!/usr/bin/env bash
# seal_exercise.sh SET emulator|gpu SOURCE SEALED COMPILER FLAG... checks a student's functions of a set, such as exercise,
# and compiles them so that the grader sees only these functions. First it removes comments and joins continued lines.
# Then it checks and compiles the text in a folder of its own (SEALED without .o). It prints a sentence and exits with
# status 1 if the text
# - is not valid CUDA for clang++,
# - includes a header that is not allowed,
# - can get round the grader's checks by assembly, attributes or names reserved for the compiler,
# - calls a function that allocates, waits, starts something, or reads a clock or a file,
# - has constructors, or
# - takes more memory than MOST_KB or more time than MOST_SECONDS to compile.
set -euo pipefail
export LC_ALL=C

set=$1 kind=$2 source=$3 sealed=$4 compiler=("${@:5}") arch=80
top=$(cd "$(dirname "$0")/.." && pwd)
STATIC_BYTES=16384 SOURCE_BYTES=262144 MOST_SECONDS=20 MOST_WRITTEN_MB=64
[ "$set" = exercise ] && name=kernels/exercise.cu || name=kernels/class/$set.cu
[ "$kind" = emulator ] && MOST_KB=1000000 || MOST_KB=16000000

# refuse WHAT [LINE] says what is not allowed, and in which line of the file.
refuse() {
  echo "${2:+$name:$2: }The exercise does not allow this: $1." >&2
  exit 1
}

# refuse_line WHAT FOUND is like refuse, and shows the line. FOUND begins with the line's number and a colon, as grep -n
# prints it.
refuse_line() {
  local found
  found=$(sed -n "${2%%:*}{s/^[[:space:]]*//;s/[[:space:]]*\$//;p}" "$text" | tr -c '[:print:]\n' '?')
  refuse "$1: ${found:0:1000}" "${2%%:*}"
}

# compile COMPILER ARGUMENT... compiles within the limits and prints the compiler's messages about the file.
compile() {
  local status=0
  (ulimit -v "$MOST_KB" -t "$MOST_SECONDS" -c 0 -f $((MOST_WRITTEN_MB << 10)) && exec "$@" -Iheaders 2>said) || status=$?
  if [ $status -gt 1 ] || grep -qE 'frontend command failed|out of memory|exhausted|bad_alloc|Killed|CPU time|File size limit|File too large' said; then
    refuse "it takes more than $((MOST_KB / 1000)) MB of memory or $MOST_SECONDS s to compile, or gives more than $MOST_WRITTEN_MB MB"
  fi
  head -c 20000 said | tr -c '[:print:]\n\t' '?' >&2
  [ $status = 0 ] || exit 1
}

command -v "${compiler[0]}" >/dev/null ||
  { echo "The exercise wants ${compiler[0]}: make setup installs it, or apt-get install clang." >&2; exit 1; }

for flag in "${compiler[@]}"; do [[ $flag != -DEMULATOR_ARCH=* ]] || arch=${flag#*=}; done
folder=${sealed%.o}
rm -rf "$folder"
mkdir -p "$folder/kernels/class" "$folder"/headers/{base,class}
sealed=$(realpath -m "$sealed") folder=$(realpath "$folder")
[ -s "$source" ] || refuse 'there is nothing in it'
[ "$(wc -c <"$source")" -le $SOURCE_BYTES ] || refuse "it has more than $SOURCE_BYTES bytes"
text=$folder/$name
tr -d '\000' <"$source" | awk -v CHECK=1 -f "$top/src/emulator/launches.awk" >"$text"
cp "$top"/kernels/class/transformer.h "$folder/headers/class/"
cp "$top"/kernels/{activation.h,batch.cuh,cuda_try.h,kernels.h,unrolled.cuh,gpu.h} "$folder/headers/"
cp "$top"/src/base/{augment,host_device,optimizer,random,sizes}.h "$folder/headers/base/"
cd "$folder"

# The text is checked without expanding macros. A macro cannot make a refused name, since ## is refused. `plain` has the
# same lines with empty strings, since a string may say anything. Compilers also take some characters that are not ASCII
# for spaces.
awk -v CHECK=1 -v NO_STRINGS=1 -f "$top/src/emulator/launches.awk" "$text" >plain
HASH=$'^[[:space:]\x80-\xff]*#[[:space:]\x80-\xff]*'
HEADERS='"(batch\.cuh|kernels\.h|class/transformer\.h)"|<(c?(math|float|limits|stdint|stddef|stdio|string|assert)(\.h)?|limits|
  algorithm|utility|type_traits|cuda_runtime(_api)?\.h)>'
HEADERS=$(tr -d ' \n' <<<"$HEADERS")
# These call what they are given, a pointer to a member for example, or make std::apply and std::invoke visible.
CALLS='invoke|mem_fn|apply|bind|not_fn|function|reference_wrapper|c?ref|visit|call_once|thread|async|tuple|pair|array|
  make_(tuple|pair|from_tuple)|tie|forward_as_tuple'
CALLS=$(tr -d ' \n' <<<"$CALLS")
while IFS='~' read -r what pattern; do
  pattern=${pattern//HASH/$HASH}
  ! found=$(grep -a -n -m 1 -E "${pattern//CALLS/$CALLS}" plain) || refuse_line "it has $what" "$found"
done <<'END2'
assembly, an attribute or a pragma~(^|[^A-Za-z0-9_])(asm|__asm(__)?|_Pragma|__attr[a-z_]*|__declspec)([^A-Za-z0-9_]|$)
other spellings or joined words~##|%:|<:|\\u|\\U|\?\?
a raw string~(^|[^A-Za-z0-9_])(u8|u|U|L)?R"
a directive that pretends~HASH(line|include_next|import|embed|ident|[0-9])
names of the emulator~(^|[^A-Za-z0-9_])(EMULATOR_|emulat(ed|or))
calls to what is worked out~::\s*\*|->\s*\*|[A-Za-z_)]\s*\.\s*\*|(^|[^A-Za-z0-9_])(virtual|thread_local|alloca|std\s*::\s*(CALLS))([^A-Za-z0-9_]|$)
END2
if grep -aqE '(^|[^A-Za-z0-9_])using\s+(namespace\s+)?std([^A-Za-z0-9_]|$)' plain; then
  ! found=$(grep -a -n -m 1 -wE "$CALLS" plain) || refuse_line 'it has calls to what is worked out' "$found"
fi
found=$(awk '{ all = all $0 "\n" }
  END { if (match(all, /\[[ \t\r\f\v\n]*\[/)) print split(substr(all, 1, RSTART), lines, "\n") }' plain)
[ -z "$found" ] || refuse_line 'it has an attribute' "$found:"
! found=$(grep -a -n -E "${HASH}pragma" plain | grep -a -m 1 -vE "^[0-9]+:\s*#\s*pragma\s+(unroll(\s|\(|\$)|once\s*\$)") ||
  refuse_line 'it has a pragma' "$found"
! found=$(grep -a -n -E "${HASH}include" "$text" | grep -a -m 1 -vE "^[0-9]+:\s*#\s*include\s*($HEADERS)\s*\$") ||
  refuse_line 'it includes more than batch.cuh, kernels.h, class/transformer.h and <math.h>, <string.h>, <stdio.h>' "$found"
first=$(grep -a -m 1 -oE "${HASH}include[[:space:]]*\"[a-z.]+\"" "$text" | grep -oE '[a-z]+\.[a-z]+' || true)
# Names that begin with __, or with _ and a capital, are reserved for the compiler. CUDA's such names are allowed, but
# for those that differ between the check and the run.
names() { grep -aoE '(^|[^A-Za-z0-9_])(__|_[A-Z])[A-Za-z0-9_]*' "$1" | grep -oE '_[A-Za-z0-9_]*' | sort -u; }
known=$(names "$top/src/emulator/device.h" | grep -vE '^__(attribute|builtin|clang|cuda|assert|restrict__$|CUDA__$|COUNTER__$)')
[ "$kind" = emulator ] || known+=$'\n'$(names plain | grep -E '^__[a-z][a-z0-9_]*$' | grep -vE '^__(builtin|asm|attr)')
found=$(names plain | grep -vxF "$known"$'\n__restrict\n__restrict__\n__FILE__\n__LINE__\n__func__\n__cplusplus' | paste -sd' ' || true)
[ -z "$found" ] || refuse "it uses $found, which the emulator does not know" "$(grep -a -n -m 1 -wF "${found%% *}" plain | cut -d: -f1)"

# The header comes before the file, so that the file's macros cannot change it.
header=()
[ -z "$first" ] || header=(-include "headers/$first")
compiler+=(${header[@]+"${header[@]}"})
if [ "$kind" = emulator ]; then
  resources=$("${compiler[0]}" -print-resource-dir)/include # avoids clang's own versions of <algorithm> and other headers
  compile "${compiler[0]}" -x cuda -std=c++17 -nocudainc -nocudalib -nobuiltininc --cuda-device-only -w \
    --cuda-gpu-arch=sm_"$arch" -DEMULATOR_ARCH="$arch" -Xclang -fno-cuda-host-device-constexpr -fsyntax-only -ferror-limit=20 \
    -isystem "$top/src/emulator/include" -isystem "$resources" -I"$top/src" -include emulator/device.h ${header[@]+"${header[@]}"} "$name"
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
if [ -n "$foreign" ]; then
  # nm knows the line of a call if the object has debug information.
  line=$(nm --undefined-only --line-numbers object.o | sed -nE "s/^ *U ${foreign%% *}\t.*$(basename "$name"):([0-9]+)\$/\1/p" | head -n 1)
  refuse "it uses $foreign, and has only its arrays, <math.h>, memcpy and printf" \
    "${line:-$(grep -a -n -m 1 -wF "${foreign%% *}" plain | cut -d: -f1)}"
fi

mapfile -t functions < <(grep -oE "^cudaError_t launch_${set}_[a-z_]+" headers/kernels.h | cut -d' ' -f2)
missing=$(printf '%s\n' "${functions[@]}" | grep -vxF "$(nm --extern-only --defined-only --format=posix object.o | cut -d' ' -f1)" | paste -sd' ' || true)
[ -z "$missing" ] || refuse "it lacks $missing, with the parameters of kernels.h"

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
for function in "${functions[@]}" DW.ref.__g{xx,cc}_personality_v0; do
  renamed+=("--keep-global-symbol=$function")
done
# Symbols that every C++ file may have (comdat) become local, because another sealed file has the same symbols.
ld -r --force-group-allocation object.o -o flat.o
objcopy "${renamed[@]}" flat.o "$sealed"
