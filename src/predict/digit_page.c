#include "predict/predict.h"

#include <string.h>

#include "activation.h"
#include "base/output.h"

extern const char digit_page_html[]; /* the page's text, which ends with a 0 byte */

/* Writes bytes as base64 text (RFC 4648) in quotes. */
static void write_base64(const void *data, size_t size, FILE *file) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const unsigned char *bytes = data;
  fputc('"', file);
  for (size_t at = 0; at < size; at += 3) {
    unsigned group = 0;
    for (size_t i = at; i < at + 3; i++) group = group << 8 | (i < size ? bytes[i] : 0);
    for (size_t i = 0; i < 4; i++)
      fputc(at + i <= size ? digits[group >> (18 - 6 * i) & 63] : '=', file);
  }
  fputc('"', file);
}

static void write_network(const EngineConfig *config, const float *parameters, FILE *file) {
  const Network *n = &config->network;
  const PixelFactor by = training_pixel_factor(&config->training);
  fprintf(file, "{\"max\": %g, \"factor\": %.9g, \"offset\": %.9g, \"sizes\": [%d",
          training_white(&config->training), (double)by.factor, (double)by.offset, n->size[0]);
  for (int l = 1; l <= n->layers; l++) fprintf(file, ", %d", n->size[l]);
  for (int l = 0; l < n->layers; l++) {
    const size_t in = (size_t)n->size[l], out = (size_t)n->size[l + 1];
    fputs(l ? ",\n{\"weight\": " : "], \"layers\": [\n{\"weight\": ", file);
    write_base64(parameters + n->weight[l], in * out * sizeof *parameters, file);
    fputs(", \"bias\": ", file);
    write_base64(parameters + n->bias[l], out * sizeof *parameters, file);
    fputc('}', file);
  }
}

bool digit_page_write(const EngineConfig *config, const float *parameters, const char *names,
                      const char *path, Error *error) {
  static const char mark[] = "@NETWORK@";
  const char *network_here = strstr(digit_page_html, mark);
  AtomicFile page;
  if (!ACTIVATION_IS_RELU) /* digit_page.html computes Math.max(0, sum) */
    return error_set(error, "--html %s: the page can show networks with ReLU only", path);
  if (!atomic_file_open(&page, path, error)) return false;
  fwrite(digit_page_html, 1, (size_t)(network_here - digit_page_html), page.file);
  write_network(config, parameters, page.file);
  fputs("],\n\"names\": ", page.file);
  class_names_print_json(page.file, names, network_classes(&config->network));
  fprintf(page.file, "}%s", network_here + strlen(mark));
  return atomic_file_close(&page, true, error);
}
