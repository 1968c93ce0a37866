/* mlp-train: trains a multilayer perceptron on a CSV file; see --help. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "engine.h"
#include "options.h"
#include "report.h"
#include "seconds.h"
#include "trainer.h"

typedef struct {
  int choice;   /* DEVICE_... */
  Error reason; /* why `auto` took the CPU, "" if it did not */
} Device;

/* A TrainerOpenEngine. */
static Engine *open_engine(void *context, const EngineConfig *config, Error *error) {
  Device *device = context;
  if (device->choice == DEVICE_CPU) return engine_cpu_open(config, error);
  if (device->choice == DEVICE_AUTO && !engine_cuda_available(&device->reason))
    return engine_cpu_open(config, error);
  return engine_cuda_open(config, error);
}

static bool file_exists(const char *path, Error *error) {
  if (access(path, F_OK) == 0 || errno != ENOENT) return true; /* its reader judges the rest */
  return error_set(error,
                   "there is no file %s: `make data` or scripts/download_mnist.sh gets MNIST, "
                   "./mlp-digits draws data/digits_train.csv and data/digits_test.csv",
                   path);
}

static bool start(Report *report, const Options *options, Trainer *trainer, const Device *device,
                  Error *error) {
  const Engine *engine = trainer_engine(trainer);
  const ReportStart lines = {.device = engine->device,
                             .device_reason = device->reason.text,
                             .memory = engine->memory,
                             .network = &engine->config.network,
                             .fusion = options_fusions[engine->config.fusion],
                             .fusion_reason = engine->reason,
                             .train = options->train,
                             .test = options->test,
                             .resident = trainer_is_resident(trainer)};
  return report_start(report, &lines, error);
}

static bool on_epoch(void *report, const EpochResult *result, Error *error) {
  return report_epoch(report, result, error);
}

static void on_progress(void *report, int epoch, int epochs, double done) {
  report_progress(report, epoch, epochs, done);
}

static bool train(const Options *options, Report *report, double began, Error *error) {
  if (!file_exists(options->train, error) || !file_exists(options->test, error)) return false;
  Device device = {.choice = options->device};
  Trainer *trainer = trainer_open(options, open_engine, &device, error);
  if (!trainer) return false;
  const TrainerEvents events = {.epoch = on_epoch,
                                .progress = report->has_bar ? on_progress : NULL,
                                .patience = 1,
                                .context = report};
  ReportTotals totals;
  const bool trained = start(report, options, trainer, &device, error) &&
                       trainer_run(trainer, &events, &totals, error);
  trainer_close(trainer);
  return trained && report_totals(report, &totals, seconds_now() - began, error);
}

int main(int argc, char **argv) {
  const double began = seconds_now();
  signal(SIGPIPE, SIG_IGN); /* a closed pipe is a failed write, told like any other */
  Options options;
  Error error;
  const OptionsResult asked = options_parse(argc, argv, &options, &error);
  Report report = report_open(options.quiet);
  bool done = false;
  switch (asked) {
  case OPTIONS_RUN:
    done = train(&options, &report, began, &error);
    break;
  case OPTIONS_HELP:
    options_print_help(stdout);
    done = report_flush(&error);
    break;
  case OPTIONS_VERSION:
    puts("mlp-train " MLP_TRAIN_VERSION);
    done = report_flush(&error);
    break;
  case OPTIONS_USAGE:
  case OPTIONS_FAILURE:
    break;
  }
  if (done) return 0;
  report_failure(&report, &error);
  if (asked != OPTIONS_USAGE) return 1;
  fputs("try ./mlp-train --help\n", stderr);
  return 2;
}
