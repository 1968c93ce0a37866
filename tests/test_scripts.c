/* The scripts as processes. What they would call on the network or to install is a fake program,
   first in PATH: no test downloads or installs anything. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/test.h"
#include "support/folder.h"
#include "support/process.h"

static char output[8192]; /* of what ran last */

static int run(const char *command) {
  return process_run(output, sizeof output, "cd '%s' && %s", folder, command);
}

static void must(const char *command) {
  if (run(command) != 0) fail_msg("%s: %s", command, output);
}

/* A folder with bin/ for the fakes, source/ and data/. Fakes write what they were called with
   to log. */
static int open_place(void **state) {
  folder_open(state);
  if (run("touch log && chmod +x log && test -x log") != 0) { /* nothing in it may be run */
    char build[4096];
    assert_non_null(getcwd(build, sizeof build - strlen("/build")));
    folder_close(state);
    setenv("TMPDIR", strcat(build, "/build"), 1);
    folder_open(state);
  }
  must("mkdir bin source data && touch log");
  return 0;
}

static void write_script(const char *name, const char *text) {
  const char *path = folder_path(name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file, "#!/bin/sh\ncd '%s' || exit\n%s\n", folder, text);
  assert_int_equal(fclose(file), 0);
  assert_int_equal(chmod(path, 0755), 0);
}

/* Runs a script of this repository with the fakes in place. */
static int run_script(const char *environment, const char *script) {
  return process_run(output, sizeof output,
                     "unset NVCC CC; PATH='%s/bin':\"$PATH\" DATA_DIR='%s/data' %s scripts/%s",
                     folder, folder, environment, script);
}

static void assert_says(const char *text) {
  if (!strstr(output, text)) fail_msg("'%s' is not in: %s", text, output);
}

/* The fakes' calls, one line each. */
static void assert_log(const char *text) {
  must("cat log");
  assert_string_equal(output, text);
}

/* ---- download_mnist.sh ------------------------------------------------------------------- */

static int download_from_source(void) {
  char environment[4096];
  snprintf(environment, sizeof environment, "MNIST_SOURCE='%s/source'", folder);
  return run_script(environment, "download_mnist.sh");
}

/* A failed download leaves what was there, and nothing else. */
static void assert_data_unchanged(void) {
  must("ls -A data");
  assert_string_equal(output, "mnist_test.csv\n");
  must("cat data/mnist_test.csv");
  assert_string_equal(output, "old\n");
}

#define IN_PLACE(name) TEST_WITH(name, open_place, folder_close)

IN_PLACE(test_source_without_a_file) {
  must("echo old > data/mnist_test.csv");
  assert_int_equal(download_from_source(), 1);
  assert_says("there is no train-images-idx3-ubyte and no train-images-idx3-ubyte.gz in");
  assert_data_unchanged();
}

IN_PLACE(test_source_with_other_content) {
  must("echo old > data/mnist_test.csv; echo no images > source/train-images-idx3-ubyte");
  assert_int_equal(download_from_source(), 1);
  assert_says("/source/train-images-idx3-ubyte is not the file of MNIST: its content has "
              "another SHA-256");
  assert_data_unchanged();

  must("gzip source/train-images-idx3-ubyte");
  assert_int_equal(download_from_source(), 1);
  assert_says("train-images-idx3-ubyte.gz is not the file of MNIST");
  assert_data_unchanged();
}

IN_PLACE(test_source_with_half_an_archive) {
  must("echo old > data/mnist_test.csv; seq 1000 | gzip | head -c 1000 "
       "> source/train-images-idx3-ubyte.gz");
  assert_int_equal(download_from_source(), 1);
  assert_says("could not unpack");
  assert_data_unchanged();
}

/* It stops a byte behind the content that is expected, long before the disk is full. */
IN_PLACE(test_source_with_a_vast_archive) {
  must("echo old > data/mnist_test.csv; head -c 50000000 /dev/zero | gzip -1 "
       "> source/train-images-idx3-ubyte.gz");
  assert_int_equal(download_from_source(), 1);
  assert_says("train-images-idx3-ubyte.gz is not the file of MNIST: it has more than the "
              "47040016 bytes of that");
  assert_data_unchanged();
}

