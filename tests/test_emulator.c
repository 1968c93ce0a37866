/* The emulator's watch finds what is planted in emulated/planted.cu, each with the line of the
   source, and finds nothing where nothing is; what it counts is what the lab's columns predict. */

#include "support/test.h"

#ifdef HAVE_EMULATOR
#include <cuda_runtime_api.h>

#include "emulator/emulator.h"

void plant(int which, const float *d_x, float *d, float *d_freed);

enum { VALUES = 256, MOST = 4096 };

static float *new_array(const char *name, bool is_constant) {
  void *memory;
  assert_int_equal(cudaMalloc(&memory, VALUES * sizeof(float)), cudaSuccess);
  memset(memory, 0, VALUES * sizeof(float));
  emulator_name(memory, name, 1, VALUES, sizeof(float), is_constant);
  return memory;
}

/* What is told of a plant, until the next call. */
static const char *told(int which, bool costs) {
  static char text[MOST];
  float *x = new_array("x", true), *d = new_array("d", false), *gone = new_array("gone", false);
  cudaFree(gone);
  emulator_forget();
  plant(which, x, d, gone);
  emulator_told(costs, 3, text, sizeof text);
  for (char *at; (at = strstr(text, "tests/emulated/"));)
    memmove(at, at + strlen("tests/emulated/"), strlen(at) + 1 - strlen("tests/emulated/"));
  cudaGetLastError();
  cudaFree(x);
  cudaFree(d);
  return text;
}

/* Plants 15 and 17 are right, and nothing is found there. Two cost time. */
TEST(errors_are_found_with_their_lines) {
#define NO_BARRIER(times)                                                                          \
  ", and there is no __syncwarp() or __syncthreads() between (" times " times)\n"
  static const char *const all[] = {
      "planted.cu:23: block 0, thread 16 writes tile[16]; thread 1 reads it at "
      "planted.cu:24" NO_BARRIER("120"),
      "planted.cu:31: block 0, thread 16 reads tile[1]; thread 1 writes it at "
      "planted.cu:29" NO_BARRIER("120"),
      "planted.cu:37: block 0, thread 0 reads x[256], and x has elements 0 to 255\n",
      "planted.cu:42: block 0, thread 1 writes d[0]; thread 0 writes it at "
      "planted.cu:42" NO_BARRIER("255"),
      "planted.cu:48: in block 0, 240 threads wait at __syncthreads, and 16 have returned without "
      "it, the first is thread 48\n",
      "planted.cu:54: in block 0, thread 0 waits at this __syncthreads, and thread 8 at that of "
      "planted.cu:55 (128 times)\nplanted.cu:55: in block 0, 128 threads wait at __syncthreads, "
      "and 128 have returned without it, the first is thread 8\n",
      "planted.cu:60: block 0, thread 16 is lane 16, which is not in its mask 0x0000ffff\n",
      "planted.cu:65: block 0, thread 0 gets the value of lane 16, which is not there (there are "
      "0x0000ffff) (128 times)\n",
      "planted.cu:72: block 0, thread 9 reads tile[9], shared memory that no thread of the block "
      "has written (112 times)\n",
      "planted.cu:78: block 0, thread 1 writes line[1]; thread 0 reads it at "
      "planted.cu:79" NO_BARRIER("255"),
      "planted.cu:85: a load: 32.0 sectors for a request, of which it uses 128 of 1024 bytes\n",
      "planted.cu:94: a load of shared memory: 32.0 turns of the banks for a request, where 1.0 "
      "would do\n",
      "planted.cu:105: block 0, thread 0 has index 16 in an array of type 'float[16]'\n",
      "planted.cu:110: block 0, thread 0 writes x[0], which is const\n",
      "planted.cu:114: block 0, thread 0 writes gone, which has been freed\n",
      "",
      "planted.cu:98: block 1, thread 0 writes d[256], and d has elements 0 to 255\n",
      "",
      "planted.cu:169: the host reads x[0], memory of the device\n"};
  for (int i = 0; i < 19; i++) {
    const char *text = told(i, i == 10 || i == 11);
    if (strcmp(text, all[i]) != 0) fail_msg("plant %d: \"%s\", not \"%s\"", i, text, all[i]);
  }
}

/* (256 255 / 2) and 8 of 32; of lane 5 its neighbour's 6, and 7. */
TEST(groups_are_as_cuda_s) {
  float *d = new_array("d", false);
  emulator_forget();
  plant(19, NULL, d, NULL);
  assert_true(d[5] == 32640 + 256 + 6 + 7);
  assert_true(d[31] == 32640 + 256 + 31 + 29); /* the last of a tile keeps its own */
  for (int costs = 0; costs < 2; costs++) {
    char text[MOST];
    emulator_told(costs, 1, text, sizeof text);
    assert_string_equal(text, "");
  }
  assert_int_equal(emulator_counts().barriers, 1);
  cudaFree(d);
}

/* Lanes that take a branch in different rounds of a loop ask apart: 8 requests of a warp, not 4. */
TEST(requests_are_joined_by_rounds) {
  told(15, false);
  const EmulatorCounts counts = emulator_counts();
  assert_int_equal(counts.launches, 1);
  assert_int_equal(counts.requests, 8 * 8 + 8); /* and 8 stores, of 4 sectors */
  assert_int_equal(counts.sectors, 8 * (2 * 4 + 6 * 5) + 8 * 4);
}

#else

TEST(errors_are_found_with_their_lines) {
  print_message("there is no C++ compiler\n");
  skip();
}
#endif
