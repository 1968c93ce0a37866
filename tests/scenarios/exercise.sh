# Tests the exercise as a class uses it. A student's file is sealed (it cannot reach the judge), runs
# in a process of its own, and gets points in a form for autograders. The student kit can be built,
# scores the functions, and contains no answers.
. "$TOP/tests/support/kit.sh" graded

case_ 'the kit has no answers'
holds "$kit/kernels" activation.h batch.cuh class cuda_try.h exercise.cu gpu.h kernels.h unrolled.cuh
[ -z "$(find "$kit" -name '*answer*' -o -name 'fused*')" ]
if grep -rnE --exclude-dir=build 'online\(|answers\.md|, seen\.largest' "$kit"; then die 'an answer'; fi
diff <(tar -tzf "$kit.tar.gz" | grep -v '/$' | sort) <(cd "$graded" && find student-kit -path '*/build' -prune -o -type f -print | sort)

# seals SOURCE builds the kit's sealed object of SOURCE. Output goes to the file out, the exit code to $status.
seals() {
  cp "$1" "$kit/kernels/exercise.cu"
  makes build/sealed_exercise_emulator.o
}

# student BEFORE BODY writes student.cu: the lines BEFORE, then launch_exercise_forward with body BODY. The other functions
# do nothing.
student() {
  cat >student.cu <<END
#include "batch.cuh"
$1
__global__ void fill(float *d) { d[threadIdx.x] = 1; }
cudaError_t launch_exercise_forward(const float *d_x, const float *d_w, const float *d_b, float *d_z,
                                    float *d_y, int rows, int in, int out, int relu, cudaStream_t stream) {
  $2
  return launched();
}
cudaError_t launch_exercise_softmax(const float *, float *, float *, float *, int, int, cudaStream_t) { return cudaSuccess; }
cudaError_t launch_exercise_loss(BatchView, const float *, float *, float *, float *, float *, int, RowResults,
                                 cudaStream_t) { return cudaSuccess; }
cudaError_t launch_exercise_update(BatchView, UpdateRule, LayerUpdate, float *, float *, cudaStream_t) { return cudaSuccess; }
END
}

case_ 'whatever else the file defines, nobody else calls it'
student '#include <math.h>
#include <stdio.h>
#include <string.h>
extern "C" int exercise_judge(void) { return 1; }
int scale = 3;' 'float x[4]; memset(x, 0, rows); printf("%g\n", scale * fabs(x[0])); fill<<<1, in, 0, stream>>>(d_y);'
seals student.cu
[ $status = 0 ] || die "$(cat out)"
nm --extern-only --defined-only --format=posix "$kit/build/sealed_exercise_emulator.o" | grep -v DW.ref >out
printed 4 ''
printed 4 '^launch_exercise_(forward|softmax|loss|update) T '
sed -i '1i #define pdl_wait() is not C' student.cu # k02: the file's macros cannot change our headers
seals student.cu
[ $status = 0 ] || die "$(cat out)"

case_ 'what the exercise does not allow is refused' # the names of cases come from a trial
row=0
while IFS='|' read -r name text before body; do
  [ -z "${TEST_QUICK-}" ] || { [ "$name" != bomb ] && ((++row % 3 == 1)); } || continue # tries a third of the cases
  student "$(printf '%b' "$before")" "$body"
  seals student.cu
  [ $status = 2 ] || die "$name: exit code $status"
  grep -q "The exercise does not allow this: .*$text" out || grep -q "error: .*$text" out || die "$name: $(cat out)"
  case $name in bomb | early | cache | c11_datarel | big | missing) ;; *) grep -q '^kernels/exercise.cu:[0-9]*:' out || die "$name has no line: $(cat out)" ;; esac
