/* The trainer on tiny files: what it asks of an engine, which rows it uses, that neither reading
   nor progress changes the weights, and how it fails. */
#include "support/trainer_tests.h"
#include "base/augment.h"
#include "base/random.h"

static void assert_range(const TrainRange *range, uint64_t first_row, uint64_t rows,
                         uint64_t first_step, uint64_t steps) {
  assert_int_equal(range->first_row, first_row);
  assert_int_equal(range->rows, rows);
  assert_int_equal(range->first_step, first_step);
  assert_int_equal(range->steps, steps);
}

/* ---- epochs ------------------------------------------------------------------------------- */

TESTS_WITH(folder_enter, folder_close);

TEST(every_row_counts_however_few) {
  static const int sizes[][2] = {{1, 1}, {3, 2}, {BATCH, 1}, {BATCH + 1, 7}, {23, 9}};
  foreach (size, sizes)
    for (int resident = RESIDENT_AUTO; resident <= RESIDENT_NO; resident++) {
      write_files((*size)[0], (*size)[1]);
      const TrainerConfig config = tiny_run(3, resident);
      RUN run = must_train(&config, false);
      assert_rows(&run, (uint64_t)(*size)[0], (uint64_t)(*size)[1]);
      assert_int_equal(run.resident, resident != RESIDENT_NO);
    }
}

/* At the rate of the epoch; test_option_table.c has the schedules. */
TEST(resident_rows_take_one_shuffled_call_per_epoch) {
  write_files(20000, 100);
  TrainerConfig config = tiny_run(3, RESIDENT_YES);
  config.training.batch = 3000; /* buffers of 6000 */
  RUN run = must_train(&config, false);
  assert_rows(&run, 20000, 100);
  assert_int_equal(spy.trains, 6);
  for (int buffer = 0; buffer < 4; buffer++) {
    assert_range(&spy.train[buffer], (uint64_t)buffer * 6000, buffer < 3 ? 6000 : 2000, 0,
                 buffer < 3 ? 2 : 1);
    assert_false(spy.train[buffer].shuffled);
  }
  for (int epoch = 1; epoch < 3; epoch++) {
    const TrainRange *range = &spy.train[3 + epoch];
    assert_range(range, 0, 20000, 0, 7);
    assert_true(range->shuffled);
    assert_true(range->key == random_order_key(config.training.seed, (uint64_t)epoch));
    assert_close(range->learning_rate, 0.05 * pow(0.8, epoch), 1e-7);
    assert_true(run.epoch[epoch].learning_rate == (double)range->learning_rate);
  }
  assert_int_equal(spy.evaluations, 3);
  for (int epoch = 0; epoch < 3; epoch++) {
    assert_int_equal(spy.evaluation[epoch].first_row, 20000);
    assert_int_equal(spy.evaluation[epoch].rows, 100);
  }
}

/* The files are gone by then; a network is what it is alone. */
TEST(another_run_may_have_the_rows_that_are_there) {
  write_files(20000, 100);
  TrainerConfig config = tiny_run(2, RESIDENT_YES);
  config.training.batch = 3000;
  config.training.dropout.share[0] = 0.2f;
  TrainerConfig other = config;
  other.training.seed = 2;
  other.training.schedule.rate = 0.01f;
  RUN alone = must_train(&other, false), run = {.aligned = 0}, again = {.aligned = 0};
  Trainer *trainer = trainer_open(&config, open_spy, &run, &error);
  const TrainerEvents events = {.epoch = on_epoch, .patience = 1, .context = &run};
  TrainerEvents of_other = events;
  of_other.context = &again;
  assert_false(trainer_serves(trainer, &other)); /* nothing was read yet */
  assert_int_equal(trainer_run(trainer, &events, &error), TRAINER_DONE);
  unlink(train_path);
  unlink(test_path);
  config.training.batch = 4;
  assert_false(trainer_serves(trainer, &config));
  assert_true(trainer_serves(trainer, &other));
  OK(trainer_start_again(trainer, &other, &error));
  assert_int_equal(trainer_run(trainer, &of_other, &error), TRAINER_DONE);
  OK(trainer_checkpoint(trainer, &again.saved, &error));
  trainer_close(trainer);
  assert_same_weights(&alone, &again);
  for (int i = 0; i < 2; i++) assert_true(again.epoch[i].test_loss == alone.epoch[i].test_loss);
}

