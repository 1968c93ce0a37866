/* The options of a program as the rows of a table. A row has everything that is known of an option,
   and the command line (getopt_long), the defaults, --help and the comparison of files read it, so
   they cannot disagree.

   A program has a plain struct for its options, a table of rows made by OPTION_ROW, and
   option_table_read and option_table_end in main; src/mlp_digits.c is an example.

   option_kinds.h has the kinds; a program may have one of its own. */
#pragma once

#include "base/output.h"
#include "base/text.h"

typedef struct OptionRow OptionRow;

/* The type of a row's value. `options` is the program's struct. set checks `value` in full and
   stores it in the row's field; its error names the option, the value and what is allowed. get
   returns the field as set would read it. */
typedef struct {
  bool (*set)(const OptionRow *row, const char *value, void *options, Error *error);
  ShortText (*get)(const OptionRow *row, const void *options);
  /* The index-th file that the field names, from 0; NULL behind the last. NULL: names none. */
  const char *(*file)(const OptionRow *row, const void *options, int index);
  bool is_number; /* get returns what JSON reads as one */
} OptionKind;

typedef enum { FILE_NONE, FILE_INPUT, FILE_OUTPUT } FileRole;

struct OptionRow {
  const char *group;      /* heading of the help, section of a configuration file, which begins
                             here; NULL: that of the row above */
  const char *name;       /* long name, key of a configuration file */
  char letter;            /* short name, 0: none */
  const char *argument;   /* what the help calls it; NULL: it takes none */
  const char *initial;    /* the default, as a user would write it; "": no value, NULL: no key of a
                             configuration file either */
  const char *help;       /* one line of plain English without a full stop */
  const OptionKind *kind; /* NULL: --help and --version */
  size_t field;           /* offset in the program's struct */
  double low, high;       /* limits of a number, both allowed */
  const char *const *choices; /* values of a choice, NULL at the end; the field is an index */
  FileRole file;              /* whether the file that the option names is read or written */
  const char *endings;        /* the name of an output ends in one of these words: "jsonl csv" */
  bool may_lack_ending;       /* or has no ending */
  unsigned takers;            /* the program's bits of the commands that take the option */
  int resume;                 /* the program's rule for a run that is continued */
};

/* A row of the program's struct STRUCT; other members follow the help. */
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

enum { OPTION_ROWS = 96 }; /* of a table, at most */

typedef struct {
  const char *program;
  const char *usage;     /* lines of the help above the options, from "Usage: " on */
  const char *notes;     /* lines below them, after an empty one; "": none */
  const OptionRow *rows; /* those of one group side by side */
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

/* Sets the fields whose rows have a default, and leaves the others as they are: zeros. */
void option_table_default(const OptionTable *table, void *options);

/* Sets what argv says; what it does not name keeps its value in *options. May reorder argv as
   getopt_long does: *first is the index of the first word that is no option. */
OptionsResult option_table_parse(const OptionTable *table, int argc, char **argv, void *options,
                                 int *first, Error *error);

/* The same for a program that takes options alone, from their defaults on. Refuses other words, and
   options by which one file would be written and read, or written twice. */
OptionsResult option_table_read(const OptionTable *table, int argc, char **argv, void *options,
                                Error *error);

/* Returns the group of a row. */
const char *option_group(const OptionRow *row);

/* Returns true if the option's values in the two structs differ. */
bool option_differs(const OptionRow *row, const void *options, const void *others);

/* Prints what --help, --version or an error asks for, and returns the program's exit status: 0, 1
   if that could not be printed or *error is OPTIONS_FAILURE's, 2 for wrong usage. command: the
   program as it was called. */
int option_table_end(const OptionTable *table, OptionsResult result, const char *command,
                     Error *error);

/* Prints --help in at most 80 columns. */
void option_table_help(const OptionTable *table, FILE *file);

/* Returns the values of a choice or a list with `between` between them; "": it has none. */
ShortText option_choices(const OptionRow *row, const char *between);

enum { OPTION_FILES = 64 }; /* that a table can name, at most */

/* Lists the files that options name, for same_file_check; returns how many. */
int option_table_files(const OptionTable *table, const void *options, NamedFile list[OPTION_FILES]);

/* Refuses options by which one file would be written and read, or written twice. */
bool option_table_check_files(const OptionTable *table, const void *options, Error *error);