done <<'END'
ours|it includes more than|#include "../../../docs/teaching/answers/exercise.cu"|
header|it includes more than|#define IT <sys/ptrace.h>\n#include IT|
attribute|attribute|__attribute__((no_sanitize("thread"))) void unseen(float *d) { d[0] = 1; }|unseen(d_y);
c3_attr_newline|attribute|[\n[gnu::no_sanitize("thread")]] void unseen(float *d) { d[0] = 1; }|unseen(d_y);
join|joined words|#define JOIN(a, b) a##b\nJOIN(as, m)("");|
c2_splice|assembly|void call() { as\\\nm("syscall"); }|call();
c10_crlf|assembly|void call() { as\\ \r\nm("syscall"); }|call();
c1_join|names of the emulator|EMULATOR_JOIN(as, m)("");|
c13_join_attr|names of the emulator|EMULATOR_JOIN(__at, tribute__)((no_sanitize("thread"))) void unseen(float *d) { d[0] = 1; }|
c4_atomically|names of the emulator||emulated::atomically(d_y, [](float x) { return x; });
concat|which the emulator does not know|__CONCAT(as, m)("");|
c5_ia32|which the emulator does not know||__builtin_ia32_movnti((int *)8, 1);
c8_guard|which the emulator does not know|extern "C" void __cxa_guard_release(long long *);|__cxa_guard_release((long long *)8);
virtual|what is worked out|struct V { virtual void f(); };|((V *)d_y)->f();
goto|indirect goto in function with no|void *where[5];|goto *where[rows];
label|address-of-label extension||void *where = &&here; here: (void)where;
apply|what is worked out||std::apply([] {}, std::tuple<>());
applied|what is worked out|using namespace std;|apply([] {}, {});
raw|a raw string|const char *raw = R"(")"; void call() { asm(""); } const char *end = "";|
bom|it includes more than|\n\xc2\xa0#include "../../../docs/teaching/answers/exercise.cu"|
missing|lacks launch_exercise_loss, |#define launch_exercise_loss launch_exercise_lost|
k04_other_code|uses __CUDA__|#ifdef __CUDA__\n#endif|
counter|uses __COUNTER__|int x = __COUNTER__;|
big|gives more than 64 MB|extern const char big[600u << 20]; const char big[600u << 20] = {1};|
c7_modf|uses modf|#include <math.h>|modf(1.0, (double *)8);
c11_datarel|bytes of variables|static void *cache[100000] = {cache};|cache[3] = cache;
bomb|1000 MB of memory or 20 s|#define A x+x+x+x+x+x+x+x+x+x\n#define B A+A+A+A+A+A+A+A+A+A\n#define C B+B+B+B+B+B+B+B+B+B\n#define D C+C+C+C+C+C+C+C+C+C\n#define E D+D+D+D+D+D+D+D+D+D\n#define F E+E+E+E+E+E+E+E+E+E\n#define G F+F+F+F+F+F+F+F+F+F\nstatic int bomb(int x) { return G; }|
pragma|pragma|#pragma GCC optimize("O3")|
line|a directive that pretends|#line 1 "batch.cuh"|
calls|uses execv fopen fork longjmp malloc ptrace, |#include <stdio.h>\nextern "C" int fork(), execv(const char *, void *), ptrace(...);\nextern "C" void longjmp(void *, int);|fork(), execv("", d_y), ptrace(0), fopen("", ""), longjmp(malloc(in), 1);
early|it has a constructor|volatile int one = 1;\nint early = one + 1;|
cache|200.. bytes of variables|float cache[5000];|cache[rows] = 1;
END

case_ 'what nvcc makes of our answers for a GPU is sealed, too'
nvcc=${NVCC:-$(command -v nvcc || true)}
if [ ! -x "$nvcc" ]; then
  skip_ 'nvcc is not installed'
else
  "$TOP/scripts/seal_exercise.sh" exercise gpu "$answers" gpu.o \
    "$nvcc" -std=c++17 -O3 -arch=sm_90 -Xcompiler -fPIE
  nm --extern-only --defined-only --format=posix gpu.o | grep -v DW.ref >out
  printed 4 '^launch_exercise_[a-z]* T '
  printed 4 ''
fi

scored=kernels/exercise.cu # the file that scores() replaces
# add_up succeeds if the first line of standard input is the sum of the other lines.
add_up() { awk '{ rest += NR == 1 ? -$1 : $1 } END { exit rest > 1e-6 || rest < -1e-6 }'; }

# scores SOURCE [SEED [ARGUMENT...]] lets the kit score the file SOURCE. Writes a file named points: line 1 has the sum of
# the points, each later line the points of one function. Arguments are make's.
scores() {
  cp "$1" "$kit/$scored"
  makes SEED="${2-5}" GRADE=r.json exercise "${@:3}"
  value score "$kit/r.json" >points
  add_up <points
  [ "$(grep -cE '^      "(name|output)": ".*"' "$kit/r.json")" = 8 ]
  grep -q '"output": "the emulator as an H100, without a GPU; measured on' "$kit/r.json"
}

# This case is skipped if kernels/exercise.cu holds a student's work, as in a student's checkout.
case_ 'what is handed out is right, is told what costs, and has no points'
if ! grep -q 'row_largest<<<' "$handed_out"; then
  skip_ 'kernels/exercise.cu is not as it is handed out'
