#include <cub/device/device_histogram.cuh>
