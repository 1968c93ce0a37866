/* The shape of a multilayer perceptron, and the place of each layer in ONE flat float array.

   Layer l (0-based) maps size[l] values to size[l+1]: y = x W^T + b. W is (out, in) and row-major,
   as in PyTorch's nn.Linear. ReLU follows every layer except the last. Each tensor starts at a
   multiple of NETWORK_ALIGN floats. The padding between tensors is zero and stays zero. */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/text.h"

enum {
  NETWORK_MAX_LAYERS = 8,     /* weight matrices: up to seven hidden layers and the output layer */
  NETWORK_MAX_INPUTS = 4096,  /* maximum pixels of a row */
  NETWORK_MAX_HIDDEN = 16384, /* maximum width of a hidden layer */
  NETWORK_MAX_CLASSES = 1024, /* a warp of the softmax kernel must hold a row of logits */
  NETWORK_ALIGN = 32,         /* 32 floats are 128 bytes, one line of a GPU's cache */
};

typedef struct {
  int layers;                        /* number of weight matrices, at least 1 */
  int size[NETWORK_MAX_LAYERS + 1];  /* widths: size[0] inputs, ..., size[layers] classes */
  size_t weight[NETWORK_MAX_LAYERS]; /* [l]: offset of layer l's W (size[l+1], size[l]) in floats */
  size_t bias[NETWORK_MAX_LAYERS];   /* [l]: offset of layer l's b (size[l+1]) in floats */
  size_t floats;                     /* length of the flat array, padding included */
  size_t parameters;                 /* number of trainable values, padding not counted */
} Network;

static inline int network_classes(const Network *network) {
  return network->size[network->layers];
}

typedef struct {
  int count; /* number of hidden layers, may be 0 */
  int size[NETWORK_MAX_LAYERS - 1];
} HiddenSizes;

/* Lays out a network with the sizes inputs, hidden[0], ..., hidden[count-1], classes. Fails if
   there are too many layers, a size is above its limit or below 1, or `classes` is below 2. */
bool network_init(Network *network, int inputs, const int *hidden, int count, int classes,
                  Error *error);

/* Returns the sizes, such as "784-300-100-10". */
ShortText network_text(const Network *network);

/* Fills parameters[network->floats]. Weights are uniform in ±sqrt(6 / fan-in) (He, Zhang, Ren, Sun,
   "Delving deep into rectifiers", 2015); biases and padding are 0. The values depend only on
   `seed`, and have the same bits on every machine. */
void network_initialise(const Network *network, uint64_t seed, float *parameters);