IN_PLACE(test_data_cannot_be_written) {
  must("rmdir data && touch data");
  assert_int_equal(download_from_source(), 1);
  assert_says("cannot write to the folder");
  assert_says("DATA_DIR");
}

/* One mirror does not answer, the other sends something else: each is tried once, and the last
   words say what to do. */
IN_PLACE(test_mirrors_fail) {
  must("echo old > data/mnist_test.csv");
  write_script("bin/curl", "for address; do :; done # the last argument\n"
                           "echo \"$address\" >>log\n"
                           "case $address in *amazonaws*) echo 'no answer' >&2; exit 7; esac\n"
                           "while [ \"$1\" != -o ]; do shift; done\n"
                           "echo something else >\"$2\"");
  assert_int_equal(run_script("MNIST_SOURCE=", "download_mnist.sh"), 1);
  assert_says("no answer\n");
  assert_says("no MNIST from https://ossci-datasets.s3.amazonaws.com/mnist");
  assert_says("train-images-idx3-ubyte.gz is not the file of MNIST");
  assert_says("no MNIST from https://storage.googleapis.com/cvdf-datasets/mnist");
  assert_says("Without internet: put train-images-idx3-ubyte.gz ");
  assert_says("set MNIST_SOURCE to it");
  assert_data_unchanged();
  assert_log("https://ossci-datasets.s3.amazonaws.com/mnist/train-images-idx3-ubyte.gz\n"
             "https://storage.googleapis.com/cvdf-datasets/mnist/"
             "train-images-idx3-ubyte.gz\n");
}

IN_PLACE(test_signal_ends_the_download) {
  must("echo old > data/mnist_test.csv");
  write_script("bin/curl", "echo called >>log; kill $PPID; exit 7");
  assert_int_equal(run_script("MNIST_SOURCE=", "download_mnist.sh"), 1);
  assert_data_unchanged();
  assert_log("called\n");
}

/* What is fetched comes through https, redirected or not. */
IN_PLACE(test_only_https) {
  write_script("bin/curl", "echo \"$*\" >>log; exit 7");
  assert_int_equal(run_script("MNIST_SOURCE=", "download_mnist.sh"), 1);
  must("grep -c -e '--proto =https --proto-redir =https' log; rm log bin/curl");
  assert_string_equal(output, "2\n");

  write_script("bin/wget", "echo \"$*\" >>log; exit 4");
  must("for tool in bash cat gunzip head mktemp rm sha256sum wc; do "
       "ln -s \"$(command -v $tool)\" bin; done");
  char environment[4096]; /* no curl is to be found */
  snprintf(environment, sizeof environment, "PATH='%s/bin' MNIST_SOURCE= bash", folder);
  assert_int_equal(run_script(environment, "download_mnist.sh"), 1);
  must("grep -c -e '--max-redirect=0.* https://' log");
  assert_string_equal(output, "2\n");
}

/* ---- setup.sh ---------------------------------------------------------------------------- */

/* Installing is only written down. `status`: what apt-get install returns; updating fails, which
   must not matter. */
static void fake_installer(int status) {
  char text[256];
  snprintf(text, sizeof text, "echo \"$@\" >>log; [ \"$1\" = install ] && exit %d", status);
  write_script("bin/apt-get", text);
  write_script("bin/sudo", "shift; exec \"$@\"");
}

static const char gcc_without_openmp[] = "[ \"$1\" != -fopenmp ]";
static const char gcc_without_headers[] = "[ \"$1\" = -fopenmp ]";

IN_PLACE(test_setup_finds_everything) {
  fake_installer(1);
  assert_int_equal(run_script("NVCC=", "setup.sh"), 0);
  assert_string_equal(output, "setup: everything is there but nvcc, so the build is CPU-only\n");
  assert_log("");
}

