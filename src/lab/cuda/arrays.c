#include "lab/harness.h"

#include <string.h>

#include "base/sizes.h"
#include "engine/cuda/gpu_limits.h"
#include "measure/cuda/rung.h"

const LabTopic *const lab_topics[] = {&lab_vector,   &lab_reduce,        &lab_softmax,
                                      &lab_matmul,   &lab_transpose,     &lab_histogram,
                                      &lab_pairwise, &lab_copy_patterns, &lab_divergence,
                                      &lab_constant,
#ifndef ON_EMULATOR /* the emulator has no special function units, host link or times */
                                      &lab_math,     &lab_transfers,
#endif
                                      NULL};

enum { FIELD = 21, LARGE_EVERY = 61 };

/* Returns the sum of three uniform numbers from -1 to 1 (of 21 bits each). Its variance is 1. */
static float sum_of_three(uint64_t bits) {
  int32_t sum = -3 * (1 << (FIELD - 1));
  for (int i = 0; i < 3; i++) sum += (int32_t)(bits >> i * FIELD & ((1u << FIELD) - 1));
  return (float)sum * 0x1p-20f;
}

/* Rounds a float32 that is not NaN to the nearest bfloat16, ties to even. */
static uint16_t bfloat16_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

void lab_in_parts(int64_t count, int64_t each,
                  void (*part)(const void *context, int64_t first, int64_t end),
                  const void *context) {
#pragma omp parallel for schedule(dynamic)
  for (int64_t i = 0; i < (count + each - 1) / each; i++)
    part(context, i * each, i * each + each < count ? i * each + each : count);
}

void lab_fill(LabType type, void *h_values, int64_t count, uint64_t seed) {
#pragma omp parallel for
  for (int64_t pair = 0; pair < (count + 1) / 2; pair++) {
    const RandomWords words = random_words(seed, 0, (uint64_t)pair);
    for (int k = 0; k < 2 && 2 * pair + k < count; k++) {
      const int64_t i = 2 * pair + k;
      const uint64_t bits = (uint64_t)words.word[2 * k + 1] << 32 | words.word[2 * k];
      const float value = sum_of_three(bits) * (i % LARGE_EVERY == 0 ? 100.0f : 1.0f);
      if (type == LAB_BFLOAT16)
        ((uint16_t *)h_values)[i] = bfloat16_of(value);
      else
        ((float *)h_values)[i] = value;
    }
  }
}

enum { ALIGNMENT = 256, PAGE = 4096, GUARD = 1024 }; /* bytes */
enum { POISON = 0xFF, MAX_COPIES = 64, WATCHED_BYTES = 1 << 24 };

static bool is_on_host(const LabArrays *a, int block) {
  return a->topic->on_host && block != LAB_WORK;
}

static bool is_pageable(int block) {
  return block >= LAB_PAGEABLE && block != LAB_WORK;
}

/* Returns the bytes from the start of one copy of a block to the start of the next copy. */
static size_t stride_of(const LabArrays *a, int block) {
  return round_up(a->blocks[block].bytes, ALIGNMENT) + a->guard;
}

/* Returns the bytes of `copies` copies of a block, or of one copy of LAB_WORK, with all guards. */
static size_t size_of(const LabArrays *a, int block, int copies) {
  const size_t bytes = a->blocks[block].bytes;
  const size_t more = block == LAB_WORK ? 0 : (size_t)copies - 1;
  return bytes ? more * stride_of(a, block) + bytes + 2 * a->guard : 0;
}

static void *copy_of(const LabArrays *a, int block, int copy) {
  uint8_t *start = a->blocks[block].start;
  return start ? start + a->guard + (size_t)copy * stride_of(a, block) : NULL;
}

static cudaError_t poison(const LabArrays *a, int block, int copies) {
  void *start = a->blocks[block].start;
  const size_t bytes = size_of(a, block, copies);
  if (!start) return cudaSuccess;
  if (!is_on_host(a, block)) return cudaMemset(start, POISON, bytes);
  memset(start, POISON, bytes);
  return cudaSuccess;
}

static bool open_block(LabArrays *a, int block, Error *error) {
  const size_t bytes = size_of(a, block, a->copies);
  void *memory = NULL;
  if (bytes == 0) return true;
  if (is_pageable(block))
    memory = aligned_alloc(PAGE, round_up(bytes, PAGE)); /* its pages hold no other data */
  else if (!cuda_done(is_on_host(a, block) ? cudaMallocHost(&memory, bytes)
                                           : cudaMalloc(&memory, bytes),
                      "allocating arrays", error))
    return false;
  a->blocks[block].start = memory;
  if (!memory) return error_set(error, "no memory for the arrays of %s", a->topic->name);
  return cuda_done(poison(a, block, a->copies), "clearing arrays", error);
}

