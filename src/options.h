/* The command line and the configuration file of mlp-train.

   One table has a row for every option. The command line (getopt_long), the keys of a
   configuration file (INI, read by inih), the built-in defaults and `--help` all come from it,
   so they cannot disagree. A configuration file has a section for each group of `--help`; its
   keys are the long names. The command line wins over the file, wherever --config stands. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "error.h"
#include "network.h"

enum { OPTIONS_PATH = 1024 }; /* bytes of a file's name, its end included */

enum { DEVICE_AUTO, DEVICE_CUDA, DEVICE_CPU };
enum { RESIDENT_AUTO, RESIDENT_YES, RESIDENT_NO };

typedef struct {
  int count; /* 0: no hidden layer */
  int size[NETWORK_MAX_LAYERS - 1];
} OptionSizes;

typedef struct {
  OptionSizes hidden;
  int classes;
  int epochs, batch;
  float lr, momentum, weight_decay, lr_decay;
  uint64_t seed;
  char train[OPTIONS_PATH], test[OPTIONS_PATH], config[OPTIONS_PATH]; /* config: "" for none */
  int resident;                                                       /* RESIDENT_... */
  int device;                                                         /* DEVICE_... */
  int fusion;                                                         /* a Fusion of engine.h */
  int threads;                                                        /* 0: one a core */
  bool quiet;
} Options;

/* A row of the table. `set` checks `value` in full and stores it in the row's field; its error
   names the option, the value and what is allowed. */
typedef struct OptionRow OptionRow;
typedef bool OptionSet(const OptionRow *row, const char *value, Options *options, Error *error);
struct OptionRow {
  const char *group;          /* heading of the help, section of a configuration file */
  const char *name;           /* long name, key of a configuration file */
  char letter;                /* short name, 0: none */
  const char *argument;       /* what the help calls it; NULL: takes none */
  const char *initial;        /* the default, as a user would write it; NULL: no key of a file */
  const char *help;           /* one sentence without its full stop */
  OptionSet *set;             /* NULL: --help and --version */
  size_t field;               /* offset in Options */
  double low, high;           /* limits of a number, both allowed */
  const char *const *choices; /* values of a choice, NULL at the end; the field is an index */
};

extern const char *const options_fusions[]; /* names in the order of engine.h's Fusion */

/* The table: *count rows, those of one group side by side. */
const OptionRow *options_table(size_t *count);

/* The built-in defaults. */
void options_default(Options *options);

/* Sets what the file `path` says and leaves the rest. Returns false with an error that names
   file and line: an unknown section or key, a key given twice, a bad value, a bad line. */
bool options_read_file(Options *options, const char *path, Error *error);

typedef enum {
  OPTIONS_RUN,
  OPTIONS_HELP,    /* --help was asked for */
  OPTIONS_VERSION, /* --version was asked for */
  OPTIONS_USAGE,   /* *error says what is wrong with the command line */
  OPTIONS_FAILURE, /* *error says what is wrong with the configuration file */
} OptionsResult;

/* Defaults, then the file of --config if there is one, then the command line. May reorder argv
   as getopt_long does. */
OptionsResult options_parse(int argc, char **argv, Options *options, Error *error);

void options_print_help(FILE *file);

#endif
