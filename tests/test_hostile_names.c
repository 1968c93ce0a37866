/* Names and files that hold commands for a terminal, or what is not UTF-8: mlp-train as a process
   prints none of it as it is, and writes JSON all the same. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "support/test.h"
#include "support/program.h"

/* Sets the title and clears the screen; then in the eight bits of U+009B, CSI, that no option
   refuses in a name. */
#define COMMANDS "\x1b]0;owned\a\x1b[2J"
#define NAME "\xc2\23331m\x9b\xff"
#define NAME_PRINTED "\\xc2\\x9b31m\\x9b\\xff"

static const char csv_name[] = NAME ".csv", st_name[] = NAME "/x.st", all[] = COMMANDS NAME;

static void assert_printable(const char *text) {
  char character[8] = "", printed[16];
  for (int length; *text; text += length) {
    length = text_character(text);
    if (length == 0) fail_msg("not UTF-8: %s", text);
    memcpy(character, text, (size_t)length);
    character[length] = '\0';
    text_printable(printed, sizeof printed, character);
    if (*text != '\n') assert_string_equal(character, printed);
  }
}

/* The program failed, with an error that quotes `expected`. */
static void assert_refused(const char *expected) {
  assert_int_not_equal(program.status, 0);
  program_said(expected);
  assert_printable(program.error);
}

TESTS_WITH(program_open, program_close);

TEST(test_names) {
  static const char *const options[] = {"--train", "--config", "--resume", "--load"};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    RUN(options[i], csv_name, "--evaluate");
    assert_refused("");
    RUN(options[i], COMMANDS, "--evaluate");
    assert_refused("");
  }
  RUN("--train", csv_name);
  assert_refused(NAME_PRINTED ".csv does not exist");
  RUN(TINY, "--save", st_name);
  assert_refused(NAME_PRINTED "/x.st");
  RUN(TINY, "--log", NAME);
  assert_refused(NAME_PRINTED);
}

TEST(test_values) {
  static const char *const options[] = {"--epochs", "--device", "--hidden", "--lr", "--fusion"};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    RUN(options[i], all);
    assert_refused("");
  }
  RUN(all);
  assert_refused("");
}

static void write_text(const char *name, const char *text, size_t length) {
  FILE *file = fopen(name, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, length, file), length);
  assert_int_equal(fclose(file), 0);
}

TEST(test_files) {
  static const char csv[] = "1,2,3\n1,\"" COMMANDS "\",3\n";
  write_text("hostile.csv", csv, sizeof csv - 1);
  RUN(TINY, "--train", "hostile.csv");
  assert_refused("hostile.csv, line 2, column 2");
  static const char *const configs[] = {COMMANDS "=1\n", "[" COMMANDS "]\n",
                                        "epochs=" COMMANDS "\n"};
  for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
    write_text("hostile.conf", configs[i], strlen(configs[i]));
    RUN("--config", "hostile.conf");
    assert_refused("");
  }
  static const char *const headers[] = {
      "{\"\\u001b[2J\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
      "{\"fc1.weight\":{\"dtype\":\"\\u001b[2J\",\"shape\":[1,1],\"data_offsets\":[0,4]}}",
      "{\"__metadata__\":{\"format\":\"mlp-train\",\"version\":\"\\u009b2J\"}}",
      "{\"__metadata__\":{\"format\":\"mlp-train\",\"epoch\":\"\\u001b[2J\"}}"};
  for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
    char bytes[256] = {(char)strlen(headers[i])};
    const int length = snprintf(bytes + 8, sizeof bytes - 8, "%s    ", headers[i]);
    write_text("hostile.st", bytes, 8 + (size_t)length);
    RUN("--load", "hostile.st", "--evaluate", "--test", "test.csv");
    assert_refused("hostile.st");
  }
}

/* A log of any names can be read. */
TEST(test_log) {
  program_write_csv(csv_name, 300, 0);
  RUN(TINY, "--epochs", "1", "--train", csv_name, "--log", "log.jsonl");
  assert_int_equal(program.status, 0);
  FILE *file = fopen("log.jsonl", "r");
  assert_non_null(file);
  json_error_t cause;
  json_t *run = json_loadf(file, JSON_DISABLE_EOF_CHECK, &cause);
  if (!run) fail_msg("%s", cause.text);
  assert_string_equal(json_string_value(json_object_get(run, "train")),
                      "\xc2\23331m\xef\xbf\xbd\xef\xbf\xbd.csv");
  json_decref(run);
  fclose(file);
}