/* Sets the bytes of each block. */
static void plan_blocks(LabArrays *a) {
  const LabTopic *t = a->topic;
  bool pageable = false;
  foreach_rung (rung, t) {
    size_t *most = &a->blocks[LAB_WORK].bytes;
    pageable |= rung->pageable;
    if (!rung->work || !lab_belongs(rung, a->call.problem) || *lab_refusal(rung, &a->call).text)
      continue;
    const size_t bytes = rung->work(&a->call);
    if (bytes > *most) *most = bytes;
  }
  for (int b = 0; b < LAB_PAGEABLE; b++) {
    const int array = b == LAB_OUT ? -1 : b, width = lab_width(t, a->call.problem, array);
    if (width)
      a->blocks[b].bytes =
          (size_t)width * (size_t)lab_count(t, a->call.problem, a->call.size, array);
    if (pageable) a->blocks[LAB_PAGEABLE + b].bytes = a->blocks[b].bytes;
  }
}

static size_t device_bytes(const LabArrays *a, int copies) {
  size_t sum = 0;
  for (int b = 0; b < LAB_BLOCKS; b++)
    if (!is_on_host(a, b)) sum += size_of(a, b, copies);
  return sum;
}

/* Sets the number of copies. Timed calls use one copy after another. If GPU memory is large enough,
   all copies together have twice the L2 cache's size, so that no call finds its data there. */
static bool choose_copies(LabArrays *a, Error *error) {
  int device, cache;
  size_t left, all;
  if (!cuda_done(cudaGetDevice(&device), "finding the device", error) ||
      !cuda_done(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device),
                 "finding the cache", error) ||
      !cuda_done(cudaMemGetInfo(&left, &all), "querying free memory", error))
    return false;
  const size_t once = device_bytes(a, 1), arrays = once - a->blocks[LAB_WORK].bytes;
  a->copies = 1;
  if (a->how->times && !a->topic->on_host)
    while (a->copies < MAX_COPIES && (size_t)a->copies * arrays < 2 * (size_t)cache) a->copies++;
  if (device_bytes(a, a->copies) > left) a->copies = 1;
  return once <= left ||
         error_too_large(
             error,
             "%s at %s needs %.1f GB on the GPU, which has %.1f GB free: give a smaller --size",
             a->topic->name, lab_size_text(a->topic, a->call.size).text, (double)once / 1e9,
             (double)left / 1e9);
}

/* Generates input i and writes it to all its copies. */
static bool fill_input(LabArrays *a, int i, Error *error) {
  const LabProblem *problem = a->problem;
  const size_t bytes = a->blocks[i].bytes;
  if (bytes == 0) return true;
  const int64_t count = lab_count(a->topic, a->call.problem, a->call.size, i);
  const uint64_t seed = a->how->seed;
  void *h_values = a->h_in[i] = malloc(bytes);
  if (!h_values) return error_set(error, "no memory for the inputs of %s", a->topic->name);
  if (problem->fill)
    problem->fill(a->call.size, i, h_values, count, seed);
  else
    lab_fill(problem->in[i], h_values, count, seed + (uint64_t)i);
  for (int b = i; b < LAB_WORK; b += LAB_PAGEABLE)
    for (int c = 0; c < a->copies && a->blocks[b].start; c++)
      if (!cuda_done(cudaMemcpy(copy_of(a, b, c), h_values, bytes, cudaMemcpyDefault),
                     "copying inputs", error))
        return false;
  return true;
}

bool lab_arrays_open(LabArrays *arrays, const LabTopic *topic, int problem, LabSize size,
                     const LabHow *how, Error *error) {
  LabArrays *a = arrays;
  *a = (LabArrays){.topic = topic,
                   .problem = &topic->problems[problem],
                   .call = {.problem = problem, .size = size, .gpu = &a->gpu},
                   .how = how,
                   .guard = how->guarded ? GUARD : 0};
  if (!gpu_limits_read(&a->gpu, error)) return false;
  plan_blocks(a);
  if (!choose_copies(a, error)) return false;
  for (int b = 0; b < LAB_BLOCKS; b++)
    if (!open_block(a, b, error)) return false;
  const size_t bytes = a->blocks[LAB_OUT].bytes;
  a->h_out = malloc(bytes > WATCHED_BYTES ? bytes : WATCHED_BYTES);
  if (!a->h_out) return error_set(error, "no memory for the output of %s", a->topic->name);
  for (int i = 0; i < LAB_INPUTS; i++)
    if (!fill_input(a, i, error)) return false;
  return cuda_done(cudaDeviceSynchronize(), "copying inputs", error);
}