else
  scores "$handed_out"
  [ $status = 0 ] # what is right and not fused is no error of make
  printed 1 '^4 of 4 right, 0 of 4 fused$'
  printed 1 '^Hints for each function: make exercise HINT=1, then HINT=2 and so on.$'
  printed 1 '^1 forward +right +no +3 +1.22 +1.53 +499 +16.5 '
  grep -A 4 '^1 is not fused' out | cut -d' ' -f1 | tr '\n' ' ' | grep -qx '1 2 3 4  '
  printed 1 '^3 is not fused: it launches 5 kernels; to begin: make exercise ONLY=3 HINT=1$'
  printed 7 "^    a warp's words .#. in its sectors .*: .#[.]{7}. x 32; if lanes were neighbours: .#{8}. x 4$"
  printed 2 '^kernels/exercise.cu:71: a load: 32.0 sectors for a request, of which it uses 128 of 1024 bytes$'
  [ "$(sort -u points)" = 0.0 ]
fi

case_ 'our answers have all points'
scores "$answers"
[ $status = 0 ]
printed 1 '^4 of 4 right, 4 of 4 fused$'
printed 0 '^Hints '
[ "$(paste -sd' ' points)" = '100.0 25.0 25.0 25.0 25.0' ] || die "$(cat out points)"
paste <(value moved_bytes "$kit/r.json") <(value least_bytes "$kit/r.json") |
  awk '$1 < $2 || $1 > 1.001 * $2 { exit 1 }'

if [ -z "${TEST_QUICK-}" ]; then # the next case has points of single functions, too
  case_ 'one function alone that is fused has its own points' # case only2 of the trial
  {
    sed '/^cudaError_t launch_exercise_softmax/,/^}/d' "$handed_out"
    echo 'namespace { constexpr int ROWS_OF_BLOCK = THREADS / 32;'
    sed -n '/^struct Seen/,/^__global__ void loss/p' "$answers" | sed '$d'
    echo '}'
    sed -n '/^cudaError_t launch_exercise_softmax/,/^}/p' "$answers"
  } >only2.cu
  scores only2.cu
  [ "$(paste -sd' ' points)" = '25.0 0.0 25.0 0.0 0.0' ] || die "$(cat out points)"
fi

case_ 'one launch alone is no fusion: pasted kernels and a single thread have points for being right' # k05 and k07 of a trial
{
  sed '/^cudaError_t launch_exercise_softmax/,$d;s/cudaError_t launch_exercise_forward/cudaError_t unused/' "$answers"
  sed -n '/^cudaError_t launch_exercise_update/,$p' "$answers"
  cat <<'END'
__global__ void pasted(const float *d_x, const float *d_w, const float *d_b, float *d_z, float *d_y, int rows, int in, int out, int relu) {
  const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (i >= (size_t)rows * out) return;
  float sum = 0.0f;
  for (int k = 0; k < in; k++) sum += d_x[i / out * in + k] * d_w[i % out * in + k];
  d_z[i] = sum;
  d_z[i] += d_b[i % out];
  d_y[i] = relu ? activate(d_z[i]) : d_z[i];
}
__global__ void serial(const float *d_z, float *d_p, int rows, int classes) {
  for (const float *z = d_z; z < d_z + (size_t)rows * classes; z += classes) {
    const Seen seen = {z[0], 1.0f, 0};
    Seen all = seen;
    for (int c = 1; c < classes; c++) all = merge(all, {z[c], 1.0f, c});
    for (int c = 0; c < classes; c++) d_p[z - d_z + c] = (z[c] - all.largest) - logf(all.sum);
  }
}
cudaError_t launch_exercise_forward(const float *d_x, const float *d_w, const float *d_b, float *d_z, float *d_y,
                                    int rows, int in, int out, int relu, cudaStream_t stream) {
  pasted<<<blocks_for((size_t)rows * out, THREADS), THREADS, 0, stream>>>(d_x, d_w, d_b, d_z, d_y, rows, in, out, relu);
  return launched();
}
cudaError_t launch_exercise_softmax(const float *d_z, float *, float *, float *d_p, int rows, int classes, cudaStream_t stream) {
  serial<<<1, 1, 0, stream>>>(d_z, d_p, rows, classes);
  return launched();
}
END
  sed -n '/^cudaError_t launch_exercise_loss/,/^}/p' "$answers"
} >alone.cu
scores alone.cu
[ "$(paste -sd' ' points)" = '70.0 10.0 10.0 25.0 25.0' ] || die "$(cat out points)"
printed 1 '^1 is not fused: its kernel moves 1.13 times the least bytes, so values still go through memory$'
printed 1 '^2 is not fused: on average only 1 of its threads are at work at a time$'