IN_PLACE(test_setup_names_nvcc) {
  fake_installer(1);
  write_script("bin/nvcc", "");
  write_script("bin/g++", "");
  char expected[4096];
  assert_int_equal(run_script("", "setup.sh --nvcc"), 0);
  snprintf(expected, sizeof expected, "%s/bin/nvcc\n", folder);
  assert_string_equal(output, expected);
  assert_int_equal(run_script("", "setup.sh"), 0);
  snprintf(expected, sizeof expected, "setup: everything is there, CUDA through %s/bin/nvcc\n",
           folder);
  assert_string_equal(output, expected);
}

IN_PLACE(test_setup_installs_what_is_missing) {
  fake_installer(0);
  write_script("bin/gcc", gcc_without_headers);
  write_script("bin/curl", "");
  assert_int_equal(run_script("NVCC=", "setup.sh"), 0);
  assert_says("setup: installing libcsv-dev libstb-dev libinih-dev libjansson-dev "
              "zlib1g-dev libcmocka-dev\n");
  assert_log("update -qq\ninstall -y --no-install-recommends "
             "libcsv-dev libstb-dev libinih-dev libjansson-dev zlib1g-dev "
             "libcmocka-dev -qq\n");
}

IN_PLACE(test_setup_cannot_install) {
  fake_installer(100);
  write_script("bin/gcc", gcc_without_openmp);
  write_script("bin/curl", "");
  assert_int_equal(run_script("NVCC=", "setup.sh"), 1);
  assert_says("gcc libc6-dev missing. On Debian or Ubuntu run:\n"
              "  sudo apt-get install -y --no-install-recommends gcc libc6-dev\n");
}

IN_PLACE(test_setup_takes_another_compiler) {
  fake_installer(0);
  write_script("bin/clang-19", gcc_without_openmp);
  write_script("bin/curl", "");
  assert_int_equal(run_script("NVCC= CC=clang-19", "setup.sh"), 0);
  assert_says("setup: installing clang-19 libomp-19-dev libc6-dev\n");
}

/* ---- run_tests.sh ------------------------------------------------------------------------ */

static int run_programs(const char *environment, const char *programs) {
  return process_run(output, sizeof output,
                     "top=$PWD; cd '%s' && JOBS=1 ALONE= %s \"$top\"/scripts/run_tests.sh %s",
                     folder, environment, programs);
}

static void assert_last_line(const char *line) {
  const size_t length = strlen(output), expected = strlen(line);
  if (length < expected || strcmp(output + length - expected, line) != 0)
    fail_msg("'%s' is not the end of: %s", line, output);
}

IN_PLACE(test_sums_up) {
  write_script("bin/test_a", "echo 1..2; echo ok 1 - one; echo ok 2 - two");
  write_script("bin/test_b", "echo 1..4; echo noise; echo ok 1 - one; echo 'not ok 2 # SKIP two';"
                             "echo there is no GPU; echo 'not ok 3 # SKIP three';"
                             "echo there is no GPU; echo 'not ok 4 # SKIP four'");
  write_script("bin/test_c",
               "echo 1..4; echo there is no GPU; echo 'ok 1 # SKIP one'; echo there is no GPU;"
               "echo 'ok 2 - two # SKIP'; echo ok 3 - three; echo ok 4 - four '#' SKIPs nothing");
  assert_int_equal(run_programs("", "bin/test_a bin/test_b bin/test_c"), 0);
  assert_string_equal(output, "test_a: 2 passed, 0 failed, 0 skipped\n"
                              "test_b: 1 passed, 0 failed, 3 skipped\n"
                              "test_c: 2 passed, 0 failed, 2 skipped\n"
                              "skipped 4: there is no GPU\n"
                              "skipped 1: no reason is given\n"
                              "5 passed, 0 failed, 5 skipped\n");
}

