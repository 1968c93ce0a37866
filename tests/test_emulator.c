/* The emulator's watch must find the faults planted in emulated/planted.cu; a comment beside each
   kernel there is the expected report. The watch must also count memory requests as a GPU would. */
#include "support/test.h"

#ifdef HAVE_EMULATOR
#include <cuda_runtime_api.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emulator/emulator.h"

const char *plant(int which, const float *d_x, float *d, float *d_freed, int *line);
void write_pages(float *d, size_t pages);

enum { VALUES = 256, MOST = 4096, PARTED = 0 };

static float *new_array(const char *name, bool is_constant) {
  void *memory;
  assert_int_equal(cudaMalloc(&memory, VALUES * sizeof(float)), cudaSuccess);
  memset(memory, 0, VALUES * sizeof(float));
  emulator_name(memory, name, 1, VALUES, sizeof(float), is_constant);
  return memory;
}

/* Runs planted kernel `which` and checks the report of errors or, if there are none, of costs.
   Returns false if there is no such kernel. */
static bool is_told(int which) {
  char errors[MOST], costs[MOST], wanted[MOST];
  int line;
  float *x = new_array("x", true), *d = new_array("d", false), *gone = new_array("gone", false);
  cudaFree(gone);
  emulator_forget();
  const char *said = plant(which, x, d, gone, &line);
  size_t length = 0;
  for (const char *at = said; at && *at; at++)
    length += (size_t)(*at == '@' ? sprintf(wanted + length, "tests/emulated/planted.cu:%d",
                                            line + (*++at - '0'))
                                  : sprintf(wanted + length, "%c", *at));
  wanted[length] = '\0';
  emulator_told(false, 3, errors, sizeof errors);
  emulator_told(true, 1, costs, sizeof costs);
  const char *told = *errors || !said || !*said ? errors : costs;
  if (strcmp(told, wanted) != 0) fail_msg("plant %d: \"%s\", not \"%s\"", which, told, wanted);
  cudaGetLastError();
  cudaFree(x);
  cudaFree(d);
  return said;
}

TEST(errors_are_found_with_their_lines) {
  int which = 0;
  while (is_told(which)) which++;
  assert_true(which > 8);
}

/* Lanes that take a branch in different iterations of a loop make separate requests: 8 per warp,
   not 4. */
TEST(requests_are_joined_by_rounds) {
  is_told(PARTED);
  const EmulatorCounts counts = emulator_counts();
  assert_int_equal(counts.launches, 1);
  assert_int_equal(counts.requests, 8 * 8 + 8); /* each warp: 8 loads and 1 store of 4 sectors */
  assert_int_equal(counts.sectors, 8 * (2 * 4 + 6 * 5) + 8 * 4);
}

/* A loop over the grid writes 1.2 GB of an array of 8 GB, and takes a third of that at most. */
TEST(vast_arrays_take_little_memory) {
  enum { PAGES = 300000, MOST_KB = 400000 };
  const pid_t child = fork(); /* because emulator_only_last_block() holds until the process ends */
  if (child == 0) {
    void *memory;
    struct rusage used;
    emulator_only_last_block(20000000);
    if (cudaMalloc(&memory, (size_t)8 << 30) != cudaSuccess) _exit(1);
    write_pages(memory, PAGES);
    getrusage(RUSAGE_SELF, &used);
    _exit(used.ru_maxrss <= MOST_KB ? 0 : 2);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

#else

TEST(errors_are_found_with_their_lines) {
  print_message("there is no C++ compiler\n");
  skip();
}
#endif
