# The exercise as a class gets it: what a student hands in is sealed, judged apart and counted, points
# are written for autograders, and the kit for students builds, scores, and has no answers in it.
graded=$TOP/build/graded # not in this folder: what is built stays for the next time
kit=$graded/student-kit

if ! command -v "${CXX:-g++}" >/dev/null; then
  case_ 'the exercise'
  skip_ 'there is no C++ compiler'
  exit 0
fi

# makes ARGUMENT...: what make said is in out, how it ended in $status.
makes() {
  status=0
  env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s "$@" >out 2>&1 || status=$?
}

# The kit's objects are those of the last time, but for the student's.
mkdir -p "$graded"
[ ! -d "$kit/build" ] || mv "$kit/build" "$graded/kept"
(cd "$TOP" && scripts/student_kit.sh build/graded) >out
[ ! -d "$graded/kept" ] || mv "$graded/kept" "$kit/build"
rm -rf "$kit"/build/sealed_*

case_ 'the kit has no answers'
holds "$kit/kernels" activation.h batch.cuh class cuda_try.h exercise.cu gpu.h kernels.h unrolled.cuh
[ -z "$(find "$kit" -name '*answer*' -o -name 'fused*')" ]
if grep -rnE 'online\(|answers\.md|, seen\.largest' "$kit"; then die 'an answer'; fi
diff <(tar -tzf "$kit.tar.gz" | grep -v '/$' | sort) <(cd "$graded" && find student-kit -path '*/build' -prune -o -type f -print | sort)

# seals SOURCE: seals it, with what is said in out and how it ended in $status.
seals() {
  cp "$1" "$kit/kernels/exercise.cu"
  makes -C "$kit" ON=emulator build/sealed_emulator.o
}

# student BEFORE BODY: a student's file in which forward has this body.
student() {
  cat >student.cu <<END
#include "batch.cuh"
$1
__global__ void fill(float *d) { d[threadIdx.x] = 1; }
cudaError_t launch_exercise_forward(const float *d_x, const float *d_w, const float *d_b, float *d_z,
                                    float *d_y, int rows, int in, int out, int relu, cudaStream_t) {
  $2
  return launched();
}
END
}

case_ 'whatever else the file defines, nobody else calls it'
student '#include <math.h>
#include <stdio.h>
#include <string.h>
extern "C" int exercise_judge(void) { return 1; }
int scale = 3;' 'float x[4]; memset(x, 0, rows); printf("%g\n", scale * fabs(x[0])); fill<<<1, in>>>(d_y);'
seals student.cu
[ $status = 0 ] || die "$(cat out)"
nm --extern-only --defined-only --format=posix "$kit/build/sealed_emulator.o" | grep -vE 'DW.ref|emulator_has_front_end' >out
printed 1 ''
printed 1 '^launch_exercise_forward T '

case_ 'what the exercise does not allow is refused' # cheats 1 to 10, and more of the kind
while IFS='|' read -r text before body; do
  [ -z "${TEST_QUICK-}" ] || [[ $text != *MB* ]] || continue
  [ "$text" != 'uses modf' ] || compgen -c clang++ >/dev/null || continue # g++ works it out itself
  student "$(printf '%b' "$before")" "$body"
  seals student.cu
  [ $status = 2 ] || die "$text: exit code $status"
  grep -q "The exercise does not allow this: .*$text" out || die "$text: $(cat out)"
