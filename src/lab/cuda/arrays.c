#include "lab/harness.h"

#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"
#include "engine/cuda/gpu_limits.h"
#include "measure/cuda/gpu_rates.h"

enum { ALIGNMENT = 256, POISON = 0xFF, MAX_COPIES = 64, WATCHED_BYTES = 1 << 24 };

/* ---- how much ------------------------------------------------------------------------------- */

static size_t element_bytes(const LabArrays *a, int array) {
  const LabProblem *problem = &a->topic->problems[a->problem];
  return array >= 0 && problem->in[array] == LAB_BFLOAT16 ? 2 : 4;
}

static size_t bytes_of(const LabArrays *a, int array) {
  return element_bytes(a, array) * (size_t)a->topic->count(a->size, array);
}

/* From one copy to the next. */
static size_t stride_of(const LabArrays *a, const LabBlock *block) {
  return round_up(block->bytes, ALIGNMENT) + a->guard;
}

static size_t size_of(const LabArrays *a, const LabBlock *block, int copies) {
  return a->guard + (size_t)(copies - 1) * stride_of(a, block) + block->bytes + a->guard;
}

static size_t work_bytes(const LabArrays *a) {
  const LabTopic *t = a->topic;
  size_t most = 0;
  for (int i = 0; i < t->rung_count; i++) {
    const LabRung *rung = &t->rungs[i];
    if (!rung->work || !lab_belongs(rung, a->problem) ||
        *lab_refusal(rung, &a->gpu, a->problem, a->size).text)
      continue;
    const size_t bytes = rung->work(&a->gpu, a->problem, a->size);
    if (bytes > most) most = bytes;
  }
  return most;
}

static bool has_pageable(const LabTopic *topic) {
  for (int i = 0; i < topic->rung_count; i++)
    if (topic->rungs[i].pageable) return true;
  return false;
}

/* The blocks' sizes and places, without memory yet. */
static void plan_blocks(LabArrays *a) {
  const LabProblem *problem = &a->topic->problems[a->problem];
  const int places = a->topic->on_host && has_pageable(a->topic) ? LAB_PLACES : 1;
  for (int p = 0; p < places; p++) {
    const LabBlock block = {.on_host = a->topic->on_host, .pageable = p == LAB_PAGEABLE};
    for (int i = 0; i < LAB_INPUTS && problem->in[i] != LAB_NOTHING; i++) {
      a->in[p][i] = block;
      a->in[p][i].bytes = bytes_of(a, i);
    }
    a->out[p] = block;
    a->out[p].bytes = bytes_of(a, -1);
  }
  a->work.bytes = work_bytes(a);
}

/* Device memory of all that is not on the host. */
static size_t device_bytes(const LabArrays *a, int copies) {
  size_t sum = a->work.bytes ? size_of(a, &a->work, 1) : 0;
  if (a->topic->on_host) return sum;
  for (int i = 0; i < LAB_INPUTS; i++)
    if (a->in[0][i].bytes) sum += size_of(a, &a->in[0][i], copies);
  return sum + size_of(a, &a->out[0], copies);
}

/* So many that the arrays, one copy after the other, fill the L2 cache twice. */
static bool choose_copies(LabArrays *a, bool rotated, bool *fits, Error *error) {
  int device, cache;
  size_t left, all;
  if (!cuda_done(cudaGetDevice(&device), "finding the device", error) ||
      !cuda_done(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device),
                 "finding the cache", error) ||
      !cuda_done(cudaMemGetInfo(&left, &all), "querying free memory", error))
    return false;
  const size_t arrays = device_bytes(a, 1) - a->work.bytes;
  a->copies = 1;
  if (rotated && !a->topic->warm && !a->topic->on_host)
    while (a->copies < MAX_COPIES && (size_t)a->copies * arrays < 2 * (size_t)cache) a->copies++;
  if (device_bytes(a, a->copies) > left) a->copies = 1;
  *fits = device_bytes(a, 1) <= left;
  if (*fits) return true;
  return error_set(error,
                   "%s at %s needs %.1f GB on the GPU, which has %.1f GB free: give a "
                   "smaller --size",
                   a->topic->name, lab_size_text(a->topic, a->size).text,
                   (double)device_bytes(a, 1) / 1e9, (double)left / 1e9);
}

