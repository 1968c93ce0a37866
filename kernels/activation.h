/* The activation of the hidden layers, for host and device. All fusion levels, the CPU engine and
   the float64 reference use these functions. ReLU is y = max(z, 0); its gradient passes where y is
   above 0 (Nair and Hinton 2010). A NaN passes forward and backward, so it shows that training has
   failed; fmaxf would turn a NaN into 0.

   The slope is that at the output before dropout. A layer stores only its output after dropout, so
   activation_slope() gets that, and the factor by which dropout has multiplied it. */
#pragma once

#include <stdbool.h>

#include "base/host_device.h"

#ifdef OTHER_ACTIVATION /* a test trains with this header instead (tests/support/tanh.h) */
#include OTHER_ACTIVATION
#else

/* An activation that is not ReLU sets this to 0. What works for ReLU only then says so and is not
   used: level epoch (plan_tiles), many networks at once (many_takes), wide layers (wide_by) and the
   page of --html, whose JavaScript has a ReLU of its own. */
enum { ACTIVATION_IS_RELU = 1 };

/* Returns the output for the input z. */
HOST_DEVICE float activate(float z) {
  return z < 0.0f ? 0.0f : z;
}

/* Returns what dropout makes of output y: 0 if it drops the unit, else y * scale. The slope at a
   dropped output must be 0. So an activation whose slope at 0 is not 0 must turn an output of 0
   that is kept into another number, such as the smallest. */
HOST_DEVICE float activation_drop(float y, float scale, bool drops) {
  return drops ? 0.0f : y * scale;
}

/* The slope of the activation. ReLU's slope is 1 or 0, so one bit is enough. */
typedef bool Slope;

/* Returns the slope where activation_drop() returned y; `scale` is 1 without dropout. ReLU's slope
   is the same at y and at y / scale. */
HOST_DEVICE Slope activation_slope(float y, float scale) {
  (void)scale;
  return !(y <= 0.0f);
}

/* Returns the gradient of the input, which is the gradient of the output times the slope. */
HOST_DEVICE float times_slope(Slope slope, float gradient) {
  return slope ? gradient : 0.0f;
}

/* The float64 reference's versions of activate() and times_slope(). y is the output without
   dropout: the reference keeps it, and drops gradients by itself. */
HOST_DEVICE double activate_float64(double z) {
  return z < 0 ? 0 : z;
}

HOST_DEVICE double activation_slope_float64(double y, double gradient) {
  return y <= 0 ? 0 : gradient;
}

#endif