TEST(streaming_shuffles_each_buffer_by_its_own_key) {
  write_files(20000, 7000);
  TrainerConfig config = tiny_run(3, RESIDENT_NO);
  config.training.batch = 3000;
  RUN run = must_train(&config, false);
  assert_rows(&run, 20000, 7000);
  assert_int_equal(spy.config.dataset_rows, 12000);
  assert_int_equal(spy.trains, 12);
  for (int call = 0; call < 12; call++) {
    const TrainRange *range = &spy.train[call];
    assert_range(range, call % 2 ? 6000 : 0, call % 4 < 3 ? 6000 : 2000, 0, call % 4 < 3 ? 2 : 1);
    assert_int_equal(range->shuffled, call >= 4);
    for (int other = 4; other < call; other++) assert_true(range->key != spy.train[other].key);
  }
  assert_int_equal(spy.evaluations, 6);
  for (int call = 0; call < 6; call++) {
    assert_int_equal(spy.evaluation[call].first_row, call % 2 ? 6000 : 0);
    assert_int_equal(spy.evaluation[call].rows, call % 2 ? 1000 : 6000);
  }
}

/* The parts of an epoch have one key, which no other epoch has, nor any other buffer. */
TEST(augmentation_has_one_key_per_epoch) {
  const AugmentStrengths strengths = {{1, 0, 0.2f}}, none = {{0}};
  write_files(9000, 20); /* two buffers */
  EACH_RESIDENCY(resident) {
    TrainerConfig config = tiny_run(3, resident);
    config.training.augment = strengths;
    RUN run = must_train(&config, true);
    assert_int_equal(spy.trains, resident == RESIDENT_YES ? 2 + 2 * 20 : 3 * 2);
    for (int call = 0; call < spy.trains; call++) {
      const TrainRange *range = &spy.train[call];
      assert_true(augment_same(range->augment, strengths));
      assert_true(range->augment_key != range->key);
      for (int other = 0; other < call; other++) {
        const TrainRange *before = &spy.train[other];
        const bool same = resident == RESIDENT_YES && call >= 2 &&
                          (call - 2) / 20 == (other - 2) / 20 && other >= 2;
        assert_int_equal(range->augment_key == before->augment_key, same);
        assert_int_equal(range->key == before->key, same);
      }
    }
    checkpoint_free(&run.saved);
    config.training.augment = none;
    run = must_train(&config, false);
    for (int call = 0; call < spy.trains; call++)
      assert_true(augment_same(spy.train[call].augment, none));
  }
}

TEST(progress_changes_no_bit) {
  write_files(203, 20); /* 51 steps: 20 parts of 2 or 3 */
  const TrainerConfig config = tiny_run(3, RESIDENT_YES);
  RUN plain = must_train(&config, false), shown = must_train(&config, true);
  assert_rows(&shown, 203, 20);
  assert_same_weights(&plain, &shown);
  assert_int_equal(spy.trains, 1 + 2 * 20);
  assert_int_equal(shown.progress, 1 + 2 * 20);
  assert_true(shown.done == 1);
  assert_true(shown.epoch[2].train_accuracy == plain.epoch[2].train_accuracy);
}

/* 51 steps in parts that begin at multiples of 8 alone: 8 to 48, and one for the last 3. */
TEST(parts_are_aligned) {
  write_files(203, 20);
  const TrainerConfig config = tiny_run(2, RESIDENT_YES);
  RUN run = must_run(&config, (Run){.shows_progress = true, .aligned = 8});
  assert_rows(&run, 203, 20);
  assert_int_equal(spy.trains, 1 + 7);
  for (int call = 1; call < spy.trains; call++) {
    assert_int_equal(spy.train[call].first_step, 8 * (call - 1));
    assert_int_equal(spy.train[call].steps, call < 7 ? 8 : 3);
  }
}

