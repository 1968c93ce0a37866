/* Files that checkpoint.c refuses to load, and what it says of them: forged, damaged, cut off. */
#include "support/checkpoint_files.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The tensors of 3 - 2, 32 bytes of data, to be completed. */
#define WEIGHT F32("0.weight", "2,3", "0", "24")
#define BIAS F32("0.bias", "2", "24", "32")

IN_FOLDER(bad_tensors_are_refused) {
  static const struct {
    const char *header;
    size_t data;
    const char *message;
  } cases[] = {
      /* JSON */
      {"{" WEIGHT "," BIAS, 32, "its header is not the JSON of a safetensors file: '}' expected"},
      {"{" WEIGHT "," BIAS "} x", 32, "end of file expected"},
      {"{" WEIGHT "," WEIGHT "," BIAS "}", 32, "duplicate object key near '\"0.weight\"'"},
      {"{\"0.weight\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2,3],"
       "\"data_offsets\":[0,24]}," BIAS "}",
       32, "duplicate object key near '\"dtype\"'"},
      {"{\"0.\xff\":1}", 32, "unable to decode byte 0xff"},
      {"[]", 32, "it is not a safetensors file: its header does not start with {"},
      {" {" WEIGHT "," BIAS "}", 32, "its header does not start with {"},
      {"", 32, "its header does not start with {"},
      /* entries */
      {"{}", 0, "it has no tensor named like layers.0.weight"},
      {"{\"__metadata__\":{}}", 0, "it has no tensor named like layers.0.weight"},
      {"{\"0.weight\":7," BIAS "}", 32,
       "tensor 0.weight must have a dtype, a shape and data_offsets"},
      {"{\"0.weight\":{\"shape\":[2,3],\"data_offsets\":[0,24]}," BIAS "}", 32, "have a dtype"},
      {"{\"0.weight\":{\"dtype\":\"F32\",\"data_offsets\":[0,24]}," BIAS "}", 32, "have a dtype"},
      {"{\"0.weight\":{\"dtype\":\"F32\",\"shape\":[2,3]}," BIAS "}", 32, "have a dtype"},
      {"{\"0.weight\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]}," BIAS "}", 32,
       "tensor 0.weight is of dtype BF16; only F32 can be read"},
      {"{\"__metadata__\":{\"epoch\":1}," WEIGHT "," BIAS "}", 32,
       "its __metadata__ must be a map of strings"},
      {"{\"__metadata__\":[]," WEIGHT "," BIAS "}", 32, "must be a map of strings"},
      /* names */
      {"{" WEIGHT "," BIAS "," F32("1.running_mean", "2", "32", "40") "}", 40,
       "tensor 1.running_mean is none of a network of linear layers"},
      {"{" WEIGHT "," BIAS "," F32("out.weight", "2,2", "32", "48") "}", 48,
       "tensor out.weight is"},
      {"{" WEIGHT "," BIAS "," F32("weight", "2,2", "32", "48") "}", 48, "tensor weight is none"},
      {"{" WEIGHT "," F32("9999999999.bias", "2", "24", "32") "}", 32, "9999999999.bias is none"},
      {"{" WEIGHT "," F32("a.0.bias", "2", "24", "32") "}", 32,
       "tensors 0.weight and a.0.bias must belong to one network"},
      {"{" F32("ab0.weight", "2,3", "0", "24") "," F32("ac0.bias", "2", "24", "32") "}", 32,
       "tensors ab0.weight and ac0.bias must belong to one network"},
      {"{" F32("ab0.weight", "2,3", "0", "24") "," F32("a0.bias", "2", "24", "32") "}", 32,
       "tensors ab0.weight and a0.bias must belong to one network"},
      {"{" WEIGHT "," BIAS "," F32("00.bias", "2", "32", "40") "}", 40,
       "tensors 0.bias and 00.bias are one and the same"},
      {"{" WEIGHT "}", 24, "tensor 0.weight has no bias beside it"},
      {"{" F32("0.bias", "2", "0", "8") "}", 8, "tensor 0.bias has no weight beside it"},
      {"{" WEIGHT "," F32("1.bias", "2", "24", "32") "}", 32, "0.weight has no bias beside it"},
      {"{" WEIGHT "," BIAS "," F32("\\u001b[2J\\n", "2", "32", "40") "}", 40,
       "tensor \\x1b[2J\\x0a is"},
      /* shapes */
      {"{" F32("0.weight", "6", "0", "24") "," BIAS "}", 32,
       "tensor 0.weight has 1 dimensions, not 2"},
      {"{" F32("0.weight", "2,3,1", "0", "24") "," BIAS "}", 32, "has 3 dimensions, not 2"},
      {"{" WEIGHT "," F32("0.bias", "2,1", "24", "32") "}", 32, "has 2 dimensions, not 1"},
      {"{" WEIGHT "," F32("0.bias", "", "24", "28") "}", 28, "has 0 dimensions, not 1"},
      {"{" WEIGHT "," F32("0.bias", "3", "24", "36") "}", 36,
       "tensor 0.bias has 3 values, 0.weight wants 2"},
      {"{" WEIGHT "," BIAS
       "," F32("1.weight", "2,3", "32", "56") "," F32("1.bias", "2", "56", "64") "}",
       64, "tensor 1.weight takes 3 values, the layer before gives 2"},
      {"{" F32("0.weight", "0,3", "0", "0") "," F32("0.bias", "0", "0", "0") "}", 0,
       "tensor 0.weight: the sizes of its shape must be whole numbers, 1 to 16384"},
      {"{" F32("0.weight", "-2,-3", "0", "24") "," BIAS "}", 32, "must be whole numbers"},
      {"{" F32("0.weight", "2.0,3", "0", "24") "," BIAS "}", 32, "must be whole numbers"},
      {"{" F32("0.weight", "16385,1", "0", "65540") "," BIAS "}", 65540, "must be whole numbers"},
      {"{" F32("0.weight", "4294967296,4294967296", "0", "0") "," BIAS "}", 32, "must be whole"},
      {"{" F32("0.weight", "2147483648,2147483648", "0", "0") "," BIAS "}", 32, "must be whole"},
      {"{" F32("0.weight", "18446744073709551618,3", "0", "24") "," BIAS "}", 32, "integer"},
      {"{" F32("0.weight", "2,4097", "0", "32776") "," F32("0.bias", "2", "32776", "32784") "}",
       32784, "the number of inputs must be 1 to 4096, not 4097"},
      {"{" F32("0.weight", "1025,1", "0", "4100") "," F32("0.bias", "1025", "4100", "8200") "}",
       8200, "the number of classes must be 2 to 1024, not 1025"},
      {"{" F32("0.weight", "1,1", "0", "4") "," F32("0.bias", "1", "4", "8") "}", 8,
       "the number of classes must be 2 to 1024, not 1"},
      /* offsets */
      {"{" WEIGHT "," BIAS "}", 31,
       "tensor 0.bias ends at byte 32 of the data, of which there are "
       "only 31: the file was cut off or damaged"},
      {"{" F32("0.weight", "16384,16384", "0", "1073741824") "," BIAS "}", 32, "ends at byte 1073"},
      {"{" F32("0.weight", "16384,16384", "0", "32") "," BIAS "}", 32,
       "tensor 0.weight has 32 bytes, its shape wants 1073741824"},
      {"{" WEIGHT "," F32("0.bias", "2", "24", "28") "}", 28,
       "tensor 0.bias has 4 bytes, its shape wants 8"},
      {"{" WEIGHT "," F32("0.bias", "2", "9223372036854775800", "9223372036854775807") "}", 32,
       "0.bias ends at byte 9223372036854775807"},
      {"{" F32("0.weight", "2,3", "-8", "16") "," BIAS "}", 32, "must be two ascending whole"},
      {"{" F32("0.weight", "2,3", "24", "0") "," BIAS "}", 32, "must be two ascending whole"},
      {"{" F32("0.weight", "2,3", "0", "24.0") "," BIAS "}", 32, "must be two ascending whole"},
      {"{" F32("0.weight", "2,3", "0", "24,24") "," BIAS "}", 32, "must be two ascending whole"},
      {"{" WEIGHT "," F32("0.bias", "2", "16", "24") "}", 24,
       "tensors 0.weight and 0.bias overlap"},
      {"{" F32("0.bias", "2", "0", "8") "," F32("0.weight", "2,3", "4", "28") "}", 28,
       "tensors 0.bias and 0.weight overlap"},
      {"{" WEIGHT "," F32("0.bias", "2", "28", "36") "}", 36, "byte 24 of its data belongs to no"},
      {"{" F32("0.weight", "2,3", "4", "28") "," F32("0.bias", "2", "28", "36") "}", 36,
       "byte 0 of its data belongs to no tensor"},
      {"{" WEIGHT "," BIAS "}", 33, "byte 32 of its data belongs to no tensor"},
      /* momentum */
      {"{" F32("momentum.0.weight", "2,3", "0", "24") "," F32("momentum.0.bias", "2", "24",
                                                              "32") "}",
       32, "it has no tensor named like layers.0.weight"},
      {"{" WEIGHT "," BIAS "," F32("momentum.0.bias", "2", "32", "40") "}", 40,
       "tensor momentum.0.bias has no weight beside it"},
      {"{" WEIGHT "," BIAS "," F32("momentum.0.weight", "2,2", "32",
                                   "48") "," F32("momentum.0.bias", "2", "48", "56") "}",
       56, "its momentum has other shapes than its parameters"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    forge(model, cases[i].header, cases[i].data);
    assert_refuses_to_load(model, cases[i].message);
  }
}

IN_FOLDER(too_many_layers_are_refused) {
  char header[4096] = "{";
  for (int l = 0; l < 9; l++) {
    const size_t used = strlen(header);
    snprintf(header + used, sizeof header - used,
             "%s\"%d.weight\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[%d,%d]},"
             "\"%d.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[%d,%d]}",
             l ? "," : "", l, 24 * l, 24 * l + 16, l, 24 * l + 16, 24 * l + 24);
  }
  strcat(header, "}");
  forge(model, header, 24 * 9);
  assert_refuses_to_load(model, "it has more than 8 layers");
}

IN_FOLDER(bad_files_are_refused) {
  assert_refuses_to_load(model, "No such file or directory");
  assert_refuses_to_load(folder, "it is a folder");
  const char *pipe = folder_path("pipe");
  assert_int_equal(mkfifo(pipe, 0600), 0);
  assert_refuses_to_load(pipe, "it is not a regular file"); /* and does not wait for a writer */

  write_content(model, "", 0);
  assert_refuses_to_load(model, "it is not a safetensors file: it has only 0 bytes");
  write_content(model, "\x05\0\0\0\0\0\0", 7);
  assert_refuses_to_load(model, "it is not a safetensors file: it has only 7 bytes");
  write_content(model, "\x03\0\0\0\0\0\0\0{}", 10);
  assert_refuses_to_load(model, "cut off: its header has 3 bytes, the whole file 10");
  write_content(model, "\x89PNG\r\n\x1a\n more of it", 20);
  assert_refuses_to_load(model, "it is not a safetensors file of a network: its header would "
                                "have 727905341920923785 bytes, at most 1048576");
  write_content(model, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
  assert_refuses_to_load(model, "would have 18446744073709551615 bytes");
}

/* A header of exactly the bound is read; a byte more is not, though the file has it. */
IN_FOLDER(header_has_a_bound) {
  const size_t bound = 1 << 20;
  char *header = calloc(bound + 2, 1);
  const char start[] = "{" WEIGHT "," BIAS "}";
  memset(header, ' ', bound);
  memcpy(header, start, sizeof start - 1);
  forge(model, header, 32);
  Checkpoint checkpoint = must_load(model);
  checkpoint_free(&checkpoint);
  header[bound] = ' ';
  forge(model, header, 32);
  assert_refuses_to_load(model, "its header would have 1048577 bytes, at most 1048576");
  free(header);
}

IN_FOLDER(values_that_are_not_finite_are_refused) {
  static const struct {
    float value;
    size_t at; /* in floats of the data */
    const char *message;
  } cases[] = {
      {NAN, 0, "tensor layers.0.weight has a value that is NaN or infinite"},
      {INFINITY, 41, "tensor layers.0.bias has a value"},
      {-INFINITY, 73, "tensor layers.2.bias has a value"},
      {-NAN, 74, "tensor momentum.0.weight has a value"},
  };
  Checkpoint checkpoint = make_checkpoint();
  must_save(&checkpoint, model);
  Content content = read_content(model);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint8_t *value = content.bytes + content.size - 4 * 148 + 4 * cases[i].at, old[4];
    memcpy(old, value, 4);
    memcpy(value, &cases[i].value, 4);
    write_content(model, content.bytes, content.size);
    assert_refuses_to_load(model, cases[i].message);
    memcpy(value, old, 4);
  }

  write_content(model, content.bytes, content.size);
  checkpoint.momentum[checkpoint.network.bias[1] + 2] = NAN;
  assert_refuses_to_save(&checkpoint, model,
                         "tensor momentum.1.bias has a value that is NaN or infinite");
  assert_content(model, content);
  free(content.bytes);
  checkpoint_free(&checkpoint);
}

/* Our own metadata is believed only as a whole. Each change keeps the file's length. */
IN_FOLDER(bad_metadata_is_refused) {
  static const struct {
    const char *from, *to, *message;
  } cases[] = {
      {"\"version\":\"1\"", "\"version\":\"2\"", "another version of mlp-train: format 2, not 1"},
      {"\"version\"", "\"Version\"", "format unknown, not 1"},
      {"\"epoch\":\"12\"", "\"epoch\":\"-2\"", "its metadata has no valid epoch"},
      {"\"epoch\":\"12\"", "\"epoch\":\"1x\"", "no valid epoch"},
      {"\"epoch\":\"12\"", "\"epoch\": \"\" ", "no valid epoch"},
      {"\"epoch\":\"12\"", "\"Epoch\":\"12\"", "no valid epoch"},
      {"\"epoch\":\"12\"", "\"epoch\":\"+1\"", "no valid epoch"},
      {"\"best_epoch\":\"2147483647\"", "\"best_epoch\":\"2147483648\"", "no valid best_epoch"},
      {"\"18446744073709551615\"", "\"18446744073709551616\"", "no valid step"},
      {"\"0.33333333333333331\"", "\"0.3333333333333333x\"", "no valid loss"},
      {"\"0.33333333333333331\"", "\"\"                   ", "no valid loss"},
      {"\"options\"", "\"Options\"", "no valid options"},
  };
  Checkpoint checkpoint = make_checkpoint();
  must_save(&checkpoint, model);
  Content content = read_content(model);
  size_t start;
  char *header = header_of(content, &start);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const size_t length = strlen(cases[i].from);
    assert_int_equal(strlen(cases[i].to), length);
    const char *found = strstr(header, cases[i].from);
    if (!found) fail_msg("no %s", cases[i].from);
    uint8_t *at = content.bytes + 8 + (found - header);
    memcpy(at, cases[i].to, length);
    write_content(model, content.bytes, content.size);
    assert_refuses_to_load(model, cases[i].message);
    memcpy(at, cases[i].from, length);
  }
  free(header);
  free(content.bytes);
  checkpoint_free(&checkpoint);
}

