/* Tests good and bad values of every option, on the command line and in configuration files. */
#include "base/augment.h"
#include "base/nearest.h"
#include "cli/options.h"
#include "engine/training.h"
#include "support/folder.h"

static const char config_path[] = "a.conf";

TESTS_WITH(folder_enter, folder_close);

static const char *write_config(const char *text) {
  folder_write(config_path, text);
  return config_path;
}

static Options options;
/* Parses the words of `line`, then `last` as one word (unless NULL). Sets `options` and `error`. */
static OptionsResult parse_with(const char *line, const char *last) {
  static char copy[8192], end[2 * OPTIONS_PATH], program[] = "mlp-train";
  char *argv[32] = {program};
  int argc = 1;
  for (char *word = strtok(strcpy(copy, line), " "); word; word = strtok(NULL, " "))
    argv[argc++] = word;
  if (last) argv[argc++] = strcpy(end, last);
  error.text[0] = '\0';
  options_default(&options);
  return options_parse(argc, argv, &options, &error);
}

static void accept(const char *line, const char *last) {
  OK(parse_with(line, last) == OPTIONS_RUN);
}

/* Checks that the words are refused, with result `how` and a message that contains `says`. */
static void refuse(OptionsResult how, const char *line, const char *last, const char *says) {
  if (parse_with(line, last) != how) fail_msg("accepted: %s %s", line, last ? last : "");
  assert_in(error.text, says);
}

/* Returns a value other than the default. "7,1" serves as a list of sizes and as a file name. */
static const char *other_value(const OptionRow *row) {
  const char *const *choice = row->choices, *initial = row->initial ? row->initial : "";
  const double number = strtod(initial, NULL) < row->high ? row->high : row->low;
  while (choice && choice[1]) choice++;
  if (!row->file && row->high > row->low) return text_printf("%.10g", number);
  return choice ? *choice : row->argument ? "7,1" : "yes";
}

static char *printed_config(const Options *of, bool whole) {
  return PRINTED(file, options_print_config(file, of, whole));
}

/* An option must change only its own field, and printed options must read back unchanged. */
TEST(every_option_has_a_field_of_its_own) {
  Options initial, changed, again, all;
  options_default(&initial);
  all = initial;
  for (const OptionRow *row = options_table.rows; row->kind; row++) {
    const char *text = other_value(row);
    changed = again = initial;
    OK(row->kind->set(row, text, &changed, &error));
    OK(row->kind->set(row, row->kind->get(row, &changed).text, &again, &error));
    assert_memory_equal(&changed, &again, sizeof changed);
    if (row->initial) assert_true(row->kind->set(row, text, &all, &error));
    for (const OptionRow *r = options_table.rows; r->kind; r++)
      if (option_differs(r, &changed, &initial) != (r == row))
        fail_msg("--%s=%s and --%s", row->name, text, r->name);
    if (row->kind != &option_number) continue;
    foreach (bound, VALUES(double, row->low, row->high)) /* the bound's text must be accepted */
      OK(row->kind->set(row, text_printf("%g", *bound), &changed, &error));
  }
  char *text = printed_config(&all, true);
  options_default(&again);
  OK(options_read_file(&again, write_config(text), &error));
  assert_memory_equal(&again, &all, sizeof all);
}

/* Each row says which commands take the option, what --resume does with it, and any file's use. */
TEST(every_option_is_classified) {
  foreach_row (row, &options_table) {
    if (!row->kind) continue; /* --help, --version */
    const bool names_file = row->argument && strcmp(row->argument, "FILE") == 0;
    if (row->takers == 0 || row->resume < ONE_RUN || row->resume > RESUME_SAME)
      fail_msg("--%s: who takes it, and what does --resume make of it?", row->name);
    if ((row->file != FILE_NONE) != names_file || (row->file == FILE_OUTPUT && !row->endings) ||
        !row->kind->file == names_file)
      fail_msg("--%s: is its file read or written, and how does its name end?", row->name);
    if (row->file == FILE_OUTPUT && options_is_saved(row))
      fail_msg("--%s: a saved run names a file to be written", row->name);
  }
}

