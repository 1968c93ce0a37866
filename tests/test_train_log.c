/* Tests the text of every line of a run log. tests/scenarios/run_files.sh tests how logs are
   continued; program.sh tests all options in a header. */
#include "commands/train_log.h"
#include "support/folder.h"

static const char *path; /* path of the current log */

static const Engine engine = {.device = "a \"quoted\" C:\\new\nname\r\tä"};

/* Numbers that need many digits, and extreme numbers. */
static const EpochResult first = {.epoch = 1,
                                  .epochs = 10,
                                  .seed = 4294967295,
                                  .train_loss = 0.1 + 0.2,
                                  .train_accuracy = 1.0 / 3,
                                  .test_loss = 5e-324,
                                  .test_accuracy = 0.9775,
                                  .learning_rate = (double)0.1F,
                                  .train_seconds = 1.7976931348623157e308,
                                  .test_seconds = 0,
                                  .train_rows = 60000,
                                  .test_rows = 9007199254740992};
static const EpochResult second = {.epoch = 2,
                                   .epochs = 10,
                                   .train_loss = NAN,
                                   .test_loss = INFINITY,
                                   .test_accuracy = -INFINITY,
                                   .learning_rate = 1e-9,
                                   .train_rows = 60000};

static const char columns[] = "epoch,epochs,train_loss,train_accuracy,test_loss,test_accuracy,"
                              "learning_rate,train_seconds,test_seconds,train_rows,test_rows,"
                              "val_loss,val_accuracy,val_seconds,val_rows,seed";

static TrainLog open_log(const char *name, bool append) {
  TrainLog log;
  path = name;
  OK(train_log_open(&log, path, append, &error));
  return log;
}

static void header(TrainLog *log) {
  Options options;
  options_default(&options);
  OK(train_log_header(log, &engine, &options, &error));
}

static void epoch(TrainLog *log, const EpochResult *result) {
  OK(train_log_epoch(log, result, &error));
}

static void end(TrainLog *log) {
  OK(train_log_close(log, &error));
}

/* Writes a log of two epochs. Checks the file after each epoch. Returns the header line. */
static const char *write_log(const char *name, const char *first_line, const char *second_line) {
  TrainLog log = open_log(name, false);
  assert_string_equal(folder_read(path), ""); /* the file is only locked */
  header(&log);
  const char *line = text_printf("%s", folder_read(path));
  epoch(&log, &first);
  assert_string_equal(folder_read(path), text_printf("%s%s\n", line, first_line));
  epoch(&log, &second);
  end(&log);
  assert_string_equal(folder_read(path), text_printf("%s%s\n%s\n", line, first_line, second_line));
  return line;
}

/* Returns the line of a JSON log that has the values of a line of a CSV log. */
static const char *json_of(const char *values) {
  const char *line = "{\"kind\": \"epoch\"";
  for (const char *name = columns; *name;) {
    const int length = (int)strcspn(name, ","), size = (int)strcspn(values, ",");
    line = text_printf("%s, \"%.*s\": %.*s", line, length, name, size ? size : 4,
                       size ? values : "null");
    name += length + (name[length] == ',');
    values += size + (values[size] == ',');
  }
  return text_printf("%s}", line);
}

/* Numbers must have enough digits to be read back bit for bit. */
static const char first_values[] =
    "1,10,0.30000000000000004,0.3333333333333333,4.94065645841247e-324,"
    "0.9775,0.1,1.7976931348623157e+308,0,60000,9007199254740992,,,,,4294967295";
static const char second_values[] = "2,10,,0,,,1e-09,0,0,60000,,,,,,0";

IN_FOLDER(test_json) {
  const char *line = write_log("run.jsonl", json_of(first_values), json_of(second_values));
  foreach (part,
           TEXTS("{\"kind\": \"run\", \"version\": \"",
                 "\"device_in_use\": \"a \\\"quoted\\\" C:\\\\new\\u000aname\\u000d\\u0009ä\", ",
                 ", \"hidden\": \"300,100\", ", ", \"lr_decay\": 0.8, ", ", \"quiet\": false, ",
                 ", \"log\": \"\", "))
    assert_in(line, *part);
}

IN_FOLDER(test_csv) {
  assert_string_equal(write_log("run.csv", first_values, second_values),
                      text_printf("%s\n", columns));
}

/* A second run cannot write the log of the first. A log without a header leaves no file. */
IN_FOLDER(test_is_locked) {
  TrainLog log = open_log("run.jsonl", false), other;
  FAILS(train_log_open(&other, "run.jsonl", false, &error),
        "cannot write run.jsonl: another run is writing it");
  assert_int_equal(symlink("run.jsonl", "link"), 0);
  FAILS(train_log_open(&other, "link", true, &error), "cannot write link: another run");
  OK(train_log_close(&other, &error));
  end(&log);
  assert_files(1);
  log = open_log("link", false);
  header(&log);
  end(&log);
  assert_in(folder_read("run.jsonl"), "{\"kind\": \"run\"");
  assert_files(2);
}

/* The old log stays until the run logs its first epoch. A run that ends earlier keeps it. */
IN_FOLDER(test_replaces) {
  folder_write("run.jsonl", "old\n");
  TrainLog log = open_log("run.jsonl", false);
  assert_string_equal(folder_read(path), "old\n");
  header(&log);
  header(&log); /* again, as when a run continues on another device */
  epoch(&log, &first);
  end(&log);
  assert_in(folder_read(path), "}\n{\"kind\": \"run\", ");
  assert_null(strstr(folder_read(path), "old"));
  log = open_log("", false);
  header(&log);
  epoch(&log, &first);
  end(&log);
}
