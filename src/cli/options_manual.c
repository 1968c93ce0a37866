/* The manual: the man page and the bash completion, made from the table of options. */
#include <string.h>

#include "cli/options.h"

/* ---- the man page ------------------------------------------------------------------------- */

static const char man_start[] =
    ".TH MLP\\-TRAIN 1 \"\" \"mlp\\-train " MLP_TRAIN_VERSION "\" \"User Commands\"\n"
    ".SH NAME\n"
    "mlp\\-train \\- train a multilayer perceptron on rows of pixels, or use a saved one\n"
    ".SH SYNOPSIS\n"
    "\\fBmlp\\-train\\fR [\\fIOPTION\\fR]...\n"
    ".br\n"
    "\\fBmlp\\-train\\fR \\fB\\-\\-load\\fR \\fIFILE\\fR \\fB\\-\\-evaluate\\fR\n"
    ".br\n"
    "\\fBmlp\\-train\\fR \\fB\\-\\-load\\fR \\fIFILE\\fR \\fB\\-\\-predict\\fR \\fIFILE\\fR "
    "[\\fB\\-\\-output\\fR \\fIFILE\\fR]\n"
    ".br\n"
    "\\fBmlp\\-train\\fR \\fB\\-\\-load\\fR \\fIFILE\\fR \\fB\\-\\-classify\\fR "
    "\\fIPICTURE\\fR...\n"
    ".SH DESCRIPTION\n"
    "Trains a multilayer perceptron by stochastic gradient descent on an NVIDIA GPU or on the\n"
    "CPU, evaluates it on other rows after each epoch, and prints a line per epoch. A saved\n"
    "network can be trained further, evaluated, and used to predict the classes of rows and\n"
    "pictures.\n"
    ".PP\n"
    "Rows come from CSV files, one per line: the label, then the pixels, whole numbers from 0\n"
    "to 255. A header line may stand above them.\n"
    ".PP\n"
    "When it is interrupted (SIGINT, SIGTERM) it finishes the step, saves the network in the\n"
    "file of \\fB\\-\\-save\\fR or \\fB\\-\\-resume\\fR, and says how to continue. A second "
    "signal\n"
    "stops it at once.\n"
    ".SH OPTIONS\n"
    "Options are listed by group. A long name may be shortened as long as it is unambiguous.\n";

static const char man_configuration[] =
    ".SH CONFIGURATION FILES\n"
    "A file for \\fB\\-\\-config\\fR is an INI file: its sections are the groups above, its keys\n"
    "the long names, and a line that starts with # is a comment.\n"
    ".PP\n"
    ".RS 4\n"
    ".nf\n"
    "[training]\n"
    "# twice as long as by default\n"
    "epochs = 20\n"
    "[output]\n"
    "quiet = yes\n"
    ".fi\n"
    ".RE\n"
    ".PP\n"
    "Options that it leaves out keep their values; the command line wins over it, wherever\n"
    "\\fB\\-\\-config\\fR stands. With \\fB\\-\\-resume\\fR the options of the saved run come\n"
    "before both. An unknown section or key, or a key given twice, is an error.\n"
    ".PP\n"
    "These options are only for the command line:\n";

static const char man_end[] =
    ".SH EXIT STATUS\n"
    ".TP\n"
    "\\fB0\\fR\n"
    "Success.\n"
    ".TP\n"
    "\\fB1\\fR\n"
    "A failure of a file, memory or the device: one sentence on standard error says which.\n"
    ".TP\n"
    "\\fB2\\fR\n"
    "Wrong usage.\n"
    ".TP\n"
    "\\fB141\\fR\n"
    "Standard output was a pipe that its reader closed. What else was asked for was done.\n"
    ".TP\n"
    "\\fB130\\fR, \\fB143\\fR\n"
    "Interrupted by SIGINT or SIGTERM.\n"
    ".SH FILES\n"
    "Names are relative to the working folder. A configuration that is not there is looked for\n"
    "under the prefix, /usr/local by default, MNIST's files in \\fI~/.cache/mlp\\-train\\fR or\n"
    "\\fI$XDG_CACHE_HOME/mlp\\-train\\fR, where \\fBmlp\\-train\\-fetch\\fR puts them.\n"
    ".TP\n"
    "\\fIshare/mlp\\-train/configs/*.conf\\fR\n"
    "Configurations to start from. mnist.conf holds the defaults, with comments.\n"
    ".TP\n"
    "\\fI*.safetensors\\fR\n"
    "A saved network: layers.0.weight (outputs, inputs), layers.0.bias and so on, as in\n"
    "PyTorch's nn.Linear, with momentum, epoch, accuracy and options. The file is replaced only\n"
    "when the new one is complete.\n"
    ".SH EXAMPLES\n";

