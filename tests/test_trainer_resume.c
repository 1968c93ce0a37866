/* The trainer when a run stops and goes on: bit for bit what one run does, wherever it stopped. */
#include "support/trainer_tests.h"

/* Later epochs have the same figures again, the training loss but for the rounding of its sum. */
static void assert_same_epochs(const Run *whole, const Run *rest, int before) {
  assert_int_equal(rest->epochs, whole->epochs - before);
  for (int i = 0; i < rest->epochs; i++) {
    const EpochResult *a = &whole->epoch[before + i], *b = &rest->epoch[i];
    assert_close(a->train_loss, b->train_loss, 1e-12 * a->train_loss);
    assert_true(a->train_accuracy == b->train_accuracy);
    assert_true(a->test_loss == b->test_loss);
    assert_true(a->test_accuracy == b->test_accuracy);
    assert_true(a->learning_rate == b->learning_rate);
    assert_int_equal(a->train_rows, b->train_rows);
  }
}

/* Stops a run at every call of the stop event, and goes on. Returns how often it stopped in the
   middle of an epoch, of which `first` are to be of the first. */
static int stop_everywhere(const TrainerConfig *config, int *first) {
  RUN whole = must_train(config, false);
  int within = 0;
  *first = 0;
  for (int stop = 1;; stop++) {
    RUN part = must_run(config, (Run){.stop = stop});
    if (part.stop_calls < stop) { /* it came to its end */
      assert_same_weights(&part, &whole);
      return within;
    }
    assert_int_equal(part.saved.epoch, part.epochs);
    assert_int_equal(part.saved.rows, part.saved.step * BATCH);
    within += part.saved.step > 0;
    *first += part.saved.step > 0 && part.saved.epoch == 0;
    RUN rest = must_run(config, (Run){.from = &part.saved});
    assert_same_weights(&rest, &whole);
    assert_same_epochs(&whole, &rest, part.epochs);
    for (int i = 0; i < rest.epochs; i++)
      assert_int_equal(rest.epoch[i].rows_before, i == 0 ? part.saved.rows : 0);
    assert_int_equal(rest.saved.epoch, config->training.epochs);
    assert_int_equal(rest.saved.step, 0);
    assert_int_equal(rest.saved.rows, 0);
    assert_int_equal(rest.saved.best_epoch, whole.saved.best_epoch);
    assert_true(rest.saved.best_accuracy == whole.saved.best_accuracy);
  }
}

TESTS_WITH(folder_enter, folder_close);

TEST(a_stopped_run_goes_on_bit_for_bit) {
  static const struct {
    int rows, stops; /* in an epoch that is read: at the end of a buffer, but no short step */
    AugmentStrengths augment;
  } files[] = {{8200, 2, {{0}}}, {8202, 1, {{0}}}, {8203, 1, {{1, 10}}}, {150, 0, {{0}}}};
  foreach (f, files) {
    write_files(f->rows, 20);
    EACH_RESIDENCY(resident) {
      TrainerConfig config = tiny_run(3, resident);
      config.training.schedule.kind = SCHEDULE_COSINE;
      config.training.schedule.warmup = 1;
      config.training.rule.weight_decay = 0.001f;
      config.training.augment = f->augment;
      int first;
      const int within = stop_everywhere(&config, &first), stops = f->stops;
      assert_int_equal(first, stops);
      assert_int_equal(within, resident == RESIDENT_YES ? stops + 2 * 19 : stops * 3);
    }
  }
}

/* Then its rows come in another order: all of them are trained all the same. */
TEST(a_stopped_run_may_go_on_with_other_residency) {
  static const struct {
    int rows, stop, resident; /* until the stop */
  } runs[] = {
      {8202, 5, RESIDENT_YES}, /* in the first buffer that is streamed then */
      {8200, 5, RESIDENT_NO},  /* behind the second epoch's last step */
  };
  foreach (r, runs) {
    write_files(r->rows, 20);
    const int other = r->resident == RESIDENT_YES ? RESIDENT_NO : RESIDENT_YES;
    TrainerConfig config = tiny_run(3, r->resident);
    RUN part = must_run(&config, (Run){.stop = r->stop});
    assert_int_equal(part.saved.epoch, 1);
    assert_in_range(part.saved.step, 1, r->rows / BATCH);
    config.training.resident = other;
    RUN rest = must_run(&config, (Run){.from = &part.saved});
    assert_int_equal(rest.epochs, 2);
    for (int epoch = 0; epoch < 2; epoch++) assert_int_equal(rest.epoch[epoch].train_rows, r->rows);
    if (other == RESIDENT_NO) assert_int_equal(spy.train[0].first_step, part.saved.step);
  }
}

/* Nobody knows how long the epochs of a run that goes on take: its first is trained in parts. */
TEST(a_run_that_goes_on_is_patient_once_it_knows) {
  write_files(203, 20);
  const TrainerConfig short_run = tiny_run(1, RESIDENT_YES), config = tiny_run(3, RESIDENT_YES);
  RUN part = must_train(&short_run, false);
  RUN rest = must_run(&config, (Run){.from = &part.saved, .stop = 1000, .patience = 1000});
  assert_int_equal(spy.trains, 20 + 1);
  assert_int_equal(rest.stop_calls, 19 + 1); /* not after the last epoch: that is the end */
}