void lab_arrays_close(LabArrays *arrays) {
  for (int b = 0; b < LAB_BLOCKS; b++) {
    void *start = arrays->blocks[b].start;
    if (is_pageable(b))
      free(start);
    else if (is_on_host(arrays, b))
      cudaFreeHost(start);
    else
      cudaFree(start);
  }
  for (int i = 0; i < LAB_INPUTS; i++) free(arrays->h_in[i]);
  free(arrays->h_out);
  free(arrays->expected);
  free(arrays->allowed);
}

LabCall lab_arrays_call(const LabArrays *arrays, const LabRung *rung, int64_t point, int copy) {
  LabCall call = arrays->call;
  const int first = rung->pageable ? LAB_PAGEABLE : 0;
  const bool on_host = arrays->topic->on_host;
  *(on_host ? &call.h_out : &call.d_out) = copy_of(arrays, first + LAB_OUT, copy);
  for (int i = 0; i < LAB_INPUTS; i++)
    (on_host ? call.h_in : call.d_in)[i] = copy_of(arrays, first + i, copy);
  call.d_work = copy_of(arrays, LAB_WORK, 0);
  call.point = point;
  return call;
}

bool lab_arrays_poison(const LabArrays *arrays, Error *error) {
  return cuda_done(poison(arrays, LAB_OUT, 1), "poisoning the output", error) &&
         cuda_done(poison(arrays, LAB_PAGEABLE + LAB_OUT, 1), "poisoning the output", error) &&
         cuda_done(poison(arrays, LAB_WORK, 1), "poisoning the work", error) &&
         cuda_done(cudaDeviceSynchronize(), "poisoning", error);
}

/* Checks the guard bytes around the first copy of the block. If the block is an input of at most
   WATCHED_BYTES, also checks that the rung did not change the input. */
static cudaError_t inspect(const LabArrays *a, int block, const char **outside) {
  const size_t bytes = a->blocks[block].bytes;
  const uint8_t *first = copy_of(a, block, 0);
  const int array = block % LAB_PAGEABLE;
  uint8_t guards[2 * GUARD];
  if (!first) return cudaSuccess;
  TRY(cudaMemcpy(guards, first - a->guard, a->guard, cudaMemcpyDefault));
  TRY(cudaMemcpy(guards + a->guard, first + bytes, a->guard, cudaMemcpyDefault));
  const char *wrong =
      array == LAB_OUT ? "it wrote outside of the output" : "it wrote outside of an input";
  if (block == LAB_WORK) wrong = "it wrote outside of its work";
  for (size_t i = 0; i < 2 * a->guard; i++)
    if (guards[i] != POISON) *outside = wrong;
  if (block == LAB_WORK || array == LAB_OUT || bytes > WATCHED_BYTES) return cudaSuccess;
  TRY(cudaMemcpy(a->h_out, first, bytes, cudaMemcpyDefault));
  if (memcmp(a->h_out, a->h_in[array], bytes) != 0) *outside = "it changed an input";
  return cudaSuccess;
}

bool lab_arrays_inspect(const LabArrays *arrays, const char **outside, Error *error) {
  *outside = NULL;
  for (int b = 0; b < LAB_BLOCKS; b++)
    if (!cuda_done(inspect(arrays, b, outside), "fetching the guards", error)) return false;
  return true;
}

bool lab_arrays_fetch(const LabArrays *arrays, const LabRung *rung, int64_t first, int64_t count,
                      Error *error) {
  const int out = LAB_OUT + (rung->pageable ? LAB_PAGEABLE : 0);
  const size_t width = (size_t)lab_width(arrays->topic, arrays->call.problem, -1),
               start = (size_t)first * width;
  return cuda_done(cudaMemcpy((uint8_t *)arrays->h_out + start,
                              (const uint8_t *)copy_of(arrays, out, 0) + start,
                              (size_t)count * width, cudaMemcpyDefault),
                   "fetching the output", error);
}
