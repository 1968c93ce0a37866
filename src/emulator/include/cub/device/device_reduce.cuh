#include "device_histogram.cuh"