done <<'END'
it includes more than|#include "layer/softmax.cu"|
it includes more than|#include "../../../docs/teaching/answers/exercise.cu"|
it includes more than|#define IT <sys/ptrace.h>\n#include IT|
attribute|__attribute__((no_sanitize("thread"))) void unseen(float *d) { d[0] = 1; }|unseen(d_y);
attribute|[[gnu::no_sanitize("thread")]] void unseen(float *d) { d[0] = 1; }|unseen(d_y);
joined words|#define JOIN(a, b) a##b\nJOIN(as, m)("");|
assembly|void call() { as\\\nm("syscall"); }|call();
assembly|void call() { as\\ \r\nm("syscall"); }|call();
attribute|[\n[gnu::no_sanitize("thread")]] void unseen(float *d) { d[0] = 1; }|unseen(d_y);
names of the emulator|EMULATOR_JOIN(as, m)("");|
names of the emulator||emulated::atomically(d_y, [](float x) { return x; });
which the emulator does not know|__CONCAT(as, m)("");|
which the emulator does not know||__builtin_ia32_movnti((int *)8, 1);
which the emulator does not know|extern "C" void __cxa_guard_release(long long *);|__cxa_guard_release((long long *)8);
what is worked out|struct V { virtual void f(); };|((V *)d_y)->f();
what is worked out|void *where[5];|goto *where[rows];
uses modf|#include <math.h>|modf(1.0, (double *)8);
bytes of variables|static void *cache[100000] = {cache};|cache[3] = cache;
1000 MB of memory or 20 s|#define A x+x+x+x+x+x+x+x+x+x\n#define B A+A+A+A+A+A+A+A+A+A\n#define C B+B+B+B+B+B+B+B+B+B\n#define D C+C+C+C+C+C+C+C+C+C\n#define E D+D+D+D+D+D+D+D+D+D\n#define F E+E+E+E+E+E+E+E+E+E\n#define G F+F+F+F+F+F+F+F+F+F\nstatic int bomb(int x) { return G; }|
pragma|#pragma GCC optimize("O3")|
a directive that pretends|#line 1 "batch.cuh"|
attribute|extern "C" void *pick(); void known() __attribute__((ifunc("pick")));|known();
uses execv fopen fork longjmp malloc ptrace, |#include <stdio.h>\nextern "C" int fork(), execv(const char *, void *), ptrace(...);\nextern "C" void longjmp(void *, int);|fork(), execv("", d_y), ptrace(0), fopen("", ""), longjmp(malloc(in), 1);
it has a constructor|volatile int one = 1;\nint early = one + 1;|
which the emulator does not know|void *where[5];|__builtin_longjmp(where, 1);
200.. bytes of variables|float cache[5000];|cache[rows] = 1;
END

case_ 'what nvcc makes of our answers for a GPU is sealed, too'
nvcc=${NVCC:-$(command -v nvcc || true)}
if [ ! -x "$nvcc" ]; then
  skip_ 'nvcc is not installed'
else
  "$TOP/scripts/seal_exercise.sh" gpu "$TOP/docs/teaching/answers/exercise.cu" gpu.o \
    "$nvcc" -std=c++17 -O3 -arch=sm_90 -Xcompiler -fPIE
  nm --extern-only --defined-only --format=posix gpu.o | grep -vE 'DW.ref|emulator_has_front_end' >out
  printed 4 '^launch_exercise_[a-z]* T '
  printed 4 ''
fi

# add_up: of the lines of standard input, the first is the sum of the others.
add_up() { awk '{ rest += NR == 1 ? -$1 : $1 } END { exit rest > 1e-6 || rest < -1e-6 }'; }

# scores SOURCE: the kit's points for it, one line for each function, are in points.
scores() {
  cp "$1" "$kit/kernels/exercise.cu"
  makes -C "$kit" -j2 CFLAGS=-O2 ON=emulator SEED=5 GRADE=r.json exercise
  value all "$kit/r.plain.json" >points
  { value points "$kit/r.plain.json" | head -n 1 && cat points; } | add_up
  value score "$kit/r.json" | add_up
  [ "$(grep -cE '^      "(name|output)": ".*"' "$kit/r.json")" = 8 ]
  grep -q '"scorecard": "the emulator, without a GPU; measured on' "$kit/r.plain.json"
}

# What stands in kernels/exercise.cu may be a student's; the repository's is what is handed out.
handed_out=$TOP/kernels/exercise.cu
case_ 'what is handed out is right, is told what costs, and has no points'
if ! grep -q 'row_largest<<<' "$handed_out"; then
  skip_ 'kernels/exercise.cu is not as it is handed out'
else
  scores "$handed_out"
  [ $status = 2 ]
  printed 1 '^4 of 4 right, 0 of 4 fused$'
  printed 1 '^Hints for each function: make exercise HINT=1, '
  printed 1 '^1 forward +right +no +3 +1.22 +1.53 +1.53 +499 +16.5 '
  grep -A 4 '^1 is not fused' out | cut -d' ' -f1 | tr '\n' ' ' | grep -qx '1 2 3 4  '
  printed 2 '^kernels/exercise.cu:72: a load: 32.0 sectors for a request, of which it uses 128 of 1024 bytes$'
  [ "$(sort -u points)" = 0.0 ]
