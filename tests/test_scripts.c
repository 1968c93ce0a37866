/* The scripts as processes. What they would call on the network or to install is a fake program,
   first in PATH: no test downloads or installs anything. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/process.h"

/* A folder with bin/ for the fakes, source/ and data/. Fakes write what they were called with
   to log. */
typedef struct {
  char *folder;
  char output[8192];
} Place;

static int run(Place *place, const char *command) {
  return process_run(place->output, sizeof place->output, "cd '%s' && %s", place->folder, command);
}

static void must(Place *place, const char *command) {
  if (run(place, command) != 0) fail_msg("%s: %s", command, place->output);
}

static int make_place(void **state) {
  Place *place = calloc(1, sizeof *place);
  place->folder = process_folder();
  must(place, "mkdir bin source data && touch log");
  *state = place;
  return 0;
}

static int remove_place(void **state) {
  Place *place = *state;
  process_folder_remove(place->folder);
  free(place);
  return 0;
}

static void write_script(const Place *place, const char *name, const char *text) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", place->folder, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file, "#!/bin/sh\ncd '%s' || exit\n%s\n", place->folder, text);
  assert_int_equal(fclose(file), 0);
  assert_int_equal(chmod(path, 0755), 0);
}

/* Runs a script of this repository with the fakes in place. */
static int run_script(Place *place, const char *environment, const char *script) {
  const char *folder = place->folder;
  return process_run(place->output, sizeof place->output,
                     "unset NVCC; PATH='%s/bin':\"$PATH\" DATA_DIR='%s/data' %s scripts/%s", folder,
                     folder, environment, script);
}

static void assert_says(const Place *place, const char *text) {
  if (!strstr(place->output, text)) fail_msg("'%s' is not in: %s", text, place->output);
}

/* The fakes' calls, a line each. */
static void assert_log(Place *place, const char *text) {
  must(place, "cat log");
  assert_string_equal(place->output, text);
}

/* ---- download_mnist.sh ------------------------------------------------------------------- */

static int download_from_source(Place *place) {
  char environment[4096];
  snprintf(environment, sizeof environment, "MNIST_SOURCE='%s/source'", place->folder);
  return run_script(place, environment, "download_mnist.sh");
}

/* A failed download leaves what was there, and nothing else. */
static void assert_data_unchanged(Place *place) {
  must(place, "ls -A data");
  assert_string_equal(place->output, "mnist_test.csv\n");
  must(place, "cat data/mnist_test.csv");
  assert_string_equal(place->output, "old\n");
}

static void test_source_without_a_file(void **state) {
  Place *place = *state;
  must(place, "echo old > data/mnist_test.csv");
  assert_int_equal(download_from_source(place), 1);
  assert_says(place, "there is no train-images-idx3-ubyte and no train-images-idx3-ubyte.gz in");
  assert_data_unchanged(place);
}

static void test_source_with_other_content(void **state) {
  Place *place = *state;
  must(place, "echo old > data/mnist_test.csv; echo no images > source/train-images-idx3-ubyte");
  assert_int_equal(download_from_source(place), 1);
  assert_says(place, "/source/train-images-idx3-ubyte is not the file of MNIST: its content has "
                     "another SHA-256");
  assert_data_unchanged(place);

  must(place, "gzip source/train-images-idx3-ubyte");
  assert_int_equal(download_from_source(place), 1);
  assert_says(place, "train-images-idx3-ubyte.gz is not the file of MNIST");
  assert_data_unchanged(place);
}

static void test_source_with_half_an_archive(void **state) {
  Place *place = *state;
  must(place, "echo old > data/mnist_test.csv; seq 1000 | gzip | head -c 1000 "
              "> source/train-images-idx3-ubyte.gz");
  assert_int_equal(download_from_source(place), 1);
  assert_says(place, "could not unpack");
  assert_data_unchanged(place);
}