case_ 'one function alone, on one shape, prints once, 4 KB at most that no terminal obeys, and has no points' # cases d06, ansi of the trial
student '#include <stdio.h>
__global__ void says(float *d) {
  for (int i = 0; i < 5000; i++) printf("\033[2J1 of 1 right, %d\n", i);
  d[threadIdx.x] = 1;
}' 'says<<<1, 2, 0, stream>>>(d_y);'
cp student.cu "$kit/kernels/exercise.cu"
makes ONLY=1 SHAPE=2x3x5 exercise
[ "$(head -n 3 out)" = "$(printf '| rows 2, in 3, out 5:\n| ?[2J1 of 1 right, 0\n| ?[2J1 of 1 right, 1')" ] || die "$(cat out)"
[ "$(wc -c <out)" -lt 9000 ]
printed 0 '^1 of 1 right'
printed 1 '^1 is wrong: y \(row 0, column 0\): expected .*; 10 of 10 wrong'
printed 1 '^0 of 1 right, 0 of 1 fused$'
cp "$handed_out" "$kit/kernels/"

case_ 'HINT prints the hints of ONLY, and says how many there are'
if grep -q 'row_largest<<<' "$handed_out"; then
  makes ONLY=2 SHAPE=2x3 HINT=4 exercise
  printed 1 '^2:    HINT   \(z - m\) - log\(s\) is right .*Why[?]$' # without the end of the comment
  printed 1 '^[1-4]: '
  makes ONLY=3 SHAPE=2x3 HINT=4 exercise
  printed 1 '^3: has 3 hints$'
else
  skip_ 'kernels/exercise.cu is not as it is handed out'
fi

case_ 'a loop without end has its line, on every machine after the same number of steps'
student '__global__ void waits(float *d) { d[threadIdx.x] = 1;
  for (int i = 0; i >= 0; i = (i + 1) % 7) {
    if (d[threadIdx.x] == 2) return;
  }
}
__global__ void slow() { for (volatile int i = 0; i < 100000; i = i + 1) continue; }' 'waits<<<1, 32, 0, stream>>>(d_y);'
cp student.cu "$kit/kernels/exercise.cu"
line=$(grep -n 'd.threadIdx.x. == 2' student.cu | cut -d: -f1)
makes ONLY=1 SHAPE=32x3x5 exercise
printed 1 "^1 is wrong: kernels/exercise.cu:($((line - 1))|$line|$((line + 1))): block 0, thread [0-9]+ had not returned after 100 million steps of its block"
sed -i 's/waits<<<1, 32, 0, stream>>>(d_y);/slow<<<1000000, 32, 0, stream>>>();/' "$kit/kernels/exercise.cu"
MLP_TEST_LIMIT=1 makes ONLY=1 SHAPE=32x3x5 exercise
printed 1 '^1 is wrong: kernels/exercise.cu:[0-9]+: block [0-9]+, thread [0-9]+ had not returned when the CPU time was used up$'
sed -i 's/slow<<<1000000, 32, 0, stream>>>();/for (volatile int i = 0; rows; i = i + 1) if (i < 0) i = 0;/' "$kit/kernels/exercise.cu"
makes ONLY=1 SHAPE=32x3x5 exercise
printed 1 '^1 is wrong: kernels/exercise.cu:[0-9]+: the host had not returned after 100 million steps$'
cp "$handed_out" "$kit/kernels/"

case_ 'every warm-up is wrong or wasteful as it is handed out, and the answers repair it'
if ! grep -q 'i += THREADS' "$kit/kernels/class/warmup.cu" || ! command -v patch >/dev/null; then
  skip_ 'kernels/class/warmup.cu is not as it is handed out, or patch is not installed'
else
  makes warmup
  row=0
  while IFS='|' read -r source said; do # a piece of the line that is named, and what is said about it
    line=$(grep -nF -- "$source" "$kit/kernels/class/warmup.cu" | head -n 1 | cut -d: -f1)
    printed 1 "^$((++row)) is ${said//LINE/kernels/class/warmup.cu:$line:}"
  done <<'END'
  d_y[i] = fmaxf|wrong: LINE block 0, thread 1 reads z\[1\], and z has elements 0 to 0$
