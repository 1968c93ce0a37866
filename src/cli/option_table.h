/* The options of a program as the rows of a table. A row holds everything about an option. The
   command line (getopt_long), the defaults, --help and the comparison of files all read it, so they
   cannot disagree.

   A program has a plain struct for its options and a table of rows made by OPTION_ROW. Its main
   calls option_table_read and option_table_end. src/mlp_digits.c is an example.

   option_kinds.h has the kinds. A program may add its own. */
#pragma once

#include "base/output.h"
#include "base/text.h"

typedef struct OptionRow OptionRow;

/* The type of a row's value. `options` is the program's struct. `set` checks `value` in full and
   stores it in the row's field. Its error names the option, the value and what is allowed. `get`
   returns the field as text that `set` reads. */
typedef struct {
  bool (*set)(const OptionRow *row, const char *value, void *options, Error *error);
  ShortText (*get)(const OptionRow *row, const void *options);
  /* Returns the index-th file that the field names, from 0, or NULL after the last. The pointer is
     NULL if the kind names no files. */
  const char *(*file)(const OptionRow *row, const void *options, int index);
  bool is_number; /* get returns a number of JSON */
} OptionKind;

typedef enum { FILE_NONE, FILE_INPUT, FILE_OUTPUT } FileRole;

struct OptionRow {
  const char *group;      /* heading of the help and section of the configuration file that begin
                             here; NULL continues the previous row's */
  const char *name;       /* long name and key of a configuration file */
  char letter;            /* short name, 0: none */
  const char *argument;   /* what the help calls the argument; NULL if the option takes none */
  const char *initial;    /* the default, as a user would write it; "" means no value, NULL also
                             means no key of a configuration file */
  const char *help;       /* one line of plain English without a full stop */
  const OptionKind *kind; /* NULL for --help and --version */
  size_t field;           /* offset in the program's struct */
  double low, high;       /* limits of a number, both included */
  const char *const *choices; /* names of a choice, NULL at the end; the field holds an index */
  FileRole file;              /* whether the file that the option names is read or written */
  const char *endings;        /* allowed endings of an output's name: "jsonl csv" */
  bool may_lack_ending;       /* an output's name may also have no ending */
  unsigned takers;            /* bits of the program's commands that take the option */
  int resume;                 /* the program's rule for a run that resumes */
};

/* A row for the program's struct STRUCT. Other members may follow the help. */
#define OPTION_ROW(STRUCT, NAME, ARGUMENT, INITIAL, KIND, FIELD, ...)                              \
  {                                                                                                \
    .name = (NAME), .argument = (ARGUMENT), .initial = (INITIAL), .kind = &(KIND),                 \
    .field = offsetof(STRUCT, FIELD), .help = __VA_ARGS__                                          \
  }

/* The last two rows of a table. */
#define OPTION_HELP                                                                                \
  { .name = "help", .letter = 'h', .help = "print this help and exit" }
#define OPTION_VERSION                                                                             \
  { .name = "version", .help = "print the version and exit" }

enum { OPTION_ROWS = 96 }; /* maximum rows of a table */

typedef struct {
  const char *program;
  const char *usage;     /* lines of the help above the options, from "Usage: " on */
  const char *notes;     /* lines below the options, after an empty line; "" means none */
  const OptionRow *rows; /* rows of one group stand together */
  size_t count;
} OptionTable;

#define foreach_row(ROW, TABLE)                                                                    \
  for (const OptionRow *ROW = (TABLE)->rows; ROW < (TABLE)->rows + (TABLE)->count; ROW++)

typedef enum {
  OPTIONS_RUN,
  OPTIONS_HELP,    /* --help was given */
  OPTIONS_VERSION, /* --version was given */
  OPTIONS_USAGE,   /* *error says what is wrong with the command line */
  OPTIONS_FAILURE, /* *error says what is wrong with a file that the command line names */
} OptionsResult;

/* Sets each field whose row has a default. Other fields keep their value, which is zero. */
void option_table_default(const OptionTable *table, void *options);

/* Sets the options in argv. Other fields of *options keep their value. May reorder argv as
   getopt_long does; *first is the index of the first word that is not an option. */
OptionsResult option_table_parse(const OptionTable *table, int argc, char **argv, void *options,
                                 int *first, Error *error);

/* Does the same for a program that takes only options, starting from their defaults. Refuses other
   words, and options by which one file would be written and read, or written twice. */
OptionsResult option_table_read(const OptionTable *table, int argc, char **argv, void *options,
                                Error *error);

/* Returns the group of a row. */
const char *option_group(const OptionRow *row);

/* Returns true if the option's values in the two structs differ. */
bool option_differs(const OptionRow *row, const void *options, const void *others);

/* Prints what --help, --version or an error asks for, and returns the program's exit status: 0; 1
   if the text could not be printed or `result` is OPTIONS_FAILURE; 2 for wrong usage. command: the
   program's name as it was called. */
int option_table_end(const OptionTable *table, OptionsResult result, const char *command,
                     Error *error);

/* Prints --help in at most 80 columns. */
void option_table_help(const OptionTable *table, FILE *file);

/* Returns the names of a choice or list with `between` between them, or "" if it has no names. */
ShortText option_choices(const OptionRow *row, const char *between);

enum { OPTION_FILES = 64 }; /* maximum files that a table can name */

/* Lists the files that the options name, for same_file_check. Returns how many there are. */
int option_table_files(const OptionTable *table, const void *options, NamedFile list[OPTION_FILES]);

/* Refuses options by which one file would be written and read, or written twice. */
bool option_table_check_files(const OptionTable *table, const void *options, Error *error);