TEST(values_are_what_they_say) {
  const Training *t = &options.training;
  accept("--hidden 7,16384,1 --augment rotate=15,scale=0.2,shift=0 --dropout 0.1 "
         "--device-memory 3 --test=b.csv --lr-schedule cosine --optimizer adamw",
         NULL);
  assert_memory_equal(&t->hidden, &((HiddenSizes){3, {7, 16384, 1}}), sizeof(HiddenSizes));
  assert_true(augment_same(t->augment, (AugmentStrengths){{0, 15, 0.2f}}));
  assert_true(training_dropout(t, 1) == 0.1f && t->device_memory == 3000000);
  assert_true(t->schedule.kind == SCHEDULE_COSINE && t->rule.kind == OPTIMIZER_ADAMW);
  assert_string_equal(options_test_file(&options), "b.csv");
  accept("--classify a.png --load m b.png", NULL);
  assert_true(options.classify && options.picture_count == 2 && options.load.count == 1);
  assert_string_equal(options.load.path[0], "m");
  assert_string_equal(options.pictures[0], "a.png");
  assert_string_equal(options.pictures[1], "b.png");
}

TEST(short_names_are_the_long_ones) {
  accept("-e 2 -b32 -l 1 -s 9 -d cuda -f none -qt 3", NULL);
  const Options shorts = options;
  accept("--epochs 2 --batch 32 --lr 1 --seed 9 --device cuda --fusion none "
         "--quiet --threads 3",
         NULL);
  assert_null(options_changed(&options, &shorts, ONE_RUN, RESUME_SAME));
  assert_int_equal(parse_with("-h", NULL), OPTIONS_HELP);
  assert_int_equal(parse_with("--version", NULL), OPTIONS_VERSION);
  assert_int_equal(parse_with("--epochs 3 --help --batch 0", NULL), OPTIONS_HELP);
}

TEST(a_bad_value_is_named_with_what_is_allowed) {
  static const struct {
    const char *name, *allowed, *values[14];
  } bad[] = {
      {"--epochs",
       "a whole number from 1 to 1000000",
       {"0", "1000001", "", "3x", "3 ", " 3", "-3", "+3", "1.5",
        "18446744073709551617"}}, /* 2^64 + 1, which overflows to 1 */
      {"--seed", "from 0 to 4294967295", {"-1", "4294967296"}},
      {"--lr",
       "a number from 0 to 100",
       {"nan", "-nan", "inf", "-0.1", "100.1", "1e30", "1e999", "1e-60", "", " 1", "0.1.", "0,1"}},
      {"--ema", "a number from 0 to 0.99999", {"1"}},
      {"--pixel-max", "a number from 1 to 255", {"0", "256"}},
      {"--dropout", "one number from 0 to 0.95, or one for each hidden", {"1", "0.5,", ""}},
      {"--hidden",
       "1 to 7 sizes from 1 to 16384",
       {"", "0", "16385", "300,", ",300", "300,,100", "300 100", "300,-1", "1,2,3,4,5,6,7,8",
        "none,3"}},
      {"--augment",
       "none, or any of shift, rotate, scale, shear, elastic, separated by commas, each alone or "
       "with its strength, as in shift=1",
       {"shift=1,shift=2", "shift=1;rotate", "shift=1,", "none=1"}},
      {"--device", "auto, cuda, cpu", {"gpu", ""}},
      {"--train", "the name of a file", {""}},
  };
  foreach (b, bad)
    for (int v = 0; b->values[v]; v++) {
      refuse(OPTIONS_USAGE, b->name, b->values[v], text_printf("%s must be ", b->name));
      assert_in(error.text, b->allowed);
      assert_in(error.text, text_printf("not '%s'", b->values[v]));
    }
}

TEST(wrong_usage_is_named) {
  static const Pair bad[] = {
      {"--bogus=3", "unknown option '--bogus=3'"},
      {"--wieghts=3", "unknown option '--wieghts=3': did you mean '--weights'?"},
      {"-qz", "unknown option '-z'"},
      {"--epochs", "--epochs needs an argument"},
      {"--quiet=yes", "--quiet does not take an argument"},
      {"--evaluate", "--evaluate needs a network; add --load FILE"},
      {"--load m", "--load needs --evaluate, --predict, --classify or --html"},
      {"--load m --evaluate --classify a.png", "--classify has no effect with --evaluate"},
      {"--load m --evaluate --resume n", "--resume has no effect with --evaluate"},
      {"--probabilities", "--probabilities can only be used with --predict"},
      {"--json", "--json can only be used with --evaluate, --classify"},
      {"--load m --evaluate --epochs 3", "--epochs has no effect with --evaluate; remove it"},
      {"--load m --predict a.csv --mistakes a.png", "--mistakes has no effect with --predict"},
      {"--load m --classify --test a.csv a.png", "--test has no effect with --classify"},
      {"--seeds 2 --early-stop 1", "--early-stop has no effect with --seeds; remove it"},
      {"--sweep lr=0.1,0.2 --save x", "--save has no effect with --sweep; remove it"},
      {"--load m --load n --evaluate --html a.html",
       "--html draws a single network; give --load only once"},
      {"--load m --classify", "needs the names of pictures"},
      {"--load m n --evaluate", "unexpected argument 'n'; write --load before each network"},
      {"--device cpu --fusion step", "--fusion step needs a GPU"},
      {"--dropout 0.1,0.2,0.3", "--dropout has 3 values, but --hidden has 2 layers"},
      {"--augment shift=15", "the strength of shift must be a number from 0 to 14 in 'shift=15'"},
  };
  foreach (b, bad) refuse(OPTIONS_USAGE, b->given, NULL, b->wanted);
  refuse(OPTIONS_USAGE, "--device", "cuda:1",
         "not 'cuda:1': choose a GPU with CUDA_VISIBLE_DEVICES=N in the environment");
  foreach (far, TEXTS("--bxxch", "--quxat",
                      text_printf("--%0199d", 0))) /* too unlike any option to suggest one */
    if (parse_with(*far, NULL) != OPTIONS_USAGE || strstr(error.text, "did you mean"))
      fail_msg("%s", error.text);
}

