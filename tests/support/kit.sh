# shellcheck shell=bash disable=SC2034,SC2154 # kit.sh uses variables of scenario.sh, and sets variables for scenarios
# kit.sh FOLDER makes the student kit in build/FOLDER, for scenarios of the exercise. The next run reuses the files built
# there, except those built from what scenarios edit. If a compiler is missing, the scenario is skipped.
graded=$TOP/build/$1
kit=$graded/student-kit
handed_out=$TOP/kernels/exercise.cu answers=$TOP/docs/teaching/answers/exercise.cu second_answers=$TOP/docs/teaching/answers/transformer.cu

if ! command -v "${CXX:-g++}" >/dev/null || [ -z "$(command -v clang++ clang++-{14..22})" ]; then
  case_ 'the exercise'
  skip_ 'there is no C++ compiler, or no clang++'
  exit 0
fi

# makes ARGUMENT... runs make in the kit. Its output goes to the file out, its exit code to $status.
makes() {
  status=0
  env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s -C "$kit" -j2 CFLAGS=-O2 ON=emulator "$@" >out 2>&1 || status=$?
}

mkdir -p "$graded"
[ ! -d "$kit/build" ] || mv "$kit/build" "$graded/kept"
(cd "$TOP" && scripts/student_kit.sh "build/$1") >out
[ ! -d "$graded/kept" ] || mv "$graded/kept" "$kit/build"
rm -rf "$kit"/build/sealed_* "$kit/build/emulated/src/exercise/transformer.o"
