/* The exercise for machines without a GPU: the four functions of kernels/exercise.cu as plain C
   loops. Matrices are (rows, columns), row-major. No two arrays overlap. Scratch arrays may hold
   anything before and after a call. */
#ifndef EXERCISE_CPU_H
#define EXERCISE_CPU_H

#include <stdbool.h>
#include <stdint.h>

/* (1) y (rows, out) = x (rows, in) w^T + b in every row, through ReLU if relu; w (out, in), b
   (out). Scratch: z (rows, out). */
void exercise_forward(const float *x, const float *w, const float *b, float *z, float *y, int rows,
                      int in, int out, bool relu);

/* (2) p (rows, classes) = z - max - log(sum(exp(z - max))) of each row of z.
   Scratch: largest, sum (rows). */
void exercise_softmax(const float *z, float *largest, float *sum, float *p, int rows, int classes);

/* (3) Of each row of logits z (rows, classes): loss, the cross-entropy with its label; correct, 1
   where the first largest logit is the label's, else 0; and dz = (softmax(z) - one-hot(label)) /
   rows. labels, loss, correct (rows). Scratch: largest, sum (rows), p (rows, classes). */
void exercise_loss(const float *z, const uint16_t *labels, float *largest, float *sum, float *p,
                   float *dz, float *loss, uint8_t *correct, int rows, int classes);

/* v = momentum v + g + weight_decay w, then w = w - rate v; biases have no weight decay. */
typedef struct {
  float momentum, weight_decay, rate;
} ExerciseRule;

/* A layer: its input x (rows, in), the gradient dz (rows, out) of what it made of it, and what is
   to be updated by it: w, vw (out, in), b, vb (out). */
typedef struct {
  const float *x, *dz;
  float *w, *b, *vw, *vb;
  int rows, in, out;
} ExerciseLayer;

/* (4) Updates w by dz^T x, and b by the sum of dz's rows. Scratch: dw (out, in), db (out). */
void exercise_update(const ExerciseLayer *layer, ExerciseRule rule, float *dw, float *db);

#endif