static void test_data_cannot_be_written(void **state) {
  Place *place = *state;
  must(place, "rmdir data && touch data");
  assert_int_equal(download_from_source(place), 1);
  assert_says(place, "cannot write to the folder");
  assert_says(place, "DATA_DIR");
}

/* One mirror does not answer, the other sends something else: each is asked once, and the last
   words say what to do. */
static void test_mirrors_fail(void **state) {
  Place *place = *state;
  must(place, "echo old > data/mnist_test.csv");
  write_script(place, "bin/curl",
               "for address; do :; done # the last argument\n"
               "echo \"$address\" >>log\n"
               "case $address in *amazonaws*) echo 'no answer' >&2; exit 7; esac\n"
               "while [ \"$1\" != -o ]; do shift; done\n"
               "echo something else >\"$2\"");
  assert_int_equal(run_script(place, "MNIST_SOURCE=", "download_mnist.sh"), 1);
  assert_says(place, "no answer\n");
  assert_says(place, "no MNIST from https://ossci-datasets.s3.amazonaws.com/mnist");
  assert_says(place, "train-images-idx3-ubyte.gz is not the file of MNIST");
  assert_says(place, "no MNIST from https://storage.googleapis.com/cvdf-datasets/mnist");
  assert_says(place, "Without internet: put train-images-idx3-ubyte.gz ");
  assert_says(place, "set MNIST_SOURCE to it");
  assert_data_unchanged(place);
  assert_log(place, "https://ossci-datasets.s3.amazonaws.com/mnist/train-images-idx3-ubyte.gz\n"
                    "https://storage.googleapis.com/cvdf-datasets/mnist/"
                    "train-images-idx3-ubyte.gz\n");
}

static void test_signal_ends_the_download(void **state) {
  Place *place = *state;
  must(place, "echo old > data/mnist_test.csv");
  write_script(place, "bin/curl", "echo called >>log; kill $PPID; exit 7");
  assert_int_equal(run_script(place, "MNIST_SOURCE=", "download_mnist.sh"), 1);
  assert_data_unchanged(place);
  assert_log(place, "called\n");
}

/* ---- setup.sh ---------------------------------------------------------------------------- */

/* Installing is only written down. `status`: what apt-get install returns; updating fails, which
   must not matter. */
static void fake_installer(Place *place, int status) {
  char text[256];
  snprintf(text, sizeof text, "echo \"$@\" >>log; [ \"$1\" = install ] && exit %d", status);
  write_script(place, "bin/apt-get", text);
  write_script(place, "bin/sudo", "shift; exec \"$@\"");
}

static const char gcc_without_openmp[] = "[ \"$1\" != -fopenmp ]";
static const char gcc_without_headers[] = "[ \"$1\" = -fopenmp ]";

static void test_setup_finds_everything(void **state) {
  Place *place = *state;
  fake_installer(place, 1);
  assert_int_equal(run_script(place, "NVCC=", "setup.sh"), 0);
  assert_string_equal(place->output,
                      "setup: everything is there but nvcc, so the build is CPU-only\n");
  assert_log(place, "");
}

static void test_setup_names_nvcc(void **state) {
  Place *place = *state;
  fake_installer(place, 1);
  write_script(place, "bin/nvcc", "");
  write_script(place, "bin/g++", "");
  char expected[4096];
  assert_int_equal(run_script(place, "", "setup.sh --nvcc"), 0);
  snprintf(expected, sizeof expected, "%s/bin/nvcc\n", place->folder);
  assert_string_equal(place->output, expected);
  assert_int_equal(run_script(place, "", "setup.sh"), 0);
  snprintf(expected, sizeof expected, "setup: everything is there, CUDA through %s/bin/nvcc\n",
           place->folder);
  assert_string_equal(place->output, expected);
}

