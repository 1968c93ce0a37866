/* How each task's function is called. */
#include "exercise/run.h"

/* A scorer is linked with the functions of one set. The others are NULL. */
#pragma weak launch_exercise_forward
#pragma weak launch_exercise_softmax
#pragma weak launch_exercise_loss
#pragma weak launch_exercise_update
#pragma weak launch_transformer_gelu
#pragma weak launch_transformer_norm
#pragma weak launch_transformer_residual
#pragma weak launch_transformer_adam
#pragma weak launch_warmup_map
#pragma weak launch_warmup_index
#pragma weak launch_warmup_reverse
#pragma weak launch_warmup_sum
#pragma weak launch_warmup_copy
#pragma weak launch_warmup_axpy
#pragma weak launch_warmup_gather
#pragma weak launch_warmup_stencil
#pragma weak launch_warmup_column_sum
#pragma weak launch_warmup_block_sum
#pragma weak launch_warmup_transpose
#pragma weak launch_warmup_dot
#pragma weak launch_warmup_matvec
#pragma weak launch_warmup_histogram
#pragma weak launch_warmup_scan

/* CALL(name, arguments...) defines call_NAME, which calls launch_NAME. The arguments are made from
   the arrays `a`, the shape `s` and the placed problem `d`. */
#define CALL(name, ...)                                                                            \
  static cudaError_t call_##name(const ExercisePlaced *d, cudaStream_t stream) {                   \
    const ExerciseShape *s = &d->problem->shape;                                                   \
    void *const *a = d->d_array;                                                                   \
    (void)s; /* not every function takes a size */                                                 \
    return launch_##name(__VA_ARGS__, stream);                                                     \
  }

CALL(exercise_forward, a[ARRAY_X], a[ARRAY_W], a[ARRAY_B], a[ARRAY_Z], a[ARRAY_Y], s->rows, s->in,
     s->out, s->relu)
CALL(exercise_softmax, a[ARRAY_Z], a[ARRAY_LARGEST], a[ARRAY_SUM], a[ARRAY_P], s->rows, s->out)
CALL(exercise_loss, d->batch, a[ARRAY_Z], a[ARRAY_LARGEST], a[ARRAY_SUM], a[ARRAY_P], a[ARRAY_DZ],
     s->out, (RowResults){a[ARRAY_LOSS], a[ARRAY_CORRECT]})
CALL(exercise_update, d->batch, (UpdateRule){EXERCISE_MOMENTUM, d->problem->weight_decay}, d->layer,
     a[ARRAY_DW], a[ARRAY_DB])
CALL(transformer_gelu, a[ARRAY_X], a[ARRAY_B], a[ARRAY_Z], a[ARRAY_Y], s->rows, s->out)
CALL(transformer_norm, a[ARRAY_X], a[ARRAY_GAIN], a[ARRAY_B], a[ARRAY_MEAN], a[ARRAY_SCALE],
     a[ARRAY_Y], s->rows, s->out)
CALL(transformer_residual, a[ARRAY_X], a[ARRAY_R], a[ARRAY_GAIN], a[ARRAY_B], a[ARRAY_MEAN],
     a[ARRAY_SCALE], a[ARRAY_Z], a[ARRAY_Y], s->rows, s->out)
CALL(transformer_adam, a[ARRAY_G], a[ARRAY_M], a[ARRAY_V], a[ARRAY_W], a[ARRAY_MH], a[ARRAY_VH],
     (size_t)s->rows *(size_t)s->out, EXERCISE_RATE, EXERCISE_BETA1, EXERCISE_BETA2,
     EXERCISE_EPSILON, exercise_step(s))
CALL(warmup_map, a[ARRAY_Z], a[ARRAY_Y], s->rows * s->out)
CALL(warmup_index, a[ARRAY_Z], a[ARRAY_B], a[ARRAY_Y], s->rows, s->out)
CALL(warmup_reverse, a[ARRAY_Z], a[ARRAY_Y], s->rows, s->out)
CALL(warmup_sum, a[ARRAY_Z], a[ARRAY_SUM], s->rows, s->out)
CALL(warmup_copy, a[ARRAY_Z], a[ARRAY_Y], s->rows, s->out)
CALL(warmup_axpy, WARMUP_SCALE, a[ARRAY_Z], a[ARRAY_Y], s->rows * s->out)
CALL(warmup_gather, a[ARRAY_Z], a[ARRAY_ORDER], a[ARRAY_Y], s->rows, s->out)
CALL(warmup_stencil, a[ARRAY_Z], a[ARRAY_Y], s->rows, s->out)
CALL(warmup_column_sum, a[ARRAY_Z], a[ARRAY_SUM], s->rows, s->out)
CALL(warmup_block_sum, a[ARRAY_Z], a[ARRAY_Y], s->rows, s->out)
CALL(warmup_transpose, a[ARRAY_Z], a[ARRAY_Y], s->rows, s->out)
CALL(warmup_dot, a[ARRAY_Z], a[ARRAY_X], a[ARRAY_SUM], s->rows, s->out)
CALL(warmup_matvec, a[ARRAY_W], a[ARRAY_X], a[ARRAY_Y], s->rows, s->out)
CALL(warmup_histogram, a[ARRAY_KEYS], a[ARRAY_COUNTS], s->rows * s->out)
CALL(warmup_scan, a[ARRAY_Z], a[ARRAY_Y], s->rows, s->out)

#define ROW(name)                                                                                  \
  { call_##name, (void (*)(void))launch_##name }

static const struct {
  cudaError_t (*call)(const ExercisePlaced *, cudaStream_t);
  void (*linked)(void); /* the student's function; NULL if this program does not have it */
} rows[TASKS] = {[TASK_FORWARD] = ROW(exercise_forward),
                 [TASK_SOFTMAX] = ROW(exercise_softmax),
                 [TASK_LOSS] = ROW(exercise_loss),
                 [TASK_UPDATE] = ROW(exercise_update),
                 [TRANSFORMER_GELU] = ROW(transformer_gelu),
                 [TRANSFORMER_NORM] = ROW(transformer_norm),
                 [TRANSFORMER_RESIDUAL] = ROW(transformer_residual),
                 [TRANSFORMER_ADAM] = ROW(transformer_adam),
                 [WARMUP_MAP] = ROW(warmup_map),
                 [WARMUP_INDEX] = ROW(warmup_index),
                 [WARMUP_REVERSE] = ROW(warmup_reverse),
                 [WARMUP_SUM] = ROW(warmup_sum),
                 [WARMUP_COPY] = ROW(warmup_copy),
                 [WARMUP_AXPY] = ROW(warmup_axpy),
                 [WARMUP_GATHER] = ROW(warmup_gather),
                 [WARMUP_STENCIL] = ROW(warmup_stencil),
                 [WARMUP_COLUMN_SUM] = ROW(warmup_column_sum),
                 [WARMUP_BLOCK_SUM] = ROW(warmup_block_sum),
                 [WARMUP_TRANSPOSE] = ROW(warmup_transpose),
                 [WARMUP_DOT] = ROW(warmup_dot),
                 [WARMUP_MATVEC] = ROW(warmup_matvec),
                 [WARMUP_HISTOGRAM] = ROW(warmup_histogram),
                 [WARMUP_SCAN] = ROW(warmup_scan)};

cudaError_t exercise_call(const ExercisePlaced *d, cudaStream_t stream) {
  return rows[d->problem->task].call(d, stream);
}

const ExerciseSet *exercise_linked(void) {
  ExerciseTask task = 0;
  while (!rows[task].linked) task++;
  return exercise_set_of(task);
}
