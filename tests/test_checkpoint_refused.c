/* Files that checkpoint_load refuses (forged, damaged, cut off) and its messages. */
#include "support/checkpoint_files.h"

#include <fcntl.h>
#include <sys/stat.h>

/* The tensors of 3 - 2, 32 bytes of data, to be completed. */
#define WEIGHT "<0.weight 2,3 0,24>"
#define BIAS "<0.bias 2 24,32>"

/* A file of that header and data, as of forge. */
static void refuse(const char *header, size_t data, const char *message) {
  forge(header, data);
  assert_refuses_to_load(model, message);
}

IN_FOLDER(bad_tensors_are_refused) {
  static const Pair cases[] = {
      /* JSON */
      {"{" WEIGHT "," BIAS, "its header is not the JSON of a safetensors file: '}' expected"},
      {"{" WEIGHT "," BIAS "} x", "end of file expected"},
      {WEIGHT WEIGHT BIAS, "duplicate object key near '\"0.weight\"'"},
      {"{'0.weight':{'dtype':'F32','dtype':'F32','shape':[2,3],'data_offsets':[0,24]}"
       "," BIAS "}",
       "duplicate object key near '\"dtype\"'"},
      {"{'0.\xff':1}", "unable to decode byte 0xff"},
      {"[]", "it is not a safetensors file: its header does not start with {"},
      {" {" WEIGHT "," BIAS "}", "its header does not start with {"},
      {"", "its header does not start with {"},
      /* entries */
      {"{}", "it has no tensor named like layers.0.weight"},
      {"{'__metadata__':{}}", "it has no tensor named like layers.0.weight"},
      {"{'0.weight':7," BIAS "}", "tensor 0.weight must have a dtype, a shape and data_offsets"},
      {"{'0.weight':{'shape':[2,3],'data_offsets':[0,24]}," BIAS "}", "have a dtype"},
      {"{'0.weight':{'dtype':'F32','data_offsets':[0,24]}," BIAS "}", "have a dtype"},
      {"{'0.weight':{'dtype':'F32','shape':[2,3]}," BIAS "}", "have a dtype"},
      {"{'0.weight':{'dtype':'BF16','shape':[2,3],'data_offsets':[0,12]}," BIAS "}",
       "tensor 0.weight is of dtype BF16; only F32 can be read"},
      {"{'__metadata__':{'epoch':1}," WEIGHT "," BIAS "}",
       "its __metadata__ must be a map of strings"},
      {"{'__metadata__':[]," WEIGHT "," BIAS "}", "must be a map of strings"},
      /* names */
      {WEIGHT BIAS "<1.running_mean 2 32,40>",
       "tensor 1.running_mean is none of a network of linear layers"},
      {WEIGHT BIAS "<out.weight 2,2 32,48>", "tensor out.weight is"},
      {WEIGHT BIAS "<weight 2,2 32,48>", "tensor weight is none"},
      {WEIGHT "<9999999999.bias 2 24,32>", "9999999999.bias is none"},
      {WEIGHT "<a.0.bias 2 24,32>", "tensors 0.weight and a.0.bias must belong to one network"},
      {"<ab0.weight 2,3 0,24><ac0.bias 2 24,32>",
       "tensors ab0.weight and ac0.bias must belong to one network"},
      {"<ab0.weight 2,3 0,24><a0.bias 2 24,32>",
       "tensors ab0.weight and a0.bias must belong to one network"},
      {WEIGHT BIAS "<00.bias 2 32,40>", "tensors 0.bias and 00.bias are one and the same"},
      {WEIGHT, "tensor 0.weight has no bias beside it"},
      {"<0.bias 2 0,8>", "tensor 0.bias has no weight beside it"},
      {WEIGHT "<1.bias 2 24,32>", "0.weight has no bias beside it"},
      {WEIGHT BIAS "<\\u001b[2J\\n 2 32,40>", "tensor \\x1b[2J\\x0a is"},
      /* shapes */
      {"<0.weight 6 0,24>" BIAS, "tensor 0.weight has 1 dimensions, not 2"},
      {"<0.weight 2,3,1 0,24>" BIAS, "has 3 dimensions, not 2"},
      {WEIGHT "<0.bias 2,1 24,32>", "has 2 dimensions, not 1"},
      {WEIGHT "<0.bias - 24,28>", "has 0 dimensions, not 1"},
      {WEIGHT "<0.bias 3 24,36>", "tensor 0.bias has 3 values, 0.weight wants 2"},
      {WEIGHT BIAS "<1.weight 2,3 32,56><1.bias 2 56,64>",
       "tensor 1.weight takes 3 values, the layer before gives 2"},
      {"<0.weight 0,3 0,0><0.bias 0 0,0>",
       "tensor 0.weight: the sizes of its shape must be whole numbers, 1 to 16384"},
      {"<0.weight -2,-3 0,24>" BIAS, "must be whole numbers"},
      {"<0.weight 2.0,3 0,24>" BIAS, "must be whole numbers"},
      {"<0.weight 16385,1 0,65540>" BIAS, "must be whole numbers"},
      {"<0.weight 4294967296,4294967296 0,0>" BIAS, "must be whole"},
      {"<0.weight 2147483648,2147483648 0,0>" BIAS, "must be whole"},
      {"<0.weight 18446744073709551618,3 0,24>" BIAS, "integer"},
      {"<0.weight 2,4097 0,32776><0.bias 2 32776,32784>",
       "the number of inputs must be 1 to 4096, not 4097"},
      {"<0.weight 1025,1 0,4100><0.bias 1025 4100,8200>",
       "the number of classes must be 2 to 1024, not 1025"},
      {"<0.weight 1,1 0,4><0.bias 1 4,8>", "the number of classes must be 2 to 1024, not 1"},
      /* offsets */
      {WEIGHT "<0.bias 2 24,28>", "tensor 0.bias has 4 bytes, its shape wants 8"},
      {"<0.weight 2,3 -8,16>" BIAS, "must be two ascending whole"},
      {"<0.weight 2,3 24,0>" BIAS, "must be two ascending whole"},
      {"<0.weight 2,3 0,24.0>" BIAS, "must be two ascending whole"},
      {"<0.weight 2,3 0,24,24>" BIAS, "must be two ascending whole"},
      {WEIGHT "<0.bias 2 16,24>", "tensors 0.weight and 0.bias overlap"},
      {"<0.bias 2 0,8><0.weight 2,3 4,28>", "tensors 0.bias and 0.weight overlap"},
      {WEIGHT "<0.bias 2 28,36>", "byte 24 of its data belongs to no"},
      {"<0.weight 2,3 4,28><0.bias 2 28,36>", "byte 0 of its data belongs to no tensor"},
      /* momentum */
      {"<momentum.0.weight 2,3 0,24><momentum.0.bias 2 24,32>",
       "it has no tensor named like layers.0.weight"},
      {WEIGHT BIAS "<momentum.0.bias 2 32,40>", "tensor momentum.0.bias has no weight beside it"},
      {WEIGHT BIAS "<momentum.0.weight 2,2 32,48><momentum.0.bias 2 48,56>",
       "its momentum has other shapes than its parameters"},
  };
  foreach (row, cases) refuse(row->given, 0, row->wanted);
  refuse(WEIGHT BIAS, 31,
         "tensor 0.bias ends at byte 32 of the data, of which there are only 31: the file was cut "
         "off or damaged");
  refuse("<0.weight 16384,16384 0,1073741824>" BIAS, 32, "ends at byte 1073");
  refuse("<0.weight 16384,16384 0,32>" BIAS, 32,
         "tensor 0.weight has 32 bytes, its shape wants 1073741824");
  refuse(WEIGHT "<0.bias 2 9223372036854775800,9223372036854775807>", 32,
         "0.bias ends at byte 9223372036854775807");
  refuse(WEIGHT BIAS, 33, "byte 32 of its data belongs to no tensor");
}

