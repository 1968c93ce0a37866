#include "model/network.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "base/sizes.h"

static bool in_range(const char *what, int value, int low, int high, Error *error) {
  if (value >= low && value <= high) return true;
  return error_set(error, "%s must be %d to %d, not %d", what, low, high, value);
}

bool network_init(Network *network, int inputs, const int *hidden, int count, int classes,
                  Error *error) {
  memset(network, 0, sizeof *network);
  if (count < 0 || count >= NETWORK_MAX_LAYERS)
    return error_set(error, "at most %d hidden layers, not %d", NETWORK_MAX_LAYERS - 1, count);
  if (!in_range("the number of inputs", inputs, 1, NETWORK_MAX_INPUTS, error)) return false;
  for (int i = 0; i < count; i++)
    if (!in_range("a hidden layer's size", hidden[i], 1, NETWORK_MAX_HIDDEN, error)) return false;
  if (!in_range("the number of classes", classes, 2, NETWORK_MAX_CLASSES, error)) return false;

  network->layers = count + 1;
  network->size[0] = inputs;
  for (int i = 0; i < count; i++) network->size[i + 1] = hidden[i];
  network->size[count + 1] = classes;
  for (int l = 0; l < network->layers; l++) {
    const size_t in = (size_t)network->size[l], out = (size_t)network->size[l + 1];
    network->weight[l] = network->floats;
    network->bias[l] = network->floats + round_up(in * out, NETWORK_ALIGN);
    network->floats = network->bias[l] + round_up(out, NETWORK_ALIGN);
    network->parameters += in * out + out;
  }
  return true;
}

ShortText network_text(const Network *network) {
  ShortText sizes = {""};
  for (int i = 0; i <= network->layers; i++)
    text_append(sizes.text, "%s%d", i ? "-" : "", network->size[i]);
  return sizes;
}

void network_initialise(const Network *network, uint64_t seed, float *parameters) {
  memset(parameters, 0, network->floats * sizeof *parameters);
  for (int l = 0; l < network->layers; l++) {
    const size_t count = (size_t)network->size[l] * (size_t)network->size[l + 1];
    const float bound = sqrtf(6.0f / (float)network->size[l]);
    float *weight = parameters + network->weight[l];
    for (size_t i = 0; i < count; i++) {
      const RandomWords words = random_words(seed, (uint64_t)l, i / 4);
      weight[i] = bound * (2.0f * random_unit(words.word[i % 4]) - 1.0f);
    }
  }
}