d_z[r * rows + c]|wrong: y \(row 0, column 1\)
piece[t] = z|wrong: LINE .* writes piece.*there is no __syncthreads\(\) between
part[t] = mine|wrong: LINE .* writes part.*there is no .*__syncthreads\(\) between
d_z[(size_t)r * columns + c];|right, but it asks for 8.0 times the bytes that it needs$
scale * d_z[i]|wrong: LINE block 1, thread 0 reads y.256.*; block 0, .*nothing orders blocks of a launch
= z[c];|wrong: LINE .* reads z\[1\], and z has elements 0 to 0$
tile[t + 2]) / 3.0f|wrong: LINE .* reads tile.* writes it at .*there is no .*__syncthreads\(\) between
    __syncthreads();|wrong: kernels/class/warmup.cu:[0-9]+: in block 0, 32 threads wait at __syncthreads, and 224 have returned without it
tile[y][x + half]|wrong: LINE .* reads tile\[[0-9]+\], shared memory that no thread of the block has written
tile[WARP][WARP]|right, but its requests to shared memory take 16.3 times the turns that they need: bank conflicts$
if (lane < half) mine +=|wrong: LINE .* gets the value of lane 16, which is not there
d_w[r * columns + c]|wrong: LINE .*; the arrays of this call have more than 2\^31 elements, so an index needs size_t$
bins[d_keys[i]]++|wrong: LINE .* reads bins.* writes it at .*there is no .*__syncthreads\(\) between
part[t] += part[t - step]|wrong: LINE .* reads part.* writes it at .*there is no .*__syncthreads\(\) between
END
  printed 1 '^2 of 15 right, 0 of 15 fused$'
  patch -s -p1 -d "$kit" <"$TOP/docs/teaching/answers/warmup.diff"
  makes warmup
  printed 1 '^15 of 15 right, 15 of 15 fused$' || die "$(cat out)"
  printed 1 '^5 copy +right +yes +1 +0.51 +0.51 +0.51 +4.00 '
  printed 1 '^11 transpose +right +yes +1 +0.51 +0.51 +0.51 +3.95 +1.00 '
  cp "$TOP/kernels/class/warmup.cu" "$kit/old.cu"
  touch -d 2000-01-01 "$kit/old.cu" # another file is scored, even one that is older than what was built
  makes ONLY=1 SHAPE=2x3 WARMUP=old.cu warmup
  printed 1 '^0 of 1 right, 0 of 1 fused$'
  echo 'int x = ;' >"$kit/kernels/exercise.cu" # has nothing to do with the warm-ups
  makes warmup
  printed 1 '^15 of 15 right, 15 of 15 fused$' || die "$(cat out)"
  cp "$handed_out" "$kit/kernels/"
fi

scored=kernels/class/transformer.cu second=(5 SET=transformer)
case_ 'the second set: what is handed out is right, has no points, and begins with its own hints'
if [ "$(grep -c '<<<' "$TOP/$scored")" != 13 ]; then
  skip_ "$scored is not as it is handed out"
else
  scores "$TOP/$scored" "${second[@]}"
  [ $status = 0 ] || die "$(cat out)"
  printed 1 '^4 of 4 right, 0 of 4 fused$'
  printed 1 '^3 residual +right +no +4 +1.03 +1.80 '
  printed 1 '^2 is not fused: it launches 3 kernels; to begin: make exercise SET=transformer ONLY=2 HINT=1$'
  [ "$(sort -u points)" = 0.0 ] || die "$(cat points)"
  makes SET=transformer ONLY=4 SHAPE=2x3 HINT=1 exercise
  printed 1 '^4:    HINT   Every weight has one owner'
fi

case_ 'the second set: our answers have all points, at three seeds'
scores "$second_answers" "${second[@]}"
for seed in 6 7 8; do
  [ "$(paste -sd' ' points)" = '100.0 25.0 25.0 25.0 25.0' ] || die "$(cat out points)"
  "$kit/build/mlp-transformer-emulator" --seed $seed --grade "$kit/r.json" >out
  printed 1 '^4 of 4 right, 4 of 4 fused$'
  value score "$kit/r.json" >points
done