/* An aim, and the command. */
static const char *const man_examples[][2] = {
    {"Train, save the network, draw its curves:",
     "mlp-train --epochs 10 --save mnist.safetensors --plot curves.png"},
    {"Continue to twenty epochs:", "mlp-train --resume mnist.safetensors --epochs 20"},
    {"Evaluate it on the test rows, and draw its worst mistakes:",
     "mlp-train --load mnist.safetensors --evaluate --mistakes mistakes.png"},
    {"Predict the classes of the rows of a file, labelled or not:",
     "mlp-train --load mnist.safetensors --predict rows.csv --output predictions.csv"},
    {"Predict which digits are in pictures:",
     "mlp-train --load mnist.safetensors --classify seven.png three.jpg"},
    {"Write the options to a file for --config:",
     "mlp-train --hidden 1000 --lr-schedule cosine --dry-run >wide.conf"},
};

static const char man_see_also[] =
    ".SH SEE ALSO\n"
    "\\fBmlp\\-digits\\fR draws digits to train on. \\fBmlp\\-lab\\fR teaches the kernels of a "
    "GPU.\n"
    "\\fBmlp\\-bench\\fR, built only with CUDA, times training on one.\n"
    "\\fBmlp\\-idx\\-to\\-csv\\fR turns files like those of Fashion\\-MNIST and EMNIST into CSV.\n"
    ".PP\n"
    "\\fIshare/doc/mlp\\-train/README.md\\fR under the prefix.\n";

/* Prints a whole line or the rest of one so that every - is one that can be typed, and a leading .
   is not a request. */
static void print_roff(FILE *file, const char *text) {
  if (*text == '.' || *text == '\'') fputs("\\&", file);
  for (; *text; text++)
    if (*text == '-')
      fputs("\\-", file);
    else if (*text == '\\')
      fputs("\\e", file);
    else
      fputc(*text, file);
}

/* FILE in the table is the name of a file, LIST any of the choices. */
static bool wants(const OptionRow *row, const char *argument) {
  return row->argument && strcmp(row->argument, argument) == 0;
}

static void print_man_name(FILE *file, const OptionRow *row) {
  fputs("\\fB\\-\\-", file);
  print_roff(file, row->name);
  fputs("\\fR", file);
}

/* Prints the values that are allowed, and the default. */
static void print_man_values(FILE *file, const OptionRow *row) {
  const bool limits = row->choices || row->high > row->low;
  const bool initial = row->argument && row->initial && *row->initial;
  if (!limits && !initial) return;
  fputs(".br\n", file);
  if (row->choices) {
    fputs(wants(row, "LIST") ? "\\fBnone\\fR or, separated by commas, any of " : "one of ", file);
    for (int i = 0; row->choices[i]; i++)
      fprintf(file, "%s\\fB%s\\fR", i ? ", " : "", row->choices[i]);
  } else if (limits) {
    fprintf(file, "from %.10g to %.10g", row->low, row->high);
  }
  if (initial) {
    fprintf(file, "%sdefault \\fB", limits ? "; " : "");
    print_roff(file, row->initial);
    fputs("\\fR", file);
  }
  fputc('\n', file);
}

static void print_man_row(FILE *file, const OptionRow *row) {
  fputs(".TP\n", file);
  if (row->letter) fprintf(file, "\\fB\\-%c\\fR, ", row->letter);
  print_man_name(file, row);
  if (row->argument) fprintf(file, " \\fI%s\\fR", row->argument);
  fputc('\n', file);
  print_roff(file, row->help);
  fputc('\n', file);
  print_man_values(file, row);
}

void options_print_man(FILE *file) {
  const OptionRow *rows = options_table.rows;
  const size_t count = options_table.count;
  fputs(man_start, file);
  for (size_t i = 0; i < count; i++) {
    if (i == 0 || strcmp(rows[i].group, rows[i - 1].group) != 0)
      fprintf(file, ".SS %s\n", rows[i].group);
    print_man_row(file, &rows[i]);
  }
  fputs(man_configuration, file);
  const char *comma = "";
  for (size_t i = 0; i < count; i++) {
    if (rows[i].initial) continue;
    fputs(comma, file);
    print_man_name(file, &rows[i]);
    comma = ",\n";
  }
  fputs(".\n", file);
  fputs(man_end, file);
  for (size_t i = 0; i < sizeof man_examples / sizeof man_examples[0]; i++) {
    if (i > 0) fputs(".PP\n", file);
    print_roff(file, man_examples[i][0]);
    fputs("\n.PP\n.RS 4\n.nf\n", file);
    print_roff(file, man_examples[i][1]);
    fputs("\n.fi\n.RE\n", file);
  }
  fputs(man_see_also, file);
}

