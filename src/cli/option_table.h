/* Describes the options of a program as the rows of a table. A row holds everything about an
   option. The command line (getopt_long), the defaults, --help and the check that no output file is
   named twice all read the row, so they cannot disagree.

   A program has a plain struct for its options and a table of rows made by OPTION_ROW. Its main
   calls option_table_read and option_table_end. src/mlp_digits.c is an example.

   option_kinds.h declares the kinds of options. A program may add kinds of its own. */
#pragma once

#include "base/output.h"
#include "base/text.h"

typedef struct OptionRow OptionRow;

/* The type of a row's value. `options` is the program's struct. `set` checks `value` in full and
   stores it in the row's field. Its error names the option, the value and the allowed values. `get`
   returns the field as text that `set` can read. */
typedef struct {
  bool (*set)(const OptionRow *row, const char *value, void *options, Error *error);
  ShortText (*get)(const OptionRow *row, const void *options);
  /* Returns the name of file number `index` of the field, counted from 0. Returns NULL after the
     last file. The pointer `file` itself is NULL if options of this kind name no files. */
  const char *(*file)(const OptionRow *row, const void *options, int index);
  bool is_number; /* the text that `get` returns is a JSON number */
} OptionKind;

typedef enum { FILE_NONE, FILE_INPUT, FILE_OUTPUT } FileRole;

struct OptionRow {
  const char *group;    /* the heading in the help and the section in a configuration file; NULL if
                           the row continues the group of the previous row */
  const char *name;     /* long name, and key in a configuration file */
  char letter;          /* short name, or 0 */
  const char *argument; /* the argument's name in the help; NULL if the option takes no argument */
  const char *initial;  /* the default as text; "" means no default; NULL means no default and keeps
                           the option out of configuration files */
  const char *help;     /* one line of plain English without a full stop */
  const OptionKind *kind;     /* NULL for --help and --version */
  size_t field;               /* offset of the value in the program's struct */
  double low, high;           /* the smallest and the largest allowed number */
  const char *const *choices; /* names of the choices, then NULL; the field holds an index */
  FileRole file;              /* whether the file that the option names is read or written */
  const char *endings;        /* allowed endings of an output's name, such as "jsonl csv" */
  bool may_lack_ending;       /* true if an output's name may also have no ending */
  bool lines;      /* true if an output has whole lines, which standard output may take */
  unsigned takers; /* bits for the commands that take the option; the program defines them */
  int resume;      /* whether a resumed run may change the value; the program defines the rules */
};

/* Makes a row whose field is in the program's struct STRUCT. Other members may follow the help. */
#define OPTION_ROW(STRUCT, NAME, ARGUMENT, INITIAL, KIND, FIELD, ...)                              \
  {                                                                                                \
    .name = (NAME), .argument = (ARGUMENT), .initial = (INITIAL), .kind = &(KIND),                 \
    .field = offsetof(STRUCT, FIELD), .help = __VA_ARGS__                                          \
  }

/* The rows of --help and --version. They end every table. */
#define OPTION_HELP                                                                                \
  { .name = "help", .letter = 'h', .help = "print this help and exit" }
#define OPTION_VERSION                                                                             \
  { .name = "version", .help = "print the version and exit" }

enum { OPTION_ROWS = 96 };          /* maximum number of rows of a table */
enum { COMPANION_PATH = 4096 + 3 }; /* bytes of the longest name of a companion */

typedef struct {
  const char *program;
  const char *usage;     /* lines of the help above the options; begins with "Usage: " */
  const char *notes;     /* lines below the options, after an empty line; may be "" */
  const OptionRow *rows; /* `count` rows; rows of one group are neighbours */
  size_t count;
  /* Sets `companion` to the name of a file that is read with the input `path` and that no option
     names, so that no output replaces it. Returns false if there is none. NULL if inputs of this
     program never have companions. */
  bool (*companion)(const char *path, char companion[COMPANION_PATH]);
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

/* Sets each field whose row has a default. Other fields keep their value. */
void option_table_default(const OptionTable *table, void *options);

/* Sets the options in argv. Other fields of *options keep their value. May reorder argv as
   getopt_long does. Sets *first to the index of the first argument that is not an option. */
OptionsResult option_table_parse(const OptionTable *table, int argc, char **argv, void *options,
                                 int *first, Error *error);

/* Sets all options to their defaults, then sets the options in argv. Refuses arguments that are not
   options. Also refuses a file that would be both read and written, or written twice. */
OptionsResult option_table_read(const OptionTable *table, int argc, char **argv, void *options,
                                Error *error);

const char *option_group(const OptionRow *row);

/* Returns true if the option's values in the two structs differ. */
bool option_differs(const OptionRow *row, const void *options, const void *others);

/* Prints the help, the version or the error that `result` asks for. Returns the program's exit
   status: 2 for wrong usage, 1 for another failure, 128 + SIGPIPE if standard output is a closed
   pipe, otherwise 0. `command` is argv[0]. */
int option_table_end(const OptionTable *table, OptionsResult result, const char *command,
                     Error *error);

/* Prints --help in at most 80 columns. */
void option_table_help(const OptionTable *table, FILE *file);

/* Returns the row's choices, joined by `between`, or "" if the row has none. */
ShortText option_choices(const OptionRow *row, const char *between);

/* Returns what a program must do if same_file_check has refused its files: the command line is
   wrong, unless memory ran out. */
static inline OptionsResult option_files_refused(const Error *error) {
  return error->too_large ? OPTIONS_FAILURE : OPTIONS_USAGE;
}

enum { OPTION_FILES = 64 }; /* maximum number of files that a table can name */

/* Lists the files that the options name, for same_file_check. Returns the number of files. */
int option_table_files(const OptionTable *table, const void *options, NamedFile list[OPTION_FILES]);

/* Is same_file_check for the files and for the companions of those that are read. */
bool option_files_check(const OptionTable *table, const NamedFile *files, int count, Error *error);

/* Returns false if a file would be both read and written, or written twice. */
bool option_table_check_files(const OptionTable *table, const void *options, Error *error);