/* ---- blocks --------------------------------------------------------------------------------- */

static cudaError_t fill_bytes(const LabBlock *block, void *at, size_t bytes) {
  if (!block->on_host) return cudaMemset(at, POISON, bytes);
  memset(at, POISON, bytes);
  return cudaSuccess;
}

static bool open_block(LabArrays *a, LabBlock *block, int copies, Error *error) {
  void *memory = NULL;
  const size_t bytes = size_of(a, block, copies);
  if (block->bytes == 0) return true;
  if (block->pageable)
    memory = aligned_alloc(ALIGNMENT, round_up(bytes, ALIGNMENT));
  else if (!cuda_done(block->on_host ? cudaMallocHost(&memory, bytes) : cudaMalloc(&memory, bytes),
                      "allocating arrays", error))
    return false;
  block->start = memory;
  if (!memory) return error_set(error, "no memory for the arrays of %s", a->topic->name);
  return cuda_done(fill_bytes(block, memory, bytes), "clearing arrays", error);
}

static void close_block(LabBlock *block) {
  if (block->pageable)
    free(block->start);
  else if (block->on_host)
    cudaFreeHost(block->start);
  else
    cudaFree(block->start);
}

void *lab_block_copy(const LabArrays *arrays, const LabBlock *block, int copy) {
  if (!block->start) return NULL;
  return block->start + arrays->guard + (size_t)copy * stride_of(arrays, block);
}

/* Input i everywhere. */
static bool fill_input(LabArrays *a, int i, uint64_t seed, Error *error) {
  const LabProblem *problem = &a->topic->problems[a->problem];
  const size_t bytes = a->in[0][i].bytes;
  const int64_t count = (int64_t)(bytes / element_bytes(a, i));
  void *h_values = malloc(bytes);
  a->h_in[i] = h_values;
  if (!h_values) return error_set(error, "no memory for the inputs of %s", a->topic->name);
  if (problem->fill)
    problem->fill(a->size, i, h_values, count, seed);
  else
    lab_fill(problem->in[i], h_values, count, seed + (uint64_t)i);
  for (int p = 0; p < LAB_PLACES; p++)
    for (int c = 0; c < a->copies && a->in[p][i].start; c++)
      if (!cuda_done(
              cudaMemcpy(lab_block_copy(a, &a->in[p][i], c), h_values, bytes, cudaMemcpyDefault),
              "copying inputs", error))
        return false;
  return true;
}

bool lab_arrays_open(LabArrays *arrays, const LabTopic *topic, int problem, LabSize size,
                     size_t guard, bool rotated, uint64_t seed, bool *fits, Error *error) {
  LabArrays *a = arrays;
  *a = (LabArrays){.topic = topic, .problem = problem, .size = size, .guard = guard};
  *fits = true;
  if (!gpu_limits_read(&a->gpu, error)) return false;
  plan_blocks(a);
  if (!choose_copies(a, rotated, fits, error) || !open_block(a, &a->work, 1, error)) return false;
  for (int p = 0; p < LAB_PLACES; p++) {
    for (int i = 0; i < LAB_INPUTS; i++)
      if (!open_block(a, &a->in[p][i], a->copies, error)) return false;
    if (!open_block(a, &a->out[p], a->copies, error)) return false;
  }
  a->h_out = malloc(a->out[0].bytes);
  if (!a->h_out) return error_set(error, "no memory for the output of %s", topic->name);
  for (int i = 0; i < LAB_INPUTS; i++)
    if (a->in[0][i].start && !fill_input(a, i, seed, error)) return false;
  return cuda_done(cudaDeviceSynchronize(), "copying inputs", error);
}