case_ 'the second set: a variance of E[x^2] - E[x]^2, a gelu by tanh and an epsilon under the root are wrong'
sed -e 's/count == 0.0f. return a;/count == 0.0f) return b;/' \
  -e 's/^  const float apart = .*/  const float squares = a.squares + a.mean * a.mean * a.count + b.squares + b.mean * b.mean * b.count;/' \
  -e 's/^  return {count, a.mean + .*/  const float mean = (a.mean * a.count + b.mean * b.count) \/ count; return {count, mean, fmaxf(squares - mean * mean * count, 0.0f)};/' \
  -e 's/erff(z . 0.70710678f)/tanhf(0.79788456f * (z + 0.044715f * z * z * z))/' \
  -e 's/sqrtf(v . left2) + eps/sqrtf(v \/ left2 + eps)/' "$second_answers" >mistaken.cu
scores mistaken.cu "${second[@]}"
printed 1 '^1 is wrong: y .row [0-9]+, column [0-9]+.: expected '
printed 1 '^2 is wrong: y .row [0-9]+, column [0-9]+.: expected .* got .* wrong, in rows '
printed 1 '^3 is wrong: y .row [0-9]+, column [0-9]+.: expected .* got .* wrong, in rows '
printed 1 '^4 is wrong: w .row [0-9]+, column [0-9]+.: expected '
[ "$(sort -u points)" = 0.0 ] || die "$(cat points)"

case_ 'a VARIANT changes all four functions: what is handed out is right, and our answers are wrong'
(cd "$TOP" && scripts/student_kit.sh build/graded/variant autumn) >out
header=kernels/class/transformer.h
diff "$kit/$header" "$graded/variant/student-kit/$header" >out || true
printed 5 '^> #define [A-Z_]+ [0-9.]+f$'
cp "$graded/variant/student-kit/$header" "$kit/$header"
rm -rf "$graded/variant"
scores "$TOP/$scored" "${second[@]}"
printed 1 '^4 of 4 right, 0 of 4 fused$'
scores "$second_answers" "${second[@]}"
printed 1 '^0 of 4 right, 0 of 4 fused$'
[ "$(sort -u points)" = 0.0 ] || die "$(cat points)"
cp "$TOP/$header" "$kit/$header"

if [ -z "${TEST_QUICK-}" ]; then
  case_ 'a kernel that reads z again, which it wrote, is not fused'
  sed '/void residual/,/^}/{/^  const float scale/,/^}/s/const float z = .*/const float z = d_z[first + c];/}' "$second_answers" >again.cu
  scores again.cu "${second[@]}"
  printed 1 '^3 is not fused: its kernel moves 1.25 times the least bytes, so values still go through memory$'
  [ "$(paste -sd' ' points)" = '85.0 25.0 25.0 10.0 25.0' ] || die "$(cat out points)"

  case_ 'the recipe for a task of the teacher: RMSNorm is handed out right, and our answers are wrong'
  cp "$TOP/$scored" "$kit/$scored"
  sed -n '/^### A task of your own/,/^## /s/^    \(sed .*\)/\1/p' "$TOP/docs/teaching/grading.md" >recipe
  [ "$(wc -l <recipe)" = 2 ]
  (cd "$kit" && bash -e "$OLDPWD/recipe")
  cp "$kit/$scored" rms.cu
  scores rms.cu "${second[@]}"
  printed 1 '^4 of 4 right, 0 of 4 fused$'
  scores "$second_answers" "${second[@]}"
  printed 1 '^2 of 4 right, 2 of 4 fused$'
  printed 1 '^2 is wrong: y '
  cp "$TOP/src/exercise/transformer.c" "$kit/src/exercise/"
  cp "$TOP/$scored" "$kit/$scored"
fi

case_ 'the second set is graded: a file, a kit in which it was edited, and a file of the first set'
mkdir -p second/clone/kernels/class
cp "$second_answers" second/anna.cu
cp "$second_answers" second/clone/kernels/class/transformer.cu
echo 'int x = ;' | tee second/clone/kernels/exercise.cu second/clone/kernels/class/warmup.cu second/exercise.cu >second/ben.cu
makes grade-all SET=transformer SEED=5 FROM="$PWD/second" CSV="$PWD/seconds.csv"
[ $status = 0 ] || die "$(cat out)"
diff - seconds.csv <<'END' || die 'other points'
name,points,gelu,norm,residual,adam,what is wrong
"anna",100.0,25.0,25.0,25.0,25.0,""
"ben",0,0,0,0,0,"kernels/class/transformer.cu:1:9: error: expected expression"
"clone",100.0,25.0,25.0,25.0,25.0,""
"exercise",0,0,0,0,0,"is skipped, because it is not of SET=transformer"
END
grep -q '^Graded is kernels/class/transformer.cu; skipped kernels/class/warmup.cu, the warm-up; skipped kernels/exercise.cu, which is not of SET=transformer.$' \
  seconds/clone.txt || die "$(cat seconds/clone.txt)"
