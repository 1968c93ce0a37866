/* Level step: the kernels of level layer, captured as CUDA graphs. One launch queues 64 steps. */
#include "engine/cuda/around.h"

enum { GRAPH_STEPS = 64 }; /* steps in a long graph, which launches as fast as one of one step */

static void forget_graph(StepGraph *of) {
  if (of->graph) cudaGraphExecDestroy(of->graph);
  of->graph = NULL;
}

void graphs_forget(StepGraphs *graphs) {
  forget_graph(&graphs->one_step);
  forget_graph(&graphs->many_steps);
  forget_graph(&graphs->last_steps);
  forget_graph(&graphs->short_step);
}

/* Captures a graph of of->steps steps. Each launch advances *d_state for the next launch. */
static cudaError_t capture_steps(const Pass *p, StepGraph *of) {
  cudaGraph_t graph = NULL;
  TRY(cudaStreamBeginCapture(p->stream, cudaStreamCaptureModeThreadLocal));
  const uint64_t positions = (of->steps + (of->rest > 0)) * (uint64_t)p->config->training.batch;
  Pass now = *p;
  now.rest = of->rest;
  cudaError_t status = steps_by_kernel(&now, of->steps);
  if (status == cudaSuccess)
    status = launch_advance(p->around->d_state, (uint32_t)positions, p->stream);
  const cudaError_t captured = cudaStreamEndCapture(p->stream, &graph);
  if (status == cudaSuccess) status = captured;
  if (status == cudaSuccess) status = cudaGraphInstantiate(&of->graph, graph, 0);
  if (graph) cudaGraphDestroy(graph);
  return status;
}

/* Queues `steps` full steps and a step of `rest` rows as one graph, which it captures if needed. */
static cudaError_t launch_steps(const Pass *p, StepGraph *by, uint64_t steps, int rest) {
  if (steps == 0 && rest == 0) return cudaSuccess;
  if (by->steps != steps || by->rest != rest) forget_graph(by);
  by->steps = steps;
  by->rest = rest;
  if (!by->graph) TRY(capture_steps(p, by));
  return cudaGraphLaunch(by->graph, p->stream);
}

/* Runs a step without rows, because a library loads kernels in its first step and these loads
   cannot be captured. */
static cudaError_t warm_up(const Pass *p) {
  TRY(launch_begin(p->around->d_state, (StepState){.position = 1, .end = 1}, p->stream));
  TRY(steps_by_kernel(p, 1));
  TRY(cudaStreamSynchronize(p->stream));
  return launch_begin(p->around->d_state, p->state, p->stream);
}

/* Queues a range's steps as graphs of GRAPH_STEPS steps, then of 1 step, then a short step. If the
   previous range had the same length, all steps after the long graphs form one graph instead,
   because every graph costs some 4 us, and because the ranks' updates overlap with the next step
   only inside a graph. The short step has a graph of its own for ranges of other lengths, so that
   these do not replace the graph of the last steps. */
cudaError_t steps_by_graph(const Pass *p, uint64_t steps) {
  StepGraphs *graphs = &p->around->graphs;
  const Ranks *ranks = p->config->ranks;
  const uint32_t batch = (uint32_t)p->config->training.batch,
                 positions = p->state.end - p->state.position;
  const int rest = (int)ceil_div(positions % batch, (size_t)ranks_count(ranks));
  const bool captured = graphs->many_steps.graph || graphs->one_step.graph ||
                        graphs->last_steps.graph || graphs->short_step.graph;
  if ((p->level->loads || ranks) && !captured) TRY(warm_up(p));
  steps = positions / batch;
  const uint64_t last = positions == graphs->positions_before ? steps % GRAPH_STEPS : 0;
  graphs->positions_before = positions;
  if (graphs->d_captured != p->batch.d_pixels) graphs_forget(graphs);
  graphs->d_captured = p->batch.d_pixels;
  for (; steps >= GRAPH_STEPS; steps -= GRAPH_STEPS)
    TRY(launch_steps(p, &graphs->many_steps, GRAPH_STEPS, 0));
  for (; steps > last; steps--) TRY(launch_steps(p, &graphs->one_step, 1, 0));
  return launch_steps(p, last > 0 ? &graphs->last_steps : &graphs->short_step, last, rest);
}

const Level level_step = {.input = layer_input,
                          .forward = layer_forward,
                          .loss = layer_loss,
                          .backward = layer_backward,
                          .update = layer_update,
                          .train = steps_by_graph,
                          .scratch = layer_scratch};