IN_FOLDER(too_many_layers_are_refused) {
  char header[1024] = "";
  for (int l = 0; l < 9; l++)
    sprintf(header + strlen(header), "<%d.weight 2,2 %d,%d><%d.bias 2 %d,%d>", l, 24 * l,
            24 * l + 16, l, 24 * l + 16, 24 * l + 24);
  refuse(header, 0, "it has more than 8 layers");
}

IN_FOLDER(bad_files_are_refused) {
  assert_refuses_to_load(model, "No such file or directory");
  assert_refuses_to_load(folder, "it is a folder");
  assert_int_equal(mkfifo("pipe", 0600), 0);
  assert_refuses_to_load("pipe", "it is not a regular file"); /* and does not wait for a writer */

  static const struct {
    const char *bytes;
    size_t size;
    const char *message;
  } cases[] = {
      {"", 0, "it is not a safetensors file: it has only 0 bytes"},
      {"\x05\0\0\0\0\0\0", 7, "it is not a safetensors file: it has only 7 bytes"},
      {"\x03\0\0\0\0\0\0\0{}", 10, "cut off: its header has 3 bytes, the whole file 10"},
      {"\x89PNG\r\n\x1a\n more of it", 20,
       "it is a PNG picture, not safetensors: --classify takes pictures"},
      {"\xff\xff\xff\xff\xff\xff\xff\xff{}", 10,
       "it is not a safetensors file of a network: its header would have 18446744073709551615 "
       "bytes, at most 1048576"},
  };
  foreach (row, cases) {
    folder_write_bytes(model, row->bytes, row->size);
    assert_refuses_to_load(model, row->message);
  }
}

