/* The values that a task gets, and what it must compute from them. The rows of exercise_tasks point
   at these functions. */
#pragma once

#include "exercise/exercise.h"

/* The relative error of a float32 operation is at most ROUNDING. So the error of a sum of n
   products, in any order, is at most n ROUNDING times the sum of the products' absolute values. The
   allowed errors are such bounds. A forgotten term has a far larger effect. */
static const double ROUNDING = 0x1p-24;

/* Returns the given values in float64, or their absolute values if `magnitude`. */
double *doubles_of(const ExerciseArray *array, bool magnitude);
/* Allocates expected values and allowed errors, all 0. */
void expect_from(ExerciseArray *array);

/* Fills every input with values uniform in [-1, 1). */
void give_uniform(ExerciseProblem *problem, uint64_t seed);
/* Fills z, and order with a permutation of the rows and of one row for padding. */
void give_gather(ExerciseProblem *problem, uint64_t seed);
/* Fills keys, some of which are much more frequent than others, and counts. */
void give_keys(ExerciseProblem *problem, uint64_t seed);
/* Fills the logits z and, for the loss, labels and order. */
void give_classes(ExerciseProblem *problem, uint64_t seed);
/* Like give_uniform, but dz is 0 in rows after the step's last row. */
void give_update(ExerciseProblem *problem, uint64_t seed);

/* y = x w^T + b, with ReLU if shape.relu. */
void expect_forward(ExerciseProblem *problem);
/* p = the logarithm of each row's softmax. */
void expect_softmax(ExerciseProblem *problem);
/* Losses and gradient of the step's rows. Other rows have gradient 0. */
void expect_loss(ExerciseProblem *problem);
/* Weights, biases and their momenta after an update. */
void expect_update(ExerciseProblem *problem);

/* The set `transformer` (transformer.c). kernels.h says what each function computes. */
void give_gelu(ExerciseProblem *problem, uint64_t seed);
void give_rows(ExerciseProblem *problem, uint64_t seed);
void give_adam(ExerciseProblem *problem, uint64_t seed);
void expect_gelu(ExerciseProblem *problem);
void expect_norm(ExerciseProblem *problem);
void expect_residual(ExerciseProblem *problem);
void expect_adam(ExerciseProblem *problem);

/* The warm-up. kernels.h says what each function computes. */
void expect_map(ExerciseProblem *problem);
void expect_index(ExerciseProblem *problem);
void expect_reverse(ExerciseProblem *problem);
void expect_sum(ExerciseProblem *problem);
void expect_copy(ExerciseProblem *problem);
void expect_axpy(ExerciseProblem *problem);
void expect_gather(ExerciseProblem *problem);
void expect_stencil(ExerciseProblem *problem);
void expect_column_sum(ExerciseProblem *problem);
void expect_block_sum(ExerciseProblem *problem);
void expect_transpose(ExerciseProblem *problem);
void expect_dot(ExerciseProblem *problem);
void expect_matvec(ExerciseProblem *problem);
void expect_histogram(ExerciseProblem *problem);
void expect_scan(ExerciseProblem *problem);
