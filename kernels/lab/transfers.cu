/* Transfers and streams: the device computes h_y[i] = f(h_x[i]) for arrays in host memory. Copying
   in, computing and copying out each have their own engine. The ladder cuts the array into chunks.
   While one chunk is computed, the next chunk is copied in and the previous chunk is copied out.
   With c chunks the best possible speed is c / (c + 2) of the perfect speed. More chunks help until
   the calls for a chunk take as long as its copy. */
#include "lab/lab.cuh"

#include <algorithm>
#include <cmath>

namespace {

/* How many multiply-adds f takes, a multiple of UNROLLED. On an H100 they take 0.069 ns per
   element; 4 bytes on a link of 55 GB/s take 0.073 ns. Loop and tail take the difference. */
constexpr int STEPS = 2304, UNROLLED = 64;

/* Takes one step towards the fixed point 2/5 x of y = 3/8 y + 1/4 x. Host and device round once. */
__host__ __device__ float step(float y, float quarter_x) {
  return fmaf(0.375f, y, quarter_x);
}

/* The host's shortcut: once a step changes nothing, no later step does. SETTLED steps get there. */
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

/* y[i] = f(x[i]), one thread per element, which always runs all STEPS steps. */
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

constexpr int64_t EDGE = 64; /* in floats: chunks are aligned to 256 bytes, like the arrays */

/* An array that is cut into at most `wanted` chunks of `each` elements. The last may be shorter. */
struct Chunks {
  int64_t length, each;
  int count;

  Chunks(LabSize size, int64_t wanted) : length(size.dim[0]) {
    each = round_up(ceil_div(length, wanted), EDGE);
    count = (int)ceil_div(length, each);
  }
};

/* Returns the bytes of device memory: all of x, then all of y, so each chunk has its own place. */
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

  /* The first `count` of the call's streams start after earlier work on call->stream. finish()
     makes call->stream wait for them. */
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

  /* Makes `later` wait for the work that `earlier` has now. The event may be reused at once. */
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

/* Queues the whole array on one stream. The rungs pageable and pinned differ only in the memory. */
template <int FIRST = 0, int END = STAGES> cudaError_t launch_whole(const LabCall *call) {
  Queue queue(call, 1);
  for (int stage = FIRST; stage < END; stage++) queue.add((Stage)stage, 0, call->stream);
  return queue.finish();
}

/* Copies both ways at once. The link and the host's memory let no rung be faster. */
cudaError_t launch_both_ways(const LabCall *call) {
  Queue queue(call, 1, 2);
  queue.add(COPY_IN, 0, call->streams[0]);
  queue.add(COPY_OUT, 0, call->streams[1]);
  return queue.finish();
}

/* The number of chunks in rungs without a sweep. Start and end waste 2 of 34 units of time. */
constexpr int CHUNKS = 32;

/* Queues chunk i on stream i mod STREAMS. A stream keeps the stages in order by itself. */
template <int STREAMS> cudaError_t launch_streams(const LabCall *call) {
  Queue queue(call, CHUNKS, STREAMS);
  for (int chunk = 0; chunk < queue.chunks.count; chunk++)
    for (int stage = 0; stage < STAGES; stage++)
      queue.add((Stage)stage, chunk, call->streams[chunk % STREAMS]);
  return queue.finish();
}

/* Returns the predicted percentage of the perfect speed. Every stage of every chunk takes one unit
   of time and starts when its stream and its engine are free. There are COUNT chunks, or
   call->point chunks if COUNT is 0. */
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

/* One stream per stage, with events from stage to stage. The trainer feeds its GPU in this way. */
cudaError_t launch_roles(const LabCall *call) {
  Queue queue(call, call->point, STAGES);
  for (int chunk = 0; chunk < queue.chunks.count; chunk++)
    for (int stage = 0; stage < STAGES; stage++) {
      if (stage > 0) queue.after(call->streams[stage], call->streams[stage - 1]);
      queue.add((Stage)stage, chunk, call->streams[stage]);
    }
  return queue.finish();
}

const LabProblem problems[] = {
    {LAB_FLOATS,
     /* Counts only the SETTLED steps that f needs. */
     lab_each<2 * SETTLED>,
     /* The reference does the same operations in the same order, rounded as IEEE 754 prescribes. */
     lab_exactly<f>, .bytes = lab_each<4>}}; /* bytes in one direction */

const int64_t CHUNK_COUNTS[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};

template <int STREAMS> constexpr LabRung streams_rung(const char *name, const char *lesson) {
  return {name, lesson, launch_streams<STREAMS>, predict<CHUNKS, STREAMS>, .work = work};
}

const LabRung rungs[] = {
    {"pageable", "Ordinary memory: the host first copies it into a pinned buffer of the driver",
     launch_whole<>, .work = work, .pageable = true},
    {"pinned", "Page-locked memory: a copy engine reads it by itself; two of three engines wait",
     launch_whole<>, predict<1, 1>, .work = work},
    {"copy-in", "The first stage alone: the link, host to device",
     launch_whole<COPY_IN, COPY_IN + 1>, .kind = LAB_PART, .work = work},
    {"compute", "The second stage alone: f is chosen so that it takes as long as a copy",
     launch_whole<COMPUTE, COMPUTE + 1>, .kind = LAB_PART, .work = work},
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
    {"roles",
     "One stream per stage and one event per chunk: more chunks help, until the calls for each "
     "chunk cost more",
     launch_roles, predict<0, STAGES>, .work = work, LAB_ROWS(point, CHUNK_COUNTS)}};

} // namespace

const LabTopic lab_transfers = {
    "transfers",
    "Copy in, compute, copy out: one after the other, or all at once",
    "elements",
    LAB_GB_PER_S,
    LAB_LADDER,
    .sizes = {lab_size(1 << 26)}, /* 256 MiB each way */
    .tested = lab_size(1000003),
    .on_host = true,
    .predicted_name = "% of perfect, the time of one copy",
    .point_name = "chunks",
    .metric = "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    .metric_name = "multiply-add units busy, %: such a kernel overlaps with copies alone"};