static void test_setup_installs_what_is_missing(void **state) {
  Place *place = *state;
  fake_installer(place, 0);
  write_script(place, "bin/gcc", gcc_without_headers);
  write_script(place, "bin/curl", "");
  assert_int_equal(run_script(place, "NVCC=", "setup.sh"), 0);
  assert_says(place, "setup: installing libcsv-dev libstb-dev libinih-dev libjansson-dev "
                     "zlib1g-dev libcmocka-dev\n");
  assert_log(place, "update -qq\ninstall -y --no-install-recommends "
                    "libcsv-dev libstb-dev libinih-dev libjansson-dev zlib1g-dev "
                    "libcmocka-dev -qq\n");
}

static void test_setup_cannot_install(void **state) {
  Place *place = *state;
  fake_installer(place, 100);
  write_script(place, "bin/gcc", gcc_without_openmp);
  write_script(place, "bin/curl", "");
  assert_int_equal(run_script(place, "NVCC=", "setup.sh"), 1);
  assert_says(place, "gcc libc6-dev missing. On Debian or Ubuntu run:\n"
                     "  sudo apt-get install -y --no-install-recommends gcc libc6-dev\n");
}

/* ---- run_tests.sh ------------------------------------------------------------------------ */

static int run_programs(Place *place, const char *programs) {
  return process_run(place->output, sizeof place->output,
                     "top=$PWD; cd '%s' && \"$top\"/scripts/run_tests.sh %s", place->folder,
                     programs);
}

static void assert_last_line(const Place *place, const char *line) {
  const size_t length = strlen(place->output), expected = strlen(line);
  if (length < expected || strcmp(place->output + length - expected, line) != 0)
    fail_msg("'%s' is not the end of: %s", line, place->output);
}

static void test_sums_up(void **state) {
  Place *place = *state;
  write_script(place, "bin/test_a", "echo 1..2; echo ok 1 - one; echo ok 2 - two");
  write_script(place, "bin/test_b",
               "echo 1..4; echo noise; echo ok 1 - one; echo 'not ok 2 # SKIP two';"
               "echo there is no GPU; echo 'not ok 3 # SKIP three';"
               "echo there is no GPU; echo 'not ok 4 # SKIP four'");
  assert_int_equal(run_programs(place, "bin/test_a bin/test_b"), 0);
  assert_says(place, "test_a: 2 passed, 0 failed, 0 skipped\n");
  assert_says(place, "  skipped because there is no GPU: three four\n");
  assert_says(place, "  skipped because no reason is given: two\n");
  assert_last_line(place, "\n3 passed, 0 failed, 3 skipped\n");
}

static void test_sums_up_failures(void **state) {
  Place *place = *state;
  write_script(place, "bin/test_a",
               "echo 1..2; echo 'not ok 1 - one'; echo '# 1 != 2'; echo ok 2 - two; exit 1");
  write_script(place, "bin/test_b", "echo 1..3; echo ok 1 - one");
  write_script(place, "bin/test_c", "echo 1..1; echo ok 1 - one; echo leak >&2; exit 23");
  assert_int_equal(run_programs(place, "bin/test_a bin/test_b bin/test_c bin/nowhere"), 1);
  assert_says(place, "test_a: 1 passed, 1 failed, 0 skipped\n");
  assert_says(place, "  | # 1 != 2\n");
  assert_says(place, "test_b: 1 passed, 1 failed, 0 skipped\n");
  assert_says(place, "test_c: 1 passed, 1 failed, 0 skipped\n");
  assert_says(place, "  | leak\n");
  assert_last_line(place, "\n3 passed, 4 failed, 0 skipped\n");
}

/* ---- check_all.sh ------------------------------------------------------------------------ */

static void test_checks_are_summed_up(void **state) {
  Place *place = *state;
  write_script(place, "bin/make",
               "echo \"$*\" >>log; echo working; echo \"came of $*\"; [ \"$1\" != lint ]");
  assert_int_equal(run_script(place, "", "check_all.sh test 'test SANITIZE=1'"), 0);
  assert_says(place, "make test                   came of test\nok ");
  assert_says(place, "make test SANITIZE=1        came of test SANITIZE=1\n2 checks passed, 0 ");
  assert_int_equal(run_script(place, "", "check_all.sh lint test"), 1);
  assert_says(place, "  | working\n  | came of lint\nFAILED  ");
  assert_says(place, "came of lint\nok ");
  assert_says(place, "came of test\n1 checks passed, 1 failed, in 0:");
  must(place, "cat log");
  assert_string_equal(place->output, "test\ntest SANITIZE=1\nlint\ntest\n");
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, make_place, remove_place)

