/* The constants of the four functions of transformer.cu. The scorer reads this file, too, so a
   function that has other constants is wrong. `make student-kit VARIANT=WORD` draws other values
   for the kit (docs/teaching/grading.md). */
#pragma once

/* gelu: y = z Phi(GELU_SCALE z). */
#define GELU_SCALE 1.0f

/* norm and residual: NORM_EPS is added to a row's variance, GAIN_OFFSET to every gain. */
#define NORM_EPS 1e-5f
#define GAIN_OFFSET 0.0f

/* residual: z = RESIDUAL_SCALE x + r. */
#define RESIDUAL_SCALE 1.0f

/* adam: weight decay that is no part of the gradient (AdamW; Loshchilov and Hutter, 2019). */
#define ADAM_DECAY 0.0f
