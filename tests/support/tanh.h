/* The hyperbolic tangent in place of activation.h's ReLU, for test_activation.c. Its slope at 0 is
   1, so it shows whether an engine takes the slope at the output before dropout. */
#include <float.h>
#include <math.h>

enum { ACTIVATION_IS_RELU = 0 };

HOST_DEVICE float activate(float z) {
  return tanhf(z);
}

/* An output of 0 that is kept becomes FLT_MIN, since 0 says that the unit was dropped. */
HOST_DEVICE float activation_drop(float y, float scale, bool drops) {
  const float kept = y == 0.0f ? FLT_MIN : y * scale;
  return drops ? 0.0f : kept;
}

typedef float Slope;

HOST_DEVICE Slope activation_slope(float y, float scale) {
  const float whole = y / scale;
  return scale > 1.0f && y == 0.0f ? 0.0f : 1.0f - whole * whole;
}

HOST_DEVICE float times_slope(Slope slope, float gradient) {
  return slope * gradient;
}

HOST_DEVICE double activate_float64(double z) {
  return tanh(z);
}

HOST_DEVICE double activation_slope_float64(double y, double gradient) {
  return gradient * (1 - y * y);
}