/* ---- profile.sh ----------------------------------------------------------------------------- */

/* Stand-ins for the lab, a GPU and ncu, which prints what `ncu` does. */
static int profile(Place *place, const char *ncu) {
  char environment[4096];
  write_script(place, "lab",
               "echo 'topic copies: what copies cost'\n"
               "echo 'metric a__sectors.ratio: sectors a load'\n"
               "echo 'rung shifted: a lesson'\necho 'points shifted: 0 16'");
  write_script(place, "bin/nvidia-smi", "");
  write_script(place, "bin/ncu", ncu);
  snprintf(environment, sizeof environment, "LAB='%s/lab'", place->folder);
  return run_script(place, environment, "profile.sh copies");
}

static void test_profile_reads_counters(void **state) {
  Place *place = *state;
  assert_int_equal(
      profile(
          place,
          "echo \"$*\" >>log\necho '==PROF== Profiling \"one\"'\n"
          "echo '\"ID\",\"Kernel Name\",\"Block Size\",\"a__sectors.ratio\",\"dram__bytes.sum\","
          "\"gpu__time_duration.sum\"'\n"
          "echo '\"\",\"\",\"\",\"\",\"byte\",\"nsecond\"'\n"
          "echo '\"0\",\"one\",\"(1, 1, 1)\",\"4\",\"1,500,000\",\"720,512\"'\n"
          "echo '\"1\",\"one\",\"(1, 1, 1)\",\"4.97\",\"2500000\",\"90000\"'"),
      0);
  assert_says(place, "copies: what copies cost\n");
  assert_says(place, "shifted              0      one                                     4"
                     "         1.50     0.7205\n");
  assert_says(place, "shifted              16     one                                  4.97"
                     "         2.50     0.0900\n");
  must(place, "cat log");
  assert_says(place, "--nvtx-include shifted/");
  assert_says(place, "dram__bytes.sum,a__sectors.ratio");
  assert_says(place, "copies --rung shifted --profile\n");
}

static void test_profile_says_why_not(void **state) {
  Place *place = *state;
  assert_int_equal(profile(place, "echo '==ERROR== ERR_NVGPUCTRPERM: no permission'; exit 1"), 1);
  assert_says(place, "profile: shifted: this user may not read the counters of the GPU");
  assert_int_equal(profile(place, "echo '==WARNING== No kernels were profiled.'"), 0);
  assert_says(place, "shifted              no kernel");
  assert_int_equal(run_script(place, "LAB=/no/such/lab", "profile.sh copies"), 1);
  assert_says(place, "there is no /no/such/lab");
  assert_int_equal(run_script(place, "", "profile.sh"), 1);
  assert_says(place, "name a topic");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      IN_PLACE(test_source_without_a_file),
      IN_PLACE(test_source_with_other_content),
      IN_PLACE(test_source_with_half_an_archive),
      IN_PLACE(test_data_cannot_be_written),
      IN_PLACE(test_mirrors_fail),
      IN_PLACE(test_signal_ends_the_download),
      IN_PLACE(test_setup_finds_everything),
      IN_PLACE(test_setup_names_nvcc),
      IN_PLACE(test_setup_installs_what_is_missing),
      IN_PLACE(test_setup_cannot_install),
      IN_PLACE(test_profile_reads_counters),
      IN_PLACE(test_profile_says_why_not),
      IN_PLACE(test_sums_up),
      IN_PLACE(test_sums_up_failures),
      IN_PLACE(test_checks_are_summed_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