/* A header of exactly the bound is read; a byte more is not, though the file has it. */
IN_FOLDER(header_has_a_bound) {
  static const char entries[] = "{" WEIGHT "," BIAS "}";
  forge(entries, 0); /* eight bytes, the header and 32 of data */
  const size_t given = sizeof entries - 1, length = read_content(model).size - 40, bound = 1 << 20;
  const int most = (int)(given + bound - length);
  forge(text_printf("%-*s", most, entries), 32);
  Checkpoint checkpoint = must_load();
  checkpoint_free(&checkpoint);
  refuse(text_printf("%-*s", most + 1, entries), 32,
         "its header would have 1048577 bytes, at most 1048576");
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
  save_sample();
  foreach (row, cases) {
    uint8_t *value = saved.bytes + saved.size - 4 * 148 + 4 * row->at, old[4];
    memcpy(old, value, 4);
    memcpy(value, &row->value, 4);
    folder_write_bytes(model, saved.bytes, saved.size);
    assert_refuses_to_load(model, row->message);
    memcpy(value, old, 4);
  }

  folder_write_bytes(model, saved.bytes, saved.size);
  checkpoint_array(&sample, CHECKPOINT_MOMENTUM)[sample.network.bias[1] + 2] = NAN;
  assert_refuses_to_save("save", model,
                         "tensor momentum.1.bias has a value that is NaN or infinite");
  assert_content(saved);
}

/* Our own metadata is believed only as a whole. Each change keeps the file's length. */
IN_FOLDER(bad_metadata_is_refused) {
  static const struct {
    const char *from, *to, *message;
  } cases[] = {
      {"'version':'1'", "'version':'2'", "another version of mlp-train: format 2, not 1"},
      {"'version'", "'Version'", "format unknown, not 1"},
      {"'epoch':'12'", "'epoch':'-2'", "its metadata has no valid epoch"},
      {"'epoch':'12'", "'epoch':'1x'", "no valid epoch"},
      {"'epoch':'12'", "'epoch': '' ", "no valid epoch"},
      {"'epoch':'12'", "'Epoch':'12'", "no valid epoch"},
      {"'epoch':'12'", "'epoch':'+1'", "no valid epoch"},
      {"'best_epoch':'2147483647'", "'best_epoch':'2147483648'", "no valid best_epoch"},
      {"'18446744073709551615'", "'18446744073709551616'", "no valid step"},
      {"'0.33333333333333331'", "'0.3333333333333333x'", "no valid loss"},
      {"'0.33333333333333331'", "''                   ", "no valid loss"},
      {"'options'", "'Options'", "no valid options"},
      {"'no\\n", "'no  ", "its names: 1 name, but the network has 2 classes"},
      {"'no\\n", "'  \\n", "its names: name 1 is empty"},
  };
  save_sample();
  size_t start;
  const char *header = header_of(saved, &start);
  foreach (row, cases) {
    const char *from = folder_json(row->from), *to = folder_json(row->to);
    const size_t length = strlen(from);
    assert_int_equal(strlen(to), length);
    const char *found = strstr(header, from);
    if (!found) fail_msg("no %s", from);
    uint8_t *at = saved.bytes + 8 + (found - header);
    memcpy(at, to, length);
    folder_write_bytes(model, saved.bytes, saved.size);
    assert_refuses_to_load(model, row->message);
    memcpy(at, from, length);
  }
}

/* However much of a file is missing, what is left is refused. */
IN_FOLDER(truncated_files_are_refused) {
  save_sample();
  for (size_t size = saved.size; size-- > 0;) {
    assert_int_equal(truncate(model, (off_t)size), 0);
    assert_refuses_to_load(model, size < 8 ? "it has only" : "cut off");
  }
}

/* A damaged header is refused or read, and what is read can be saved: the sanitizers watch. */
IN_FOLDER(damaged_headers_do_no_harm) {
  save_sample();
  const size_t data = 4 * 148;
  int refused = 0, count = 0;
  const int file = open(model, O_WRONLY);
  assert_true(file >= 0);
  for (size_t i = 0; i < saved.size - data; i++)
    foreach (change, VALUES(uint8_t, 0x01, 0x02, 0x10, 0x80)) {
      const uint8_t byte = saved.bytes[i] ^ *change;
      Checkpoint loaded;
      error.text[0] = '\0';
      assert_int_equal(pwrite(file, &byte, 1, (off_t)i), 1);
      const bool good = checkpoint_load(&loaded, model, &error);
      refused += !good;
      count++;
      assert_int_equal(good, *error.text == 0);
      checkpoint_free(&loaded);
      assert_int_equal(pwrite(file, &saved.bytes[i], 1, (off_t)i), 1);
    }
  assert_true(refused > count / 2 && refused < count);
  close(file);
}
