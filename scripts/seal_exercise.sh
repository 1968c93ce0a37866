#!/usr/bin/env bash
# seal_exercise.sh cpu|gpu OBJECT SEALED: takes the object file of a student's functions and leaves
# them, and nothing else of it, visible to the grader that it is linked with. Exit status 1, with a
# sentence, if the object
# - calls what the exercise does not allow: nothing that allocates, waits, starts something, reads a
#   clock or a file. So what the function does is what the grader sees it do.
# - runs code before or after the grader's (constructors): answers worked out before the clock runs.
# - has variables of its own that a cache would not hold: passes over them would not be counted.
# Symbols of the same name as the grader's, malloc's or the clock's become the student's alone.
set -euo pipefail

kind=$1 object=$2 sealed=$3
STATIC_BYTES=16384

# Of the C library: <math.h>, <string.h>, what prints, assert(). Of compilers: what they call by
# themselves, sanitizers included.
MATH='(a?(sin|cos|tan)h?|atan2|exp(2|m1)?|log(2|10|1p|b)?|pow|sqrt|cbrt|hypot|erfc?|[lt]gamma|fabs|
  fma|fmod|fmax|fmin|fdim|floor|ceil|round|l?lround|trunc|rint|l?lrint|nearbyint|remainder|frexp|
  ldexp|modf|scalbl?n|copysign|nextafter)[fl]?'
STRING='mem(cpy|move|set|cmp)|str(len|cmp|ncmp)'
PRINT='f?printf|puts|putchar|fputs|fputc|fwrite|fflush|stdout|stderr|__assert_fail'
COMPILER='__(f?printf|memcpy|memset|memmove)_chk|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|
  __(a|ub|t)san_.*|__(mul|div|add|sub|fix|float|extend|trunc).*'
allowed="$MATH|$STRING|$PRINT|$COMPILER"
keep='exercise_forward exercise_softmax exercise_loss exercise_update'
if [ "$kind" = gpu ]; then
  # What nvcc makes of <<< >>> and of a kernel's registration, and what asks and changes nothing.
  allowed="$allowed|cudaLaunchKernel(ExC)?|__cuda(LaunchKernel|PushCallConfiguration|PopCallConfiguration|
    Register.*|UnregisterFatBinary|GetKernel|InitModule)|cuda(GetLastError|PeekAtLastError|
    FuncSetAttribute|OccupancyMaxActiveBlocksPerMultiprocessor|GetDevice|DeviceGetAttribute)|
    atexit|__cxa_atexit|__cxa_guard_.*|__dso_handle|__gxx_personality_v0|_Unwind_Resume"
  keep='launch_exercise_forward launch_exercise_softmax launch_exercise_loss launch_exercise_update
    DW.ref.__gxx_personality_v0' # which every file of C++ has, and the linker keeps one of
fi
allowed=$(tr -d ' \n' <<<"$allowed")

refuse() {
  echo "The exercise does not allow this: $1." >&2
  exit 1
}

foreign=$(nm --undefined-only --format=posix "$object" | cut -d' ' -f1 | grep -vxE "$allowed" |
  paste -sd' ' || true)
[ -z "$foreign" ] || refuse "it uses $foreign, and has only its arrays, <math.h>, <string.h> and
printf"

sections=$(objdump -h -w "$object")
if [ "$kind" = cpu ]; then
  if ! grep -q '__.*san_' <<<"$(nm --undefined-only "$object")" &&
    grep -qE '\.(preinit_array|init_array|fini_array|ctors|dtors)' <<<"$sections"; then
    refuse 'it has a constructor, which runs before anything is asked of it'
  fi
  total=0
  for hex in $(awk '$2 ~ /^\.t?(data|bss)(\.|$)/ && $2 !~ /^\.data\.rel\.ro/ {print $3}' <<<"$sections") \
    $(nm --format=posix "$object" | awk '$2 == "C" {print $4}'); do
    total=$((total + 16#$hex))
  done
  [ $total -le $STATIC_BYTES ] ||
    refuse "it has $total bytes of variables that outlive a call, and may have $STATIC_BYTES"
fi

flags=()
for symbol in $keep; do flags+=("--keep-global-symbol=$symbol"); done
objcopy "${flags[@]}" "$object" "$sealed"