/* ---- bash completion ---------------------------------------------------------------------- */

static const char completion_start[] =
    "# bash completion for mlp-train " MLP_TRAIN_VERSION ", made from its table of options.\n"
    "# $cur is the word to complete, and what it may become goes to COMPREPLY.\n"
    "\n"
    "_mlp_train_words() {\n"
    "  mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\")\n"
    "}\n"
    "\n"
    "# none, or words separated by commas, each at most once.\n"
    "_mlp_train_list() {\n"
    "  local words=\"none $1\" before='' word\n"
    "  if [[ $cur == *,* ]]; then words=$1 before=${cur%,*},; fi\n"
    "  for word in $words; do\n"
    "    if [[ ,$before != *,$word,* && $before$word == \"$cur\"* ]]; then\n"
    "      COMPREPLY+=(\"$before$word\")\n"
    "    fi\n"
    "  done\n"
    "  compopt -o nospace\n"
    "}\n"
    "\n"
    "# Folders, and files that end in one of the words.\n"
    "_mlp_train_files() {\n"
    "  mapfile -t COMPREPLY < <(\n"
    "    compgen -d -- \"$cur\"\n"
    "    for ending in $1; do compgen -f -X \"!*.$ending\" -- \"$cur\"; done\n"
    "  )\n"
    "  compopt -o filenames\n"
    "}\n"
    "\n"
    "_mlp_train() {\n"
    "  local IFS=$' \\t\\n'\n"
    "  local cur=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "  # --name=value is three words\n"
    "  if [[ $cur == = ]]; then\n"
    "    cur=''\n"
    "  elif [[ $option == = ]]; then\n"
    "    option=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "  fi\n"
    "  COMPREPLY=()\n"
    "  case $option in\n";

/* Between the options that take an argument and the names of all options. image.h says which
   pictures can be read. */
static const char completion_middle[] =
    "    *)\n"
    "      if [[ $cur != -* && \" ${COMP_WORDS[*]:1:COMP_CWORD-1} \" == *' --classify '* ]]; then\n"
    "        _mlp_train_files 'png PNG jpg JPG jpeg JPEG bmp BMP gif GIF pgm PGM ppm PPM'\n"
    "      else\n"
    "        _mlp_train_words '";

static const char completion_end[] = "'\n"
                                     "      fi\n"
                                     "      ;;\n"
                                     "  esac\n"
                                     "}\n"
                                     "\n"
                                     "complete -F _mlp_train mlp-train\n";

/* The values to choose from; for a number, the default. */
static void print_completion_values(FILE *file, const OptionRow *row) {
  fprintf(file, "_mlp_train_%s '",
          wants(row, "FILE")   ? "files"
          : wants(row, "LIST") ? "list"
                               : "words");
  if (wants(row, "FILE")) {
    fputs(row->endings, file);
  } else if (row->choices) {
    for (int i = 0; row->choices[i]; i++) fprintf(file, "%s%s", i ? " " : "", row->choices[i]);
  } else if (row->initial) {
    fputs(row->initial, file);
  }
  fputc('\'', file);
}

void options_print_completion(FILE *file) {
  const OptionRow *rows = options_table.rows;
  const size_t count = options_table.count;
  fputs(completion_start, file);
  for (size_t i = 0; i < count; i++) {
    if (!rows[i].argument) continue;
    fputs("    ", file);
    if (rows[i].letter) fprintf(file, "-%c | ", rows[i].letter);
    fprintf(file, "--%s) ", rows[i].name);
    print_completion_values(file, &rows[i]);
    fputs(" ;;\n", file);
  }
  fputs(completion_middle, file);
  for (size_t i = 0; i < count; i++) {
    const bool first = i > 0 && strcmp(rows[i].group, rows[i - 1].group) != 0;
    fprintf(file, "%s--%s", i == 0 ? "" : first ? "\n          " : " ", rows[i].name);
  }
  fputs(completion_end, file);
}