static bool is_option(const char *name, size_t length) {
  foreach_row (row, &options_table)
    if (strlen(row->name) == length && strncmp(row->name, name, length) == 0) return true;
  return false;
}

/* Every cure for a foreign word names only options that exist, and is given for that word. */
TEST(words_of_other_programs_get_a_cure_that_works) {
  const char *instead, *cure, *word;
  for (size_t i = 0; (word = nearest_foreign(i, &instead, &cure)) != NULL; i++) {
    if (is_option(word, strlen(word))) fail_msg("--%s is an option, not a foreign word", word);
    for (const char *at = cure; at && (at = strstr(at, "--")) != NULL; at += 2)
      if (!is_option(at + 2, strcspn(at + 2, " ,;")))
        fail_msg("the cure of %s names an option that is not there: %s", word, at);
    if (!is_option(instead, strlen(instead))) continue; /* the word is a value, not an option */
    if (cure)
      refuse(OPTIONS_USAGE, text_printf("--%s=1", word), NULL, text_printf("=1': %s", cure));
    else
      refuse(OPTIONS_USAGE, text_printf("--%s=1", word), NULL,
             text_printf("did you mean '--%s'?", instead));
  }
}

/* A saved run holds all options except ONE_RUN options: what a run prints, draws, writes, loads. */
TEST(the_options_of_a_saved_run_come_back) {
  Options back;
  accept("--hidden none --lr 0.0123456789 --momentum 0.1 --augment shift,scale=0.1,elastic=1e-3 "
         "--seed 4294967295 --lr-schedule linear --fusion step --plot",
         "a b.png");
  options_default(&back);
  FAILS(options_read_text(&back, printed_config(&options, true), "it", &error),
        "'names' is not an option of a saved run");
  options_default(&back);
  OK(options_read_text(&back, printed_config(&options, false), "it", &error));
  assert_string_equal(back.plot, "");
  strcpy(back.plot, options.plot);
  assert_null(options_changed(&back, &options, ONE_RUN, RESUME_SAME));
  assert_true(options_read_text(&options, "", "nothing", &error));
  OK(options_read_text(&options, "[past]\nmonitor = loss\nold = 1\n", "m.safetensors", &error));
  assert_string_equal(options_gone_text(&options, "m").text,
                      "m was trained with --monitor, --old, which this program no longer has");
}

TEST(a_name_has_a_length) {
  const char *name = text_printf("%0*d", OPTIONS_PATH - 1, 0);
  refuse(OPTIONS_USAGE, "--train", text_printf("0%s", name),
         "--train must be the name of a file of at most 1023 bytes, not 1024");
  accept("--train", name);
  assert_string_equal(options.train, name);
}

TEST(the_command_line_wins_wherever_config_stands) {
  write_config("[training]\nbatch = 7\nepochs = 3\n[output]\nquiet = yes\n");
  foreach (line, TEXTS("--config a.conf --batch 5", "--batch 5 --config a.conf")) {
    accept(*line, NULL);
    assert_true(options.training.batch == 5 && options.training.epochs == 3 && options.quiet);
    assert_true(training_base_rate(&options.training) == 0.05f * 5 / 64);
  }
}

