# The exercise as a class gets it: the object file of a student is sealed, points are written for
# autograders, and the kit for students builds, scores, and has no answers in it.
graded=$TOP/build/graded # not in this folder: what is built stays for the next time
kit=$graded/student-kit
export MLP=$graded/cpu/mlp-exercise

# makes ARGUMENT...: what make said is in out, how it ended in $status.
makes() {
  status=0
  env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s "$@" >out 2>&1 || status=$?
}

# ---- sealing -------------------------------------------------------------------------------

# seal BEFORE BODY: compiles exercise_forward with this body, and lines before it, and seals it.
seal() {
  cat >student.c <<END
$1
#include "exercise/exercise_cpu.h"
void exercise_forward(const float *x, const float *w, const float *b, float *z, float *y, int rows,
                      int in, int out, bool relu) {
  $2
}
END
  ${CC:-cc} -std=gnu11 -O1 -fPIE -I"$TOP/src" -c student.c -o student.o
  status=0
  "$TOP/scripts/seal_exercise.sh" cpu student.o sealed.o >out 2>err || status=$?
}

case_ 'whatever else the file defines, nobody else calls it' # cheat 7
seal 'int mprotect(void *at, unsigned long bytes, int how) { return 0; }
int exercise_judge(void) { return 1; }
double fabs(double x) { return 0; }
int scale = 3;' 'y[0] = x[0] * scale + (float)fabs(w[0]) + mprotect(y, 0, 0);'
[ $status = 0 ] || die "$(cat err)"
nm --extern-only --defined-only --format=posix sealed.o >out
printed 1 ''
printed 1 '^exercise_forward T '

case_ 'what the exercise does not allow is refused'
while IFS='|' read -r text before body; do
  seal "$before" "$body"
  [ $status = 1 ] || die "$text: exit code $status"
  grep -q "The exercise does not allow this: .*$text" err || die "$text: $(cat err)"
done <<'END'
it uses free malloc|#include <stdlib.h>|z = malloc(4), y[0] = z[0], free(z);
it uses fork sleep|#include <unistd.h>|if (fork() == 0) sleep(9);
it uses pthread_create|#include <pthread.h>|pthread_create((void *)z, 0, 0, 0);
it uses exercise_pass|void exercise_pass(void);|exercise_pass();
it has a constructor|static float t[4]; __attribute__((constructor)) static void early(void) { t[0] = 1; }|y[0] = t[0];
it has 20000 bytes of variables|static float cache[5000];|cache[rows] = x[0], y[0] = cache[in];
bytes of variables that outlive a call, and may have 16384|float cache[5000] = {1};|cache[rows] = x[0];
END

case_ 'what the exercise allows is sealed'
seal '#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>' 'static int calls;
  assert(rows > 0);
  printf("%d %g\n", calls++, (double)x[0]);
  memcpy(y, x, in);
  memset(z, 0, out);
  y[0] = expf(x[0]) + fmaxf(w[0], logf(b[0]));'
[ $status = 0 ] || die "$(cat err)"

# ---- the program ---------------------------------------------------------------------------

# add_up: of the lines of standard input, the first is the sum of the others.
add_up() { awk '{ rest += NR == 1 ? -$1 : $1 } END { exit rest > 1e-6 || rest < -1e-6 }'; }

# passes COUNT FILE: so many of the four tests in a file for Gradescope are passed, and it has its
# format.
passes() {
  value score "$2" | add_up
  paste <(value score "$2" | tail -n +2) <(value max_score "$2") |
    awk '$1 < 0 || $1 > $2 { exit 1 } END { if (NR != 4) exit 1 }'
  [ "$(grep -cE '^      "(name|output)": ".*"' "$2")" = 8 ]
  [ "$(grep -c '"status": "passed"' "$2")" = "$1" ] || die "$(cat "$2")"
}

case_ 'make exercise-cpu prints a scorecard' # what stands in exercise_cpu.c is a student's
makes -C "$TOP" SETUP=0 BUILD=build/graded SEED=3 exercise-cpu
printed 1 '^4 of 4 right, '

case_ 'points are written for autograders'
run --cpu --grade results.json --grade-plain plain.json
passed=$(grep -c '"status": "passed"' results.json) || true # none of what is handed out
[ $status = $((passed == 4 ? 0 : 4)) ]
passes $passed results.json
[ "$(head -n 1 out)" = "seed $(value seed plain.json)" ]
[ "$(value max_points plain.json)" = 100 ]
{ value points plain.json | head -n 1 && value all plain.json; } | add_up
[ "$(value right plain.json | grep -c true)" = 4 ]
[ "$(value kernels plain.json | sort -u)" = null ]
paste <(value moved_bytes plain.json) <(value least_bytes plain.json) | awk '$1 < $2 { exit 1 }'
run --cpu --grade results.json
[ "$(head -n 1 out)" != "seed $(value seed plain.json)" ] # one time in 4 billion this is bad luck
fails 1 'mlp-exercise: cannot write ' --cpu --seed 9 --grade no/r
[ "$(head -n 1 out)" = 'seed 9' ]

case_ 'wrong usage is named'
ok --help
printed 1 '^Usage: mlp-exercise '
printed 0 '^.{81}'
refusals 2 <<'END'
unknown option '--cpus'|--cpus
unknown option 'stray'|stray
--seed needs an argument|--cpu --seed
--grade needs an argument|--cpu --grade
--seed must be a whole number, not '3x'|--seed 3x
--seed must be a whole number, not '9|--seed 99999999999999999999
END
refuses 2 "--seed must be a whole number, not ''" --seed ''
run
[ $status = 3 ]
printed 1 '^The exercise cannot run here: this program was built without CUDA'

# ---- the kit -------------------------------------------------------------------------------

(cd "$TOP" && scripts/student_kit.sh build/graded) >out

case_ 'the kit has no answers'
holds "$kit/kernels" batch.cuh cuda_try.h exercise.cu gpu.h kernels.h
[ -z "$(find "$kit" -name '*answer*' -o -name 'fused*')" ]
# None of what we have defined to be fused, the running maximum, or the answers' page.
if grep -rnE 'exercise_fused =|void fused_|online\(|answers.md' "$kit"; then die 'an answer'; fi
diff <(tar -tzf "$kit.tar.gz" | grep -v '/$' | sort) <(cd "$graded" && find student-kit -type f | sort)

# As it is handed out, with an attempt at the grader's functions; then with our answers, under the
# names of a student's functions.
case_ 'the kit builds, scores and is solved'
if [ -n "${TEST_QUICK-}" ]; then
  skip_ 'TEST_QUICK leaves out building the kit'
else
  student=$kit/src/exercise/exercise_cpu.c
  cat >>"$student" <<'END'
int mprotect(void *at, unsigned long size, int how) { return 0; }
long sysconf(int name) { return 1 << 30; }
_Bool exercise_is_poison(const void *a, long b, long c) { return 1; }
END
  makes -C "$kit" -j2 CFLAGS=-O1 SEED=5 GRADE=r.json exercise-cpu
  [ $status = 2 ]
  printed 1 '^4 of 4 right, 0 of 4 fused$'
  passes 0 "$kit/r.json"
  sed 's/static void fused_/void exercise_/; /^const Exercise/d' "$TOP/src/exercise/fused.c" >"$student"
  makes -C "$kit" -j2 CFLAGS=-O1 SEED=5 GRADE=r.json exercise-cpu
  [ $status = 0 ]
  printed 1 '^4 of 4 right, 4 of 4 fused$'
  passes 4 "$kit/r.json"
fi
