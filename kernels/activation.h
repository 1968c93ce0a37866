/* The activation of the hidden layers, for host and device. All fusion levels, the CPU engine and
   the float64 reference use these functions. ReLU is y = max(z, 0); its gradient passes where y is
   above 0 (Nair and Hinton 2010). A NaN passes forward and backward, so it shows that training has
   failed; fmaxf would turn a NaN into 0. */
#pragma once

#include <stdbool.h>

#include "base/host_device.h"

/* Returns the output for the input z. */
HOST_DEVICE float activate(float z) {
  return z < 0.0f ? 0.0f : z;
}

/* The slope of the activation. ReLU's slope is 1 or 0, so one bit is enough. */
typedef bool Slope;

/* Returns the slope at output y. Dropout may already have set y to 0 or scaled it up. */
HOST_DEVICE Slope activation_slope(float y) {
  return !(y <= 0.0f);
}

/* Returns the gradient of the input, which is the gradient of the output times the slope. */
HOST_DEVICE float times_slope(Slope slope, float gradient) {
  return slope ? gradient : 0.0f;
}

/* The float64 reference's versions of activate() and, at output y, of times_slope(). */
HOST_DEVICE double activate_float64(double z) {
  return z < 0 ? 0 : z;
}

HOST_DEVICE double activation_slope_float64(double y, double gradient) {
  return y <= 0 ? 0 : gradient;
}