/* However much of a file is missing, what is left is refused. */
IN_FOLDER(truncated_files_are_refused) {
  Checkpoint checkpoint = make_checkpoint();
  must_save(&checkpoint, model);
  Content content = read_content(model);
  for (size_t size = content.size; size-- > 0;) {
    assert_int_equal(truncate(model, (off_t)size), 0);
    assert_refuses_to_load(model, size < 8 ? "it has only" : "cut off");
  }
  free(content.bytes);
  checkpoint_free(&checkpoint);
}

/* A damaged header is refused or read, and what is read can be saved: the sanitizers watch. */
IN_FOLDER(damaged_headers_do_no_harm) {
  static const uint8_t changes[] = {0x01, 0x02, 0x10, 0x80};
  Checkpoint checkpoint = make_checkpoint();
  must_save(&checkpoint, model);
  Content content = read_content(model);
  const size_t data = 4 * 148;
  int refused = 0, count = 0;
  const int file = open(model, O_WRONLY);
  assert_true(file >= 0);
  for (size_t i = 0; i < content.size - data; i++)
    for (size_t c = 0; c < sizeof changes; c++, count++) {
      const uint8_t byte = content.bytes[i] ^ changes[c];
      Checkpoint loaded;
      Error error = {.text = ""};
      assert_int_equal(pwrite(file, &byte, 1, (off_t)i), 1);
      const bool good = checkpoint_load(&loaded, model, &error);
      refused += !good;
      assert_int_equal(good, *error.text == 0);
      checkpoint_free(&loaded);
      assert_int_equal(pwrite(file, &content.bytes[i], 1, (off_t)i), 1);
    }
  assert_true(refused > count / 2 && refused < count);
  close(file);
  free(content.bytes);
  checkpoint_free(&checkpoint);
}