IN_PLACE(test_sums_up_failures) {
  write_script("bin/test_a",
               "echo 1..2; echo 'not ok 1 - one'; echo '# 1 != 2'; echo ok 2 - two; exit 1");
  write_script("bin/test_b", "echo 1..3; echo ok 1 - one");
  write_script("bin/test_c", "echo 1..1; echo ok 1 - one; echo leak >&2; exit 23");
  assert_int_equal(run_programs("", "bin/test_a bin/test_b bin/test_c bin/nowhere"), 1);
  assert_says("test_a: 1 passed, 1 failed, 0 skipped\n");
  assert_says("  | # 1 != 2\n");
  assert_says("test_b: 1 passed, 1 failed, 0 skipped\n");
  assert_says("test_c: 1 passed, 1 failed, 0 skipped\n");
  assert_says("  | leak\n");
  assert_last_line("\n3 passed, 4 failed, 0 skipped\n");
}

/* Two that wait for each other end only if they run at the same time. */
IN_PLACE(test_runs_programs_at_the_same_time) {
  const char *format = "touch %s; for n in 1 2 3 4 5 6 7 8 9 10; do [ -e %s ] && break; sleep 0.2; "
                       "done; echo 1..1; [ -e %s ] && echo ok 1 - met || echo not ok 1 - alone";
  char a[512], b[512];
  snprintf(a, sizeof a, format, "a", "b", "b");
  snprintf(b, sizeof b, format, "b", "a", "a");
  write_script("bin/test_a", a);
  write_script("bin/test_b", b);
  assert_int_equal(run_programs("JOBS=2", "bin/test_a bin/test_b"), 0);
  assert_says("test_a: 1 passed, 0 failed, 0 skipped\n");
  assert_says("test_b: 1 passed, 0 failed, 0 skipped\n");
  assert_last_line("\n2 passed, 0 failed, 0 skipped\n");
}

/* What is named runs after the others, when nothing else does. */
IN_PLACE(test_runs_programs_alone) {
  write_script("bin/test_a", "[ -e b ] && [ -e c ] && echo 1..1 && echo ok 1 - last");
  write_script("bin/test_b", "echo 1..1; sleep 0.2; touch b; echo ok 1 - one");
  write_script("bin/test_c", "echo 1..1; sleep 0.2; touch c; echo ok 1 - one");
  assert_int_equal(run_programs("JOBS=3 ALONE='test_a test_d'", "bin/test_a bin/test_b bin/test_c"),
                   0);
  assert_last_line("\n3 passed, 0 failed, 0 skipped\n");
}

/* ---- check_all.sh ------------------------------------------------------------------------ */

IN_PLACE(test_checks_are_summed_up) {
  write_script("bin/make",
               "echo \"$*\" >>log; echo working; echo \"came of $*\"; [ \"$1\" != lint ]");
  assert_int_equal(run_script("", "check_all.sh test 'test SANITIZE=1'"), 0);
  assert_says("make test                   came of test\nok ");
  assert_says("make test SANITIZE=1        came of test SANITIZE=1\n2 checks passed, 0 ");
  assert_int_equal(run_script("", "check_all.sh lint test"), 1);
  assert_says("  | working\n  | came of lint\nFAILED  ");
  assert_says("came of lint\nok ");
  assert_says("came of test\n1 checks passed, 1 failed, in 0:");
  must("cat log");
  assert_string_equal(output, "test\ntest SANITIZE=1\nlint\ntest\n");
}

/* ---- profile.sh ----------------------------------------------------------------------------- */

/* Stand-ins for the lab, a GPU and ncu, which prints what `ncu` does. */
static int profile(const char *ncu) {
  char environment[4096];
  write_script("lab", "echo 'topic copies: what copies cost'\n"
                      "echo 'metric a__sectors.ratio: sectors a load'\n"
                      "echo 'rung shifted: a lesson'\necho 'points shifted: 0 16'");
  write_script("bin/nvidia-smi", "");
  write_script("bin/ncu", ncu);
  snprintf(environment, sizeof environment, "LAB='%s/lab'", folder);
  return run_script(environment, "profile.sh copies");
}

