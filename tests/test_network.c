/* Tests network.c and random.h. */
#include "model/network.h"
#include "base/random.h"
#include "support/test.h"

TEST(tensors_are_aligned_and_apart) {
  Network network;
  const int hidden[] = {1, 63, 33, 7, 16384, 2, 5};
  assert_true(network_init(&network, 65, hidden, 7, 1000, &error));
  assert_int_equal(network.layers, NETWORK_MAX_LAYERS);
  assert_int_equal(NETWORK_ALIGN, 32);
  size_t end = 0, parameters = 0;
  for (int l = 0; l < network.layers; l++) {
    const size_t weights = (size_t)network.size[l] * (size_t)network.size[l + 1];
    const size_t biases = (size_t)network.size[l + 1];
    assert_int_equal(network.weight[l] % NETWORK_ALIGN, 0);
    assert_int_equal(network.bias[l] % NETWORK_ALIGN, 0);
    assert_true(network.weight[l] >= end && network.weight[l] < end + NETWORK_ALIGN);
    end = network.weight[l] + weights;
    assert_true(network.bias[l] >= end && network.bias[l] < end + NETWORK_ALIGN);
    end = network.bias[l] + biases;
    parameters += weights + biases;
  }
  assert_true(network.floats >= end && network.floats < end + NETWORK_ALIGN);
  assert_int_equal(network.parameters, parameters);
}

static float *initialise(const Network *network, uint64_t seed) {
  float *parameters = allocate(network->floats, sizeof *parameters);
  memset(parameters, 0x7f, network->floats * sizeof *parameters);
  network_initialise(network, seed, parameters);
  return parameters;
}

/* Weights must have the moments of a uniform distribution in ±sqrt(6 / inputs), the rest be 0. */
TEST(initial_parameters) {
  Network network;
  assert_true(network_init(&network, 99, (const int[]){77}, 1, 11, &error));
  float *parameters = initialise(&network, 5);
  size_t next = 0;
  for (int l = 0; l < 2; l++) {
    const size_t count = (size_t)network.size[l] * (size_t)network.size[l + 1];
    const double bound = sqrt(6.0 / network.size[l]);
    double sum = 0, squares = 0, largest = 0;
    while (next < network.weight[l]) assert_true(parameters[next++] == 0);
    for (size_t i = 0; i < count; i++, next++) {
      const double w = (double)parameters[next];
      sum += w;
      squares += w * w;
      largest = fmax(largest, fabs(w));
    }
    const double n = (double)count;
    assert_true(largest <= bound * (1 + 1e-6) && largest > bound * 0.98);
    assert_close(sum / n, 0, 4 * bound / sqrt(3 * n));
    assert_close(squares / n, bound * bound / 3, 4 * bound * bound * 0.3 / sqrt(n));
  }
  while (next < network.floats) assert_true(parameters[next++] == 0);
}

/* ---- random ---------------------------------------------------------------------------- */

/* Known answers of philox4x32 with 10 rounds, from the test vectors that its authors published. */
TEST(philox_known_answers) {
  static const struct {
    uint64_t seed, stream, counter;
    uint32_t word[4];
  } cases[] = {
      {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {0x299f31d0a4093822,
       0x0370734413198a2e,
       0x85a308d3243f6a88,
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  foreach (row, cases) {
    const RandomWords w = random_words(row->seed, row->stream, row->counter);
    assert_memory_equal(w.word, row->word, sizeof w.word);
  }
}

TEST(unit_is_below_one) {
  assert_true(random_unit(0) == 0 && random_unit(0x80000000) == 0.5f);
  assert_true(random_unit(UINT32_MAX) == 1 - 0x1p-24f);
}

TEST(permute_is_a_permutation) {
  foreach (each, VALUES(uint32_t, 1, 2, 3, 4, 5, 7, 16, 17, 64, 65, 256, 1000, 60000, 60001, 65536,
                        65537)) {
    const uint32_t n = *each;
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
      const uint64_t key = random_order_key(9, epoch);
      unsigned char *seen = allocate(n, 1);
      for (uint32_t i = 0; i < n; i++) {
        const uint32_t p = random_permute(i, n, key);
        assert_true(p < n);
        assert_int_equal(seen[p]++, 0);
      }
    }
  }
}