makes exercise SET=scan
[ $status = 2 ]
printed 1 'SET=scan: the sets are exercise and transformer; for the warm-ups: make warmup'

case_ 'a wrong value of a variable is named, and a name may have spaces and quotes'
while IFS='|' read -r words says; do
  makes ON=emulator exercise ONLY=2 SHAPE=2x3 "$words"
  [ $status = 2 ] || die "$words: exit code $status"
  grep -qF -e "$says" out || die "$words: $(cat out)"
done <<'END'
SUBMISSION=absent.cu|SUBMISSION=absent.cu: there is no such file
SUBMISSION=my file.cu|SUBMISSION=my file.cu: the name must have no spaces
WARMUP=absent.cu|WARMUP=absent.cu: there is no such file
HINT=0|HINT=0: the hints have numbers from 1
HINT=it's|HINT=it's: the hints have numbers from 1
ONLY=1 2|--only must be a whole number from 0 to 99, not '1 2'
SHAPE=5 x7|--shape must be ROWSxINxOUT or ROWSxCLASSES, as 5x7x3, not '5 x7'
END
makes ON=emulator exercise SEED=5 GRADE="$PWD/it's the second.json"
[ -s "it's the second.json" ] || die "$(cat out)"
(cd "$TOP" && make -s SETUP=0 BUILD=build/graded/variant VARIANT="teacher's autumn" student-kit) >out 2>&1 || die "$(cat out)"
if cmp -s "$TOP/$header" "$graded/variant/student-kit/$header"; then die 'the constants are ours'; fi
rm -rf "$graded/variant"

scored=kernels/exercise.cu

case_ 'a class is graded at once: every entry is a row, with its name and why it was not graded'
# To score our answers takes seconds. With TEST_QUICK, only eve has them; the clone and the archive have a mistake.
wrong='int x = ;'
echo "$wrong" >hopeless.cu
good=$answers good_points=100.0 good_words='"'
[ -z "${TEST_QUICK-}" ] || good=$PWD/hopeless.cu good_points=0 good_words='kernels/exercise.cu:1:9: error'
mkdir -p class/anna class/ben class/__MACOSX class/linked class/moodle class/two/{a,b} class/clone/kernels/class class/clone/backup
row=0
while IFS='|' read -r name _; do # entries that are compiled, each with another line of the mistake
  row=$((row + 1))
  { seq $row | sed 's/.*//'; echo "$wrong"; } >"class/$name.cu"
done <<'END'
王伟
王芳
李娜
Иван
Jörg
Jürg
-rf
=1+2
Mary "Ann", x
END
echo "$wrong" >'class/ben/my answer.cu'
echo "$wrong" >class/browser.cu.txt
echo "$wrong" >class/UPPER.CU
echo "$wrong" >class/twice.cu
printf '%s\n' '#include "batch.cuh"' 'void f() { fork(); }' >class/dora.cu
cp "$answers" class/eve.cu
cp "$good" class/clone/kernels/exercise.cu
echo "$wrong" | tee class/clone/{exercise_old.cu,kernels/exercise.cu~,kernels/class/warmup.cu,backup/exercise.cu} class/two/{a,b}/exercise.cu \
  >class/._eve.cu
ln -s ../eve.cu class/linked/exercise.cu
ln -s eve.cu class/link.cu
echo notes >class/notes.pdf
unpacks=
if command -v bsdtar >/dev/null; then unpacks=1; fi
bomb() { head -c $((300 << 10)) /dev/zero; }
if [ -n "$unpacks" ]; then
  zipped() { bsdtar -a -cf "$TOP_OF/class/$1" "${@:2}"; }
  TOP_OF=$PWD
  (mkdir -p zips/kit/kernels zips/__MACOSX && cd zips && cp "$good" kit/kernels/exercise.cu &&
    echo "$wrong" | tee twice.cu >__MACOSX/._exercise.cu && zipped kit.zip kit __MACOSX && zipped twice.zip twice.cu &&
    bomb >bomb.cu && zipped bomb.zip bomb.cu && zipped moodle/handed-in.tar.gz twice.cu)
  head -c 100 "$answers" >class/broken.zip