fi

case_ 'our answers have all points'
scores "$TOP/docs/teaching/answers/exercise.cu"
[ $status = 0 ]
printed 1 '^4 of 4 right, 4 of 4 fused$'
printed 0 '^Hints '
[ "$(sort -u points)" = 25.0 ] || die "$(cat out points)"
paste <(value moved_bytes "$kit/r.plain.json") <(value least_bytes "$kit/r.plain.json") |
  awk '$1 < $2 || $1 > 1.001 * $2 { exit 1 }'

case_ 'who pretends has what it deserves, and work left out where it is measured is found' # cheats 11 to 17
cat >cheats.cu <<'END'
#include <math.h>
#include <stdio.h>

#include "batch.cuh"

__global__ void endless(volatile float *d) {
  while (d[0] != 5.0f) d[0] = 3.0f;
}

__global__ void softmax(const float *z, float *p, int rows, int classes) {
  float largest = -INFINITY, sum = 0;
  const int r = blockIdx.x;
  for (int c = 0; c < classes; c++) largest = fmaxf(largest, z[r * classes + c]);
  for (int c = 0; c < classes; c++) sum += expf(z[r * classes + c] - largest);
  for (int c = 0; c < classes; c++) p[r * classes + c] = z[r * classes + c] - largest - logf(sum);
}

cudaError_t launch_exercise_forward(const float *d_x, const float *, const float *, float *, float *d_y,
                                    int, int, int, int, cudaStream_t) {
  for (int i = 0; i < 100000; i++) printf("4 of 4 right, 4 of 4 fused\n");
  d_y[0] = d_x[0]; /* on the host */
  return cudaSuccess;
}

cudaError_t launch_exercise_softmax(const float *d_z, float *, float *, float *d_p, int rows,
                                    int classes, cudaStream_t) {
  if (rows != 1024) softmax<<<rows, 1>>>(d_z, d_p, rows, classes);
  return launched();
}

cudaError_t launch_exercise_loss(BatchView, const float *, float *, float *, float *, float *d_dz,
                                 int, RowResults, cudaStream_t) {
  endless<<<1, 1>>>(d_dz);
  return launched();
}

static volatile float kept[4]; /* what it has worked out once */

cudaError_t launch_exercise_update(BatchView, UpdateRule, LayerUpdate layer, float *, float *,
                                   cudaStream_t) {
  const volatile char *memory = (const volatile char *)kept; /* which may have what is expected */
  float found = 0;
  for (int i = 64; i < 70; i++) found += memory[i];
  kept[layer.in % 4] = found;
  return cudaSuccess;
}
END
MLP_TEST_LIMIT=3 scores cheats.cu
[ $status = 2 ]
printed 1 '^0 of 4 right, 0 of 4 fused$'
[ "$(wc -c <out)" -lt 9000 ]
printed 0 '^4 of 4 right'
printed 1 '^1 is wrong: kernels/exercise.cu:21: the host reads x\[0\], memory of the device$'
printed 1 '^2 is wrong: p \(row 0, column 0\): .*never written; rows 1024, in 1, out 1000; as it was measured$'
printed 1 '^3 is wrong: it had not returned after 3 s'
printed 1 '^4 is wrong: kernels/exercise.cu:[0-9]*: the host reads memory that is not its own'
[ "$(sort -u points)" = 0.0 ]
cp "$handed_out" "$kit/kernels/"

case_ 'one function alone, on one shape, prints once and has no points'
student '#include <stdio.h>
__global__ void says(float *d) { printf("%d\n", (int)threadIdx.x); d[threadIdx.x] = 1; }' 'says<<<1, 2>>>(d_y);'
cat >>student.cu <<'END'
cudaError_t launch_exercise_softmax(const float *, float *, float *, float *, int, int, cudaStream_t) { return cudaSuccess; }
cudaError_t launch_exercise_loss(BatchView, const float *, float *, float *, float *, float *, int, RowResults,
                                 cudaStream_t) { return cudaSuccess; }
