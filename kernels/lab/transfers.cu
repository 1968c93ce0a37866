/* Transfers and streams: the device computes h_y[i] = f(h_x[i]) for arrays in host memory. Copying
   in, computing and copying out each have their own engine. The ladder cuts the array into chunks.
   While one chunk is computed, the next chunk is copied in and the previous chunk is copied out.
   With c chunks the best possible speed is c / (c + 2) of the perfect speed. More chunks help until
   the calls for a chunk take as long as its copy. */
#include "lab/lab.cuh"

#include <algorithm>
#include <cmath>

namespace {

/* The number of multiply-adds in f, a multiple of UNROLLED. On an H100 they take 0.069 ns per
   element. Copying the 4 bytes of an element at 55 GB/s takes 0.073 ns; the loop fills the gap. */
constexpr int STEPS = 2304, UNROLLED = 64;

/* Returns 3/8 y + 1/4 x, rounded once. Repeated steps bring y to the fixed point 2/5 x. */
__host__ __device__ float step(float y, float quarter_x) {
  return fmaf(0.375f, y, quarter_x);
}

/* After about SETTLED steps y no longer changes. f() then skips the other steps. */
constexpr int SETTLED = 20;

float f(float x) {
  float y = x;
  for (int s = 0; s < STEPS; s++) {
    const float next = step(y, 0.25f * x);
    if (next == y) break;
    y = next;
  }
  return y;
}

constexpr int THREADS = 256;

/* y[i] = f(x[i]). A thread computes one element and always takes all STEPS steps. */
__global__ void __launch_bounds__(THREADS)
    compute_kernel(const float *d_x, float *d_y, int64_t count) {
  const int64_t i = lab_thread(THREADS);
  if (i >= count) return;
  const float x = d_x[i], quarter_x = 0.25f * x;
  float y = x;
#pragma unroll UNROLLED
  for (int s = 0; s < STEPS; s++) y = step(y, quarter_x);
  d_y[i] = y;
}

enum Stage { COPY_IN, COMPUTE, COPY_OUT, STAGES };

constexpr int64_t EDGE = 64; /* floats in 256 bytes, to which arrays and chunks are aligned */

/* Cuts an array into at most `wanted` chunks of `each` elements. The last chunk may be shorter. */
struct Chunks {
  int64_t length, each;
  int count;

  Chunks(LabSize size, int64_t wanted) : length(size.dim[0]) {
    each = round_up(ceil_div(length, wanted), EDGE);
    count = (int)ceil_div(length, each);
  }
};

/* Returns the bytes of d_work. It holds all of x and all of y, so each chunk has its own place. */
size_t work(const LabCall *call) {
  return 2 * sizeof(float) * (size_t)round_up(call->size.dim[0], EDGE);
}

/* Queues the work of one call, and keeps the first error. */
struct Queue {
  const LabCall *call;
  Chunks chunks;
  int streams;
  float *d_x, *d_y;
  cudaError_t status = cudaSuccess;

  /* Makes the first `count` of the call's streams wait for earlier work on call->stream. finish()
     makes call->stream wait for these streams. */
  Queue(const LabCall *c, int64_t wanted, int count = 0)
      : call(c), chunks(c->size, wanted), streams(count), d_x((float *)c->d_work),
        d_y(d_x + round_up(c->size.dim[0], EDGE)) {
    for (int s = 0; s < streams; s++) after(call->streams[s], call->stream);
  }
  cudaError_t finish() {
    for (int s = 0; s < streams; s++) after(call->stream, call->streams[s]);
    return status;
  }

  void note(cudaError_t s) {
    if (status == cudaSuccess) status = s;
  }

  /* Makes `later` wait for all work that is now on `earlier`. call->event is then free again. */
  void after(cudaStream_t later, cudaStream_t earlier) {
    note(cudaEventRecord(call->event, earlier));
    note(cudaStreamWaitEvent(later, call->event, 0));
  }