TEST(each_optimizer_has_its_own_rate) {
  for (int k = 0; k < OPTIMIZERS; k++) {
    const int second = optimizer_has_second((Optimizer)k);
    accept(text_printf("--optimizer %s", options_optimizers[k]), NULL);
    assert_int_equal(options.training.rule.kind, k);
    const float rate = training_base_rate(&options.training);
    assert_true(second ? rate == 0.001f : rate == 0.05f);
    accept(text_printf("--batch 4 --optimizer %s", options_optimizers[k]), NULL);
    assert_true(training_base_rate(&options.training) == rate * (second ? 0.5f : 1.0f / 16));
  }
}

TEST(a_file_may_be_written_freely) {
  write_config("\xEF\xBB\xBF; a comment\r\n\r\n[training]\r\n# another\r\nbatch=7 ; here "
               "too\r\nseed = 5\t# and here\r\n"
               "   epochs : 3\r\n\t lr = 0.5\n[data]\ntrain = a b.csv");
  accept("--config", config_path);
  assert_int_equal(options.training.batch, 7);
  assert_int_equal(options.training.epochs, 3);
  assert_true(training_base_rate(&options.training) == 0.5f);
  assert_string_equal(options.train, "a b.csv");
}

TEST(a_bad_file_is_named_with_its_line) {
  static const struct {
    const char *text;
    int line;
    const char *says;
  } bad[] = {
      {"[training]\nbatch = 64\nbach = 3\n", 3, "unknown key 'bach'"},
      {"[training]\npatience = 3\n", 2, "unknown key 'patience': use --early-stop N"},
      {"[trainings]\nbatch = 64\n", 2, "'batch' belongs in section [training], not [trainings]"},
      {"# none\nbatch = 64\n", 2, "'batch' belongs in section [training], not []"},
      {"[training]\nbatch = 64\n\nbatch = 64\n", 4, "'batch' is given twice"},
      {"[training] batch = 64\n", 1, "a key belongs on a line of its own"},
      {"[training]\nbatch = 64\repochs = 2\n", 2, "lines must end with a line feed"},
      {"[training]\nbatch =\n", 2, "--batch must be a whole number from 1 to 65536, not ''"},
      {"[training]\nlr = nan\nbatch = x\n", 2,
       "--lr must be auto, or a number from 0 to 100, not 'nan'"},
      {"[training]\nbatch\nlr = 7000\n", 2, "the line is not a [section], key = value"},
      {"[output]\nquiet = 1\n", 2, "--quiet must be yes or no, not '1'"},
      {"[other]\nconfig = b.conf\n", 2, "unknown key 'config'"},
  };
  foreach (b, bad) {
    refuse(OPTIONS_FAILURE, "--config", write_config(b->text),
           text_printf("a.conf:%d: %s", b->line, b->says));
  }
  refuse(OPTIONS_FAILURE, "--config", write_config(text_printf("[data]\ntrain = %01000d\n", 0)),
         "a.conf:2: the line is too long");
  refuse(OPTIONS_FAILURE, "--config /nowhere/a.conf", NULL,
         "cannot open /nowhere/a.conf: No such file");
  refuse(OPTIONS_FAILURE, "--config", folder, "cannot read");
  assert_in(error.text, folder);
}

TEST(rates_follow_the_schedule) {
  static const struct {
    LrScheduleKind kind;
    int warmup, epoch;
    double rate, error;
  } rates[] = {{SCHEDULE_STEP, 0, 3, 0.5 * 0.421875, 1e-15},
               {SCHEDULE_CONSTANT, 0, 9, 0.5, 0},
               {SCHEDULE_COSINE, 0, 0, 0.5, 0},
               {SCHEDULE_COSINE, 0, 5, 0.25, 1e-15},
               {SCHEDULE_COSINE, 0, 9, 0.0122358709, 1e-9},
               {SCHEDULE_LINEAR, 0, 9, 0.05, 1e-15},
               {SCHEDULE_STEP, 3, 1, 0.5 * 0.5, 1e-15},
               {SCHEDULE_STEP, 3, 3, 0.5, 1e-15},
               {SCHEDULE_STEP, 3, 5, 0.5 * 0.5625, 1e-15},
               {SCHEDULE_LINEAR, 3, 1, 0.5 * 0.9 * 0.5, 1e-15},
               {SCHEDULE_CONSTANT, 3, 0, 0.125, 1e-15},
               {SCHEDULE_CONSTANT, 3, 2, 0.375, 1e-15},
               {SCHEDULE_CONSTANT, 3, 3, 0.5, 1e-15}};
  foreach (r, rates) {
    const Training training = {.epochs = 10, .schedule = {r->kind, 0.5f, 0.75f, r->warmup}};
    assert_close(training_rate(&training, r->epoch), r->rate, r->error);
  }
}