/* Three steps; and an epoch that is over before anybody would ask. */
TEST(few_parts_are_trained) {
  static const struct {
    int rows, trains, progress; /* progress: 1 for the file's only buffer */
    double patience;
  } cases[] = {{9, 1 + 2 * 3, 1 + 2 * 3, 0}, {203, 3, 1, 1000}};
  const TrainerConfig config = tiny_run(3, RESIDENT_YES);
  foreach (c, cases) {
    write_files(c->rows, 2);
    RUN run = must_run(&config, (Run){.shows_progress = true, .patience = c->patience});
    assert_rows(&run, (uint64_t)c->rows, 2);
    assert_int_equal(spy.trains, c->trains);
    assert_int_equal(run.progress, c->progress);
  }
}

/* ---- failures ----------------------------------------------------------------------------- */

TEST(auto_streams_when_the_dataset_does_not_fit) {
  write_files(50, 20);
  TrainerConfig config = tiny_run(2, RESIDENT_AUTO);
  RUN run = must_run(&config, (Run){.refused = 1});
  assert_false(run.resident);
  assert_int_equal(spy.opened, 2);
  assert_rows(&run, 50, 20);
  config.training.resident = RESIDENT_YES;
  must_fail(&config, (Run){.refused = 1}, "no memory for");
  assert_int_equal(spy.opened, 1);
}

TEST(failures_stop_the_run) {
  write_files(50, 20);
  TrainerConfig config = tiny_run(3, RESIDENT_YES);
  must_fail(&config, (Run){.fail = 2}, "failed by the test");
  assert_int_equal(spy.evaluations, 2);
  config.training.hidden.size[0] = 0;
  must_fail(&config, (Run){0}, "hidden layer's size");
}

/* Whoever is patient waits for the end of the file, others for that of a buffer. */
TEST(a_loss_that_is_not_finite_is_soon_seen) {
  write_files(8200, 20);
  EACH_RESIDENCY(resident) {
    TrainerConfig config = tiny_run(2, resident);
    config.training.schedule.rate = 100;
    config.training.rule.weight_decay = 1; /* a step multiplies a weight by -99 */
    must_fail(&config, (Run){.patience = -1}, "in steps 1 to 2048 of epoch 1");
    assert_int_equal(spy.trains, 1);
    must_fail(&config, (Run){.patience = 1000}, "in steps 1 to 2050 of epoch 1");
    assert_int_equal(spy.trains, 2);
    assert_int_equal(spy.evaluations, 0);
  }
}

/* The run ends behind the part of the epoch in which it happened, and names it. */
TEST(a_loss_that_is_not_a_number_stops_the_run_at_once) {
  static const struct {
    Run run;
    int trains, evaluations;
    const char *says;
  } cases[] = {{{.bad_train = 1},
                1,
                0,
                "the training loss is not a finite number in steps 1 to 13 of epoch 1"},
               {{.bad_train = 1 + 13 + 7, .shows_progress = true},
                1 + 13 + 7,
                2,
                "the training loss is not a finite number in steps 7 to 7 of epoch 3"},
               {{.bad_train = 3, .patience = 1000},
                3,
                2,
                "the training loss is not a finite number in steps 1 to 13 of epoch 3"},
               {{.bad_test = 2}, 2, 2, "the test loss is not a finite number after epoch 2"}};
  write_files(50, 20); /* 13 steps */
  const TrainerConfig config = tiny_run(4, RESIDENT_YES);
  foreach (c, cases) {
    must_fail(&config, c->run, text_printf("%s: try a lower --lr", c->says));
    assert_int_equal(spy.trains, c->trains);
    assert_int_equal(spy.evaluations, c->evaluations);
  }
}