IN_PLACE(test_profile_reads_counters) {
  assert_int_equal(
      profile(
          "echo \"$*\" >>log\necho '==PROF== Profiling \"one\"'\n"
          "echo '\"ID\",\"Kernel Name\",\"Block Size\",\"a__sectors.ratio\",\"dram__bytes.sum\","
          "\"gpu__time_duration.sum\"'\n"
          "echo '\"\",\"\",\"\",\"\",\"byte\",\"nsecond\"'\n"
          "echo '\"0\",\"one\",\"(1, 1, 1)\",\"4\",\"1,500,000\",\"720,512\"'\n"
          "echo '\"1\",\"one\",\"(1, 1, 1)\",\"4.97\",\"2500000\",\"90000\"'"),
      0);
  assert_says("copies: what copies cost\n");
  assert_says("shifted              0      one                                     4"
              "         1.50     0.7205\n");
  assert_says("shifted              16     one                                  4.97"
              "         2.50     0.0900\n");
  must("cat log");
  assert_says("--nvtx-include shifted/");
  assert_says("dram__bytes.sum,a__sectors.ratio");
  assert_says("copies --rung shifted --profile\n");
}

IN_PLACE(test_profile_says_why_not) {
  assert_int_equal(profile("echo '==ERROR== ERR_NVGPUCTRPERM: no permission'; exit 1"), 1);
  assert_says("profile: shifted: this user may not read the counters of the GPU");
  assert_int_equal(profile("echo '==WARNING== No kernels were profiled.'"), 0);
  assert_says("shifted              no kernel");
  assert_int_equal(run_script("LAB=/no/such/lab", "profile.sh copies"), 1);
  assert_says("/no/such/lab is not built");
  assert_int_equal(run_script("", "profile.sh"), 1);
  assert_says("name a topic");
}

/* ---- sprint.sh ------------------------------------------------------------------------------ */

/* A stand-in for mlp-train that prints what a run does; `accuracy` is a shell's, of $4, the seed.
 */
static int sprint(const char *environment, const char *accuracy, const char *configs) {
  char text[1024], all[8192], script[512];
  snprintf(text, sizeof text,
           "echo \"$*\" >>log\n%s\n"
           "echo 'device   Fake GPU, 1 GiB'\n"
           "echo '           loss     acc  test-loss  test-acc  train   eval  img/s'\n"
           "echo 'epoch 1/2  0.5  90.00%%     0.3    91.00%%  1.00s  5.00ms   112k'\n"
           "echo \"epoch 2/2  0.2  92.67%%     0.2    $accuracy  35.8ms  5.00ms   112k\"\n"
           "echo 'total    load 479ms  train 1.04s  eval 10.0ms  process 2.00s'",
           accuracy);
  write_script("mlp", text);
  snprintf(all, sizeof all, "PROGRAM='%s/mlp' %s", folder, environment);
  snprintf(script, sizeof script, "sprint.sh %s", configs);
  return run_script(all, script);
}

/* Four seeds of mean 99.0725 and deviation 0.0457: t is 3.17 and p, of 3 degrees of freedom, 0.025,
   as tables of it have; twelve of mean 99.11 are beyond doubt. */
IN_PLACE(test_sprint_tells_the_mean_from_chance) {
  const char *four = "case $4 in 1) a=99.10;; 2) a=99.05;; 3) a=99.12;; *) a=99.02; esac; "
                     "accuracy=$a%";
  assert_int_equal(sprint("SEEDS=4", four, "some/sprint-99.conf"), 1);
  assert_says("device  Fake GPU, 1 GiB\n");
  assert_says("sprint-99            4   99.072%  0.046   3.17  2.5e-02    1040.0    0.0 ");
  must("head -n 2 log");
  assert_string_equal(output, "--config some/sprint-99.conf --seed 1\n"
                              "--config some/sprint-99.conf --seed 2\n");
  assert_int_equal(sprint("SEEDS=12", "accuracy=99.1$(($4 % 3))%", "a/x-99.conf b/y98.5.conf"), 0);
  assert_says("x-99                12   99.110%  0.009  44.68  ");
  assert_says("y98.5               12   99.110%  0.009 ");
  assert_int_equal(sprint("SEEDS=5", "accuracy=98.0$(($4 % 3))%", "a/sprint-98.01.conf"), 1);
  assert_says(" 0.53  3.1e-01 ");
}