cudaError_t launch_exercise_update(BatchView, UpdateRule, LayerUpdate, float *, float *, cudaStream_t) { return cudaSuccess; }
END
cp student.cu "$kit/kernels/exercise.cu"
makes -C "$kit" -j2 CFLAGS=-O2 ON=emulator ONLY=1 SHAPE=2x3x5 exercise
[ "$(head -n 3 out)" = "$(printf '| rows 2, in 3, out 5:\n| 0\n| 1')" ] || die "$(cat out)"
printed 1 '^1 is wrong: y \(row 0, column 0\): expected .*; 10 of 10 are wrong'
printed 1 '^0 of 1 right, 0 of 1 fused$'
cp "$handed_out" "$kit/kernels/"

case_ 'the warm-ups are wrong or wasteful as they are handed out, and can be repaired'
makes -C "$kit" -j2 CFLAGS=-O2 ON=emulator warmup
printed 1 '^1 is wrong: kernels/class/warmup.cu:22: block 0, thread 1 reads z\[1\], and z has elements 0 to 0$'
printed 1 '^2 is wrong: y '
printed 1 '^3 is wrong: kernels/class/warmup.cu:50: .*there is no __syncthreads\(\) between'
printed 1 '^4 is wrong: kernels/class/warmup.cu:67: .*there is no .*__syncthreads\(\) between'
printed 1 '^5 is right, and asks for more bytes than it needs$'
sed -i -e 's/^  d_y.i. = fmaxf/  if (i < count) d_y[i] = fmaxf/' -e 's/int r = blockIdx.x . SIDE + threadIdx.x, c = .*/int c = blockIdx.x * SIDE + threadIdx.x, r = blockIdx.y * SIDE + threadIdx.y;/' \
  -e 's/r < columns && c < rows/r < rows \&\& c < columns/' -e 's/r . rows + c/r * columns + c/g' \
  -e 's/piece.t. = z.first + t.;/& __syncthreads();/' -e 's/  part.t. = mine;/& __syncthreads();/' \
  -e 's/    if (t < half).*/{ & __syncthreads(); }/' -e '/void copy/,/^}/{/if (r >= rows)/d;s/int c = 0; c < columns; c++/size_t i = r; i < (size_t)rows * columns; i += gridDim.x * THREADS/;s/(size_t)r . columns + c/i/g}' \
  "$kit/kernels/class/warmup.cu"
makes -C "$kit" -j2 CFLAGS=-O2 ON=emulator warmup
printed 1 '^5 of 5 right, 5 of 5 fused$' || die "$(cat out)"

case_ 'a class is graded at once: what is not there, and what is none'
mkdir -p class/anna class/ben class/cleo.d
echo 'int x = ;' >'class/ben/my answer.cu'
printf '%s\n' '#include "batch.cuh"' 'void f() { fork(); }' >class/dora.cu
makes -C "$kit" ON=emulator CFLAGS=-O2 grade-all FROM="$PWD/class" CSV="$PWD/graded.csv"
[ "$(cut -d, -f1-6 graded.csv | sort | tr '\n' ' ')" = '"anna",0,0,0,0,0 "ben",0,0,0,0,0 "cleo.d",0,0,0,0,0 "dora",0,0,0,0,0 name,points,forward,softmax,loss,update ' ] || die "$(cat graded.csv out)"
grep -q '^"anna".*"nothing was handed in"' graded.csv
grep -q '^kernels/exercise.cu:1:9: error' graded/ben.txt || die "$(cat graded/ben.txt)"

ln -s "$kit/build/mlp-exercise-emulator" mlp-exercise
export MLP=$PWD/mlp-exercise

case_ 'wrong usage is named'
prints 1 '^Usage: mlp-exercise ' --help
printed 0 '^.{81}'
refusals 2 <<'END'
unknown option '--cpu'|--cpu
unexpected argument 'stray'|stray
--seed needs an argument|--seed
--seed must be a whole number from 0 to 9223372036854775808, not '3x'|--seed 3x
--seed must be a whole number from 0 to 9223372036854775808, not '9|--seed 99999999999999999999
 are the same file|--grade same.json --grade-plain ./same.json
END
refuses 2 "--seed must be a whole number from 0 to 9223372036854775808, not ''" --seed ''

case_ 'a scorecard that nobody can read is a failure'
status=0
MLP_TEST_LIMIT=1 "$MLP" >/dev/full 2>err || status=$?
[ $status = 1 ]
said 'cannot write to standard output: No space left on device'
