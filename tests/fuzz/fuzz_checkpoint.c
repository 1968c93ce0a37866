/* Fuzzes the reader of safetensors files. The input is a file. A network that is loaded must be
   sound. If it is saved, loaded and saved again, both saved files must be equal. */
#include <math.h>
#include <string.h>

#include "model/checkpoint.h"
#include "fuzz.h"

static char folder[] = "/dev/shm/fuzz-XXXXXX", first[64], second[64];

static void remove_folder(void) {
  unlink(first);
  unlink(second);
  rmdir(folder);
}

static void require_sound(const Checkpoint *c) {
  const Network *network = &c->network;
  Network other;
  REQUIRE(c->parameters && c->options && c->epoch >= 0 && c->best_epoch >= 0);
  REQUIRE(network_init(&other, network->size[0], network->size + 1, network->layers - 1,
                       network->size[network->layers], NULL));
  REQUIRE(memcmp(&other, network, sizeof other) == 0);
  REQUIRE(c->count >= 1 && c->count <= CHECKPOINT_ARRAYS && c->kind[0] == CHECKPOINT_PARAMETERS);
  for (int a = 0; a < c->count; a++) {
    const float *values = c->parameters + (size_t)a * network->floats;
    REQUIRE(a == 0 || c->kind[a] > c->kind[a - 1]);
    size_t next = 0; /* index of the first float not yet checked */
    for (int l = 0; l < network->layers; l++) {
      const size_t in = (size_t)network->size[l], out = (size_t)network->size[l + 1];
      for (; next < network->weight[l]; next++) REQUIRE(values[next] == 0);
      for (; next < network->weight[l] + in * out; next++) REQUIRE(isfinite(values[next]));
      for (; next < network->bias[l]; next++) REQUIRE(values[next] == 0);
      for (; next < network->bias[l] + out; next++) REQUIRE(isfinite(values[next]));
    }
    for (; next < network->floats; next++) REQUIRE(values[next] == 0);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!*first) {
    REQUIRE(mkdtemp(folder));
    snprintf(first, sizeof first, "%s/a", folder);
    snprintf(second, sizeof second, "%s/b", folder);
    atexit(remove_folder);
  }
  Checkpoint loaded, again;
  static const Checkpoint none;
  Error error = {.text = ""};
  if (!checkpoint_load(&loaded, fuzz_file(data, size), &error)) {
    REQUIRE(error.text[0] && !strchr(error.text, '\n'));
    REQUIRE(memcmp(&loaded, &none, sizeof none) == 0);
    return 0;
  }
  require_sound(&loaded);
  REQUIRE(checkpoint_save(&loaded, first, &error));
  REQUIRE(checkpoint_load(&again, first, &error));
  REQUIRE(checkpoint_save(&again, second, &error));
  FILE *a = fopen(first, "rb"), *b = fopen(second, "rb");
  REQUIRE(a && b);
  for (int c = 0; c != EOF;) REQUIRE((c = getc(a)) == getc(b));
  fclose(a);
  fclose(b);
  checkpoint_free(&loaded);
  checkpoint_free(&again);
  return 0;
}