void lab_arrays_close(LabArrays *arrays) {
  for (int p = 0; p < LAB_PLACES; p++) {
    for (int i = 0; i < LAB_INPUTS; i++) close_block(&arrays->in[p][i]);
    close_block(&arrays->out[p]);
  }
  close_block(&arrays->work);
  for (int i = 0; i < LAB_INPUTS; i++) free(arrays->h_in[i]);
  free(arrays->h_out);
  *arrays = (LabArrays){0};
}

/* ---- before and after a call ---------------------------------------------------------------- */

static int place_of(const LabRung *rung) {
  return rung->pageable ? LAB_PAGEABLE : LAB_PINNED;
}

/* The first copy with its guards, which a rung before may have written to. */
static cudaError_t poison(const LabArrays *a, const LabBlock *block) {
  return block->start ? fill_bytes(block, block->start, size_of(a, block, 1)) : cudaSuccess;
}

bool lab_arrays_poison(const LabArrays *arrays, const LabRung *rung, Error *error) {
  return cuda_done(poison(arrays, &arrays->out[place_of(rung)]), "poisoning the output", error) &&
         cuda_done(poison(arrays, &arrays->work), "poisoning the work", error) &&
         cuda_done(cudaDeviceSynchronize(), "poisoning", error);
}

static bool is_poison(const uint8_t *bytes, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (bytes[i] != POISON) return false;
  return true;
}

/* The guards before and behind the first copy. */
static cudaError_t guards_hold(const LabArrays *a, const LabBlock *block, bool *hold) {
  uint8_t *guards = malloc(2 * a->guard + 1);
  *hold = true;
  if (!block->start || !guards || a->guard == 0) {
    free(guards);
    return guards ? cudaSuccess : cudaErrorMemoryAllocation;
  }
  const uint8_t *first = lab_block_copy(a, block, 0);
  cudaError_t status = cudaMemcpy(guards, first - a->guard, a->guard, cudaMemcpyDefault);
  if (status == cudaSuccess)
    status = cudaMemcpy(guards + a->guard, first + block->bytes, a->guard, cudaMemcpyDefault);
  *hold = is_poison(guards, 2 * a->guard);
  free(guards);
  return status;
}

/* Compares inputs that are short enough to be fetched each time. */
static cudaError_t input_holds(const LabArrays *a, const LabBlock *block, const void *h_values,
                               bool *hold) {
  *hold = true;
  if (!block->start || block->bytes > WATCHED_BYTES) return cudaSuccess;
  void *copy = malloc(block->bytes);
  if (!copy) return cudaErrorMemoryAllocation;
  const cudaError_t status =
      cudaMemcpy(copy, lab_block_copy(a, block, 0), block->bytes, cudaMemcpyDefault);
  *hold = memcmp(copy, h_values, block->bytes) == 0;
  free(copy);
  return status;
}

static cudaError_t find_outside(const LabArrays *a, int place, const char **outside) {
  bool hold;
  *outside = NULL;
  TRY(guards_hold(a, &a->out[place], &hold));
  if (!hold) *outside = "it wrote outside of the output";
  TRY(guards_hold(a, &a->work, &hold));
  if (!hold) *outside = "it wrote outside of its work";
  for (int i = 0; i < LAB_INPUTS; i++) {
    TRY(guards_hold(a, &a->in[place][i], &hold));
    if (!hold) *outside = "it wrote outside of an input";
    TRY(input_holds(a, &a->in[place][i], a->h_in[i], &hold));
    if (!hold) *outside = "it changed an input";
  }
  return cudaSuccess;
}

bool lab_arrays_fetch(const LabArrays *arrays, const LabRung *rung, const char **outside,
                      Error *error) {
  const LabBlock *out = &arrays->out[place_of(rung)];
  return cuda_done(find_outside(arrays, place_of(rung), outside), "fetching the guards", error) &&
         cuda_done(cudaMemcpy(arrays->h_out, lab_block_copy(arrays, out, 0), out->bytes,
                              cudaMemcpyDefault),
                   "fetching the output", error);
}