  void add(Stage stage, int chunk, cudaStream_t on) {
    const int64_t first = chunk * chunks.each;
    const int64_t count = std::min(chunks.each, chunks.length - first);
    const size_t bytes = (size_t)count * sizeof(float);
    if (stage == COPY_IN) {
      const float *h_x = (const float *)call->h_in[0];
      note(cudaMemcpyAsync(d_x + first, h_x + first, bytes, cudaMemcpyHostToDevice, on));
    } else if (stage == COPY_OUT) {
      float *h_y = (float *)call->h_out;
      note(cudaMemcpyAsync(h_y + first, d_y + first, bytes, cudaMemcpyDeviceToHost, on));
    } else {
      LabCall there = *call;
      there.stream = on;
      note(lab_launch(&there, compute_kernel, lab_blocks(count, THREADS), THREADS, 0, d_x + first,
                      d_y + first, count));
    }
  }
};

/* Queues the stages FIRST to END - 1 for the whole array on one stream. The rungs `pageable` and
   `pinned` differ only in the kind of host memory. */
template <int FIRST = 0, int END = STAGES> cudaError_t launch_whole(const LabCall *call) {
  Queue queue(call, 1);
  for (int stage = FIRST; stage < END; stage++) queue.add((Stage)stage, 0, call->stream);
  return queue.finish();
}

/* Computes all outputs on the host before it returns: nothing is copied or launched. f stops where
   y no longer changes, but the kernel always takes all steps, because they stand for longer work.
 */
cudaError_t launch_host(const LabCall *call) {
  const float *h_x = (const float *)call->h_in[0];
  float *h_y = (float *)call->h_out;
#pragma omp parallel for if (call->size.dim[0] >= 4096) /* starting threads takes microseconds */
  for (int64_t i = 0; i < call->size.dim[0]; i++) h_y[i] = f(h_x[i]);
  return cudaSuccess;
}

/* Pins whole pages, as the arrays start inside a page. (The pages hold no other data.) */
struct Registered {
  static constexpr uintptr_t PAGE = 4096;
  void *start;
  cudaError_t status;