IN_PLACE(test_sprint_says_why_not) {
  assert_int_equal(sprint("SEEDS=2", "echo away >&2; exit 1", "a/sprint-98.conf"), 1);
  assert_says("a/sprint-98.conf --seed 1 failed");
  assert_int_equal(sprint("SEEDS=2", "accuracy=-", "a/sprint-98.conf"), 1);
  assert_says("--seed 1 printed no test accuracy");
  assert_int_equal(sprint("SEEDS=1", "accuracy=99%", "a/sprint-98.conf"), 2);
  assert_says("SEEDS must be a number of at least 2, not '1'");
  assert_int_equal(sprint("SEEDS=2", "accuracy=99%", "a/sprint.conf"), 2);
  assert_says("the name of a/sprint.conf does not end in the accuracy to reach");
}

/* ---- limited_gpu.sh ------------------------------------------------------------------------- */

/* A stand-in for mlp-train whose level epoch needs 40 multiprocessors and takes, in ms, as many as
   there are left of 140. */
static int limited_gpu(const char *environment, const char *limits) {
  char all[8192], script[512];
  write_script(
      "mlp", "echo \"$MLP_TEST_PROCESSORS $MLP_TEST_SHARED $4\" >>log\n"
             "level=$4 ms=15 few=$((${MLP_TEST_PROCESSORS:-99} < 40))\n"
             "case $4$few in\n"
             "  auto0) level=epoch;; auto1) level=step;;\n"
             "  epoch1) echo 'mlp-train: --fusion epoch cannot run this network' >&2; exit 2\n"
             "esac\n"
             "[ $level != epoch ] || ms=$((140 - MLP_TEST_PROCESSORS))\n"
             "echo 'device   Fake GPU, 1 GiB'\n"
             "echo \"fusion   $level: so\"\n"
             "echo '         loss    acc test-loss test-acc  train   eval'\n"
             "for i in 1 2 3 4 5; do\n"
             "  echo \"epoch $i/5  0.5  90.00%  0.3  9$i.00%  $((i % 3 + ms - 1)).25ms  5.00ms\"\n"
             "done");
  snprintf(all, sizeof all, "PROGRAM='%s/mlp' %s", folder, environment);
  snprintf(script, sizeof script, "limited_gpu.sh %s", limits);
  return run_script(all, script);
}

IN_PLACE(test_limited_gpu_makes_a_table) {
  assert_int_equal(limited_gpu("EPOCHS=5", "132:227 84:99 20:64"), 0);
  assert_says("device   Fake GPU, 1 GiB\n");
  assert_says("| 132 | 227 | 15.25 | 8.25 | `epoch` | 95.00% |\n"
              "| 84 | 99 | 15.25 | 56.25 | `epoch` | 95.00% |\n"
              "| 20 | 64 | 15.25 | - | `step` | 95.00% |\n");
  must("sed -n '2p; 5p; 10p' log");
  assert_string_equal(output, "132  step\n84 99 step\n20 64 auto\n");
}

IN_PLACE(test_limited_gpu_says_why_not) {
  assert_int_equal(limited_gpu("EPOCHS=5", "132"), 2);
  assert_says("a limit is MULTIPROCESSORS:KB, KB 64, 99, 163 or 227, not '132'");
  assert_int_equal(limited_gpu("EPOCHS=2", ""), 2);
  assert_says("EPOCHS must be a number of at least 3, not '2'");
  write_script("mlp", "echo 'mlp-train: no GPU' >&2; exit 1");
  char environment[4096];
  snprintf(environment, sizeof environment, "PROGRAM='%s/mlp'", folder);
  assert_int_equal(run_script(environment, "limited_gpu.sh"), 1);
  assert_says("mlp-train: no GPU");
}