fi
makes grade-all FROM="$PWD/class" CSV="$PWD/graded.csv"
[ $status = 0 ] || die "$(cat out)"
[ "$(wc -l <graded.csv)" = "$((1 + $(find class -mindepth 1 -maxdepth 1 | wc -l)))" ] || die "$(cat graded.csv)"
points() { # NAME POINTS PATTERN: the row of the name has the points, and says the pattern
  grep -qE "^\"$1\",$2,.*,\"$3" graded.csv || die "no row $1 $2 $3: $(cat graded.csv)"
}
row=1
for name in 王伟 王芳 李娜 Иван Jörg Jürg "'-rf" "'=1\\+2" 'Mary ""Ann"", x'; do
  row=$((row + 1))
  points "$name" 0 "kernels/exercise.cu:$row:9: error"
done
points anna 0 'nothing was handed in"'
points ben 0 'kernels/exercise.cu:1:9: error'
points browser 0 'kernels/exercise.cu:1:9: error'
points UPPER 0 'kernels/exercise.cu:1:9: error'
points dora 0 '.*fork'
points eve 100.0 '"'
points clone $good_points "$good_words"
points linked 0 'nothing was handed in; skipped exercise.cu, a link, which is not followed'
points link 0 'is a link, which is not followed'
points two 0 'has 2 files of which only one can be graded: a/exercise.cu, b/exercise.cu'
points notes.pdf 0 'is skipped, because it is not a .cu file, an archive or a folder'
points ._eve 0 'is skipped, because macOS added it'
points __MACOSX 0 'is skipped, because macOS added it'
grep -q '^Graded is kernels/exercise.cu; skipped exercise_old.cu; skipped kernels/class/warmup.cu, the warm-up; skipped backup/exercise.cu.$' \
  graded/clone.txt || die "$(cat graded/clone.txt)"
grep -qx 'Points: 100.0 of 100 (forward, softmax, loss, update: 25.0,25.0,25.0,25.0)' graded/eve.txt || die "$(cat graded/eve.txt)"
if [ -n "$unpacks" ]; then
  points kit $good_points "$good_words"
  points twice.cu 0 'kernels/exercise.cu:1:9: error'
  points twice.zip 0 'kernels/exercise.cu:1:9: error'
  points moodle 0 'kernels/exercise.cu:1:9: error'
  points bomb 0 'cannot be unpacked: a .cu file has more than 256 KB'
  points broken 0 'cannot be unpacked: '
else
  skip_ 'bsdtar is not installed'
fi

case_ 'the recipe for Gradescope writes results.json, whether or not the submission compiles'
mkdir -p autograder/{source,submission,results} temporary
ln -s "$kit" autograder/source/student-kit
# shellcheck disable=SC2016 # bash reads $HERE later; the folder's name may have blanks
sed -n '/^This is `run_autograder`/,/^## /s/^    //p' "$TOP/docs/teaching/grading.md" |
  sed 's~/tmp~"$HERE"/temporary~g; s~/autograder~"$HERE"/autograder~g; s~make grade-all~make -s CFLAGS=-O2 grade-all~' >run_autograder
results=autograder/results/results.json
printf '%s\n' '#include "batch.cuh"' 'const char *path = "a\\b" + ;' >autograder/submission/exercise.cu
env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS HERE="$PWD" bash run_autograder >out 2>&1
printed 1 '^kernels/exercise.cu:2:29: error: expected expression$'
[ "$(value score $results)" = 0 ] || die "$(cat $results)"
value output $results | grep -qF 'const char *path = \"a\\\\b\" + ;\n' || die "$(cat $results)"
if [ -z "${TEST_QUICK-}" ]; then # grade-all writes the same file for eve
  cp "$answers" autograder/submission/exercise.cu
  env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS HERE="$PWD" bash run_autograder >out 2>&1
  [ "$(value score $results | head -n 1)" = 100.0 ] || die "$(cat out)"
fi

ln -s "$kit/build/mlp-exercise-emulator" mlp-exercise
export MLP=$PWD/mlp-exercise

case_ 'wrong usage is named'
prints 1 '^Usage: mlp-exercise ' --help
printed 0 '^.{81}'
refusals 2 <<'END'
unexpected argument 'stray'|stray
--seed must be a whole number from 0 to 9223372036854775808, not '3x'|--seed 3x
END
refusals 1 <<'END'
--only must be from 1 to 4, the number of functions, not 0|--only 0
--only must be from 1 to 4, the number of functions, not 5|--only 5
--only must be from 1 to 4, the number of functions, not 9|--only 9
END

case_ 'a scorecard that nobody can read is a failure'
status=0
MLP_TEST_LIMIT=1 "$MLP" >/dev/full 2>err || status=$?
[ $status = 1 ]
said 'cannot write to standard output: No space left on device'