  Registered(const void *array, size_t bytes)
      : start((void *)((uintptr_t)array & ~(PAGE - 1))),
        status(cudaHostRegister(start, round_up((uintptr_t)array + bytes, PAGE) - (uintptr_t)start,
                                cudaHostRegisterDefault)) {
  }
  cudaError_t end() const {
    return status == cudaSuccess ? cudaHostUnregister(start) : status;
  }
};

/* Pins the arrays, does the work of `pinned`, and unpins them. It waits for the copies, because
   they must not lose their memory. */
cudaError_t launch_registered(const LabCall *call) {
  const size_t bytes = sizeof(float) * (size_t)call->size.dim[0];
  const Registered in(call->h_in[0], bytes), out(call->h_out, bytes);
  cudaError_t status = cudaSuccess;
  if (in.status == cudaSuccess && out.status == cudaSuccess) {
    const cudaError_t launched = launch_whole(call), waited = cudaStreamSynchronize(call->stream);
    status = launched == cudaSuccess ? waited : launched;
  }
  for (const Registered *array : {&in, &out}) {
    const cudaError_t ended = array->end();
    if (status == cudaSuccess) status = ended;
  }
  return status;
}

/* Copies in both directions at once and computes nothing. No rung can take less time. */
cudaError_t launch_both_ways(const LabCall *call) {
  Queue queue(call, 1, 2);
  queue.add(COPY_IN, 0, call->streams[0]);
  queue.add(COPY_OUT, 0, call->streams[1]);
  return queue.finish();
}

/* The number of chunks in rungs without a sweep. 32 chunks take the time of 34 stages. */
constexpr int CHUNKS = 32;

/* Queues chunk i on stream i % STREAMS. A stream runs the three stages of a chunk in order. The
   host queues GROUP chunks at a time: the first stage of all of them, then the second, then the
   third. */
template <int STREAMS, int GROUP = 1> cudaError_t launch_streams(const LabCall *call) {
  Queue queue(call, CHUNKS, STREAMS);
  for (int first = 0; first < queue.chunks.count; first += GROUP)
    for (int stage = 0; stage < STAGES; stage++)
      for (int chunk = first; chunk < std::min(first + GROUP, queue.chunks.count); chunk++)
        queue.add((Stage)stage, chunk, call->streams[chunk % STREAMS]);
  return queue.finish();
}

/* Predicts the percentage of the perfect speed with COUNT chunks (call->point if COUNT is 0). Each
   stage of a chunk takes one unit of time and starts when its stream and its engine are free. */
template <int COUNT, int STREAMS> double predict(const LabCall *call) {
  const int chunks = Chunks(call->size, COUNT ? COUNT : call->point).count;
  double stream_free[LAB_STREAMS] = {}, engine_free[STAGES] = {};
  for (int chunk = 0; chunk < chunks; chunk++)
    for (double &engine : engine_free) {
      double &stream = stream_free[chunk % STREAMS];
      stream = engine = std::max(stream, engine) + 1.0;
    }
  return 100.0 * chunks / engine_free[COPY_OUT];
}

/* Uses one stream per stage. An event makes each stage of a chunk wait for the stage before it. The
   trainer feeds its GPU in this way. FORGOTTEN is the stage that does not wait, or STAGES. */
template <int FORGOTTEN = STAGES> cudaError_t launch_roles(const LabCall *call) {
  Queue queue(call, call->point ? call->point : CHUNKS, STAGES);
  for (int chunk = 0; chunk < queue.chunks.count; chunk++)
    for (int stage = 0; stage < STAGES; stage++) {
      if (stage > 0 && stage != FORGOTTEN)
        queue.after(call->streams[stage], call->streams[stage - 1]);
      queue.add((Stage)stage, chunk, call->streams[stage]);
    }
  return queue.finish();
}

const LabProblem problems[] = {
    {LAB_FLOATS,
     /* Counts two operations for each of SETTLED steps. The later steps change nothing. */
     lab_each<2 * SETTLED>,
     /* Demands exact results: f and the kernel do the same operations in the same order. */
     lab_exactly<f>, .bytes = lab_each<4>}}; /* bytes per element in one direction */

const int64_t CHUNK_COUNTS[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};

template <int STREAMS, int GROUP = 1>
constexpr LabRung streams_rung(const char *name, const char *lesson) {
  return {name, lesson, launch_streams<STREAMS, GROUP>, predict<CHUNKS, STREAMS>, .work = work};
}

const LabRung rungs[] = {
    {"pageable", "Ordinary memory: the host first copies it into a pinned buffer of the driver",
     launch_whole<>, .work = work, .pageable = true},
    {"pinned", "Page-locked memory: a copy engine reads it by itself; two of three engines wait",
     launch_whole<>, predict<1, 1>, .work = work, .all_sizes = true},
    {"registered",
     "cudaHostRegister pins memory that is there already, but pinning and unpinning take longer "
     "than the copies: do it once, not per copy",
     launch_registered, .work = work, .pageable = true},
    {"copy-in", "The first stage alone: the link, host to device",
     launch_whole<COPY_IN, COPY_IN + 1>, .kind = LAB_PART, .work = work},
    {"compute", "The second stage alone: f is chosen so that it takes as long as a copy",
     launch_whole<COMPUTE, COMPUTE + 1>, .kind = LAB_PART, .work = work, .all_sizes = true},
    {"copy-out", "The third stage alone; the longest of the three stages counts as perfect",
     launch_whole<COPY_OUT, COPY_OUT + 1>, .kind = LAB_PART, .work = work},
    {"both-ways", "Both copies at once: the real bandwidth of the link in two directions",
     launch_both_ways, .kind = LAB_PART, .work = work},
    streams_rung<1>("chunks",
                    "Chunks on one stream gain nothing: a stream does one thing after the other"),
    streams_rung<2>("streams-2", "Two streams keep two of the three engines busy"),
    streams_rung<4>(
        "streams-4",
        "With more streams than stages all engines work, except at the start and the end"),
    streams_rung<4, 4>(
        "breadth-first",
        "Issued stage by stage instead of chunk by chunk: it mattered where all streams shared one "
        "queue, until compute capability 3.5 gave each its own"),
    {"forgotten-event",
     "`roles` with 32 chunks, but kernels do not wait for their copies: nothing fails, and what "
     "they compute is chance, so nobody checks it",
     launch_roles<COMPUTE>, .kind = LAB_PART, .work = work},
    {"roles",
     "One stream per stage and one event per chunk: more chunks help, until the calls for each "
     "chunk cost more",
     launch_roles<>, predict<0, STAGES>, .work = work, LAB_ROWS(point, CHUNK_COUNTS)},
    {"host", "The CPU's cores, without copies and launches: for a short array they are faster",
     launch_host, .all_sizes = true}};

} // namespace

const LabTopic lab_transfers = {
    "transfers", "Copy in, compute, copy out: one after the other, or all at once", "elements",
    LAB_GB_PER_S, LAB_LADDER,
    /* 256 MiB each way; then where the host is faster, and where it no longer is */
    .sizes = {lab_size(1 << 26), lab_size(1 << 6), lab_size(1 << 8), lab_size(1 << 10),
              lab_size(1 << 12), lab_size(1 << 14), lab_size(1 << 16), lab_size(1 << 20)},
    .tested = lab_size(1000003), .on_host = true,
    .predicted_name = "% of perfect, the time of one copy", .point_name = "chunks",
    .metric = "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    .metric_name = "multiply-add units busy, %: such a kernel overlaps with copies alone"};
