#include "base/nearest.h"

#include <stdint.h>
#include <string.h>

#include "base/sizes.h"
#include "base/text.h"

#define USE_GPU "choose a GPU with CUDA_VISIBLE_DEVICES=N in the environment"
#define USE_FILES "use --train FILE and --test FILE"
#define NO_FOLDS "there is no cross-validation; hold rows out with --validation 0.1"
#define HOLD_OUT "use --validation 0.1 to hold out a tenth of the training rows"

/* Words that other programs use, or that former versions of this one used. A row holds only if the
   word `instead` is among the known words, so that no program advises what only another one can do.
   `cure` says what to do; if it is NULL, `instead` means the same. A word that ends with a colon
   stands for every word that begins with it. */
static const struct {
  const char *word, *instead, *cure;
} foreign[] = {
    {"activation", "hidden", "hidden layers always use ReLU"},
    {"batch-size", "batch", NULL},
    {"checkpoint", "save", "use --save FILE to save the network, --resume FILE to continue it"},
    {"class-weight", "train",
     "classes cannot be weighted; repeat the rows of rare classes in the training file"},
    {"cpu", "device", "use --device cpu"},
    {"cuda", "device", "use --device cuda"},
    {"cuda:", "cuda", USE_GPU},
    {"cross-validation", "validation", NO_FOLDS},
    {"data", "train", USE_FILES},
    {"dataset", "train", USE_FILES},
    {"ensemble", "seeds",
     "train with --seeds N --save FILE, then use the networks together by giving --load several "
     "times"},
    {"gpu", "cuda", NULL},
    {"gpu", "device", USE_GPU ", or train on any with --device cuda"},
    {"init", "resume", "use --resume FILE to continue training a saved network"},
    {"k-fold", "validation", NO_FOLDS},
    {"kfold", "validation", NO_FOLDS},
    {"l2", "weight-decay", NULL},
    {"learning-rate", "lr", NULL},
    {"loss", "label-smoothing", "the loss is always cross-entropy"},
    {"model", "load", "use --save FILE to save the network, --load FILE to use a saved one"},
    {"num-workers", "threads", NULL},
    {"onnx", "save",
     "ONNX is not written; --save writes safetensors, which PyTorch can read and export"},
    {"patience", "early-stop", "use --early-stop N"},
    {"shuffle", "seed", "rows are shuffled in every epoch; --seed chooses the order"},
    {"test-size", "validation", HOLD_OUT},
    {"val-split", "validation", HOLD_OUT},
    {"validation-split", "validation", HOLD_OUT},
    {"workers", "threads", NULL}};

enum { LENGTH_MOST = 63 };

static size_t distance(const char *a, const char *b) {
  size_t edits[LENGTH_MOST + 1][LENGTH_MOST + 1]; /* [i][j]: how many edits turn the first i
                                                     letters of a into the first j of b */
  const size_t a_length = strlen(a), b_length = strlen(b);
  for (size_t i = 0; i <= a_length; i++)
    for (size_t j = 0; j <= b_length; j++) {
      size_t *least = &edits[i][j];
      *least = i + j;
      if (i == 0 || j == 0) continue;
      *least = min_size(min_size(edits[i][j - 1], edits[i - 1][j]) + 1,
                        edits[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        *least = min_size(*least, edits[i - 2][j - 2] + 1);
    }
  return edits[a_length][b_length];
}

static bool is_among(const char *word, const char *const *known) {
  while (*known && strcmp(*known, word) != 0) known++;
  return *known != NULL;
}

/* Returns true if the foreign word stands for `given`. */
static bool stands_for(const char *word, const char *given) {
  const size_t length = strlen(word);
  return word[length - 1] == ':' ? strncmp(word, given, length) == 0 : strcmp(word, given) == 0;
}

bool nearest_append(const char *given, const char *const *known, const char *before, Error *error) {
  const char *found = NULL;
  foreach (row, foreign) {
    if (!stands_for(row->word, given) || !is_among(row->instead, known)) continue;
    if (row->cure && error) text_append(error->text, ": %s", row->cure);
    if (row->cure) return false;
    given = row->instead;
    break;
  }
  size_t least = strlen(given) < 6 ? 1 : 2;
  for (; *known && strlen(given) <= LENGTH_MOST; known++) {
    const size_t edits = strlen(*known) <= LENGTH_MOST ? distance(given, *known) : SIZE_MAX;
    if (edits > least || (edits == least && found && strcmp(*known, found) >= 0)) continue;
    found = *known;
    least = edits;
  }
  if (found && error) text_append(error->text, ": did you mean '%s%s'?", before, found);
  return false;
}

const char *nearest_foreign(size_t row, const char **instead, const char **cure) {
  if (row >= LENGTH(foreign)) return NULL;
  *instead = foreign[row].instead;
  *cure = foreign[row].cure;
  return foreign[row].word;
}
