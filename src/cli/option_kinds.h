/* The kinds of options: one OptionKind for each type of field. */
#pragma once

#include "cli/option_table.h"

extern const OptionKind option_whole, /* int in [low, high] of the row */
    option_whole64,                   /* uint64_t in [low, high] of the row */
    option_megabytes,                 /* uint64_t in bytes; the row's low and high are megabytes */
    option_number,                    /* float in [low, high] of the row */
    option_number_or_auto,            /* float in [low, high] of the row; NAN stands for "auto" */
    option_yes_no,                    /* bool; if the option has no argument, giving it means yes */
    option_choice,                    /* int or enum: index of the chosen word in row->choices */
    option_strengths,                 /* AugmentStrengths; row->choices names the augmentations */
    option_word,                      /* const char *, any text; the text is not copied */
    option_path,                      /* char[OPTIONS_PATH] */
    option_name,                      /* char[OPTIONS_PATH], any text of one line */
    option_path_or_none,              /* char[OPTIONS_PATH]: a path, "none" or "auto" */
    option_paths,                     /* PathList; each use of the option adds a path */
    option_share_or_path,             /* char[OPTIONS_PATH]: a path, or a fraction up to `high` */
    option_sizes,                     /* HiddenSizes */
    option_shares;                    /* DropoutShares; each value is in [low, high] of the row */

enum { OPTIONS_PATH = 1024 }; /* bytes of a file's name, including the final 0 */
enum { OPTIONS_LOADS = 32 };

/* The files of an option that may be given several times, in the order of the command line. */
typedef struct {
  int count;
  char path[OPTIONS_LOADS][OPTIONS_PATH];
} PathList;

/* Returns the fraction that an option_share_or_path holds, such as 0.1 or 10%, or NAN if it holds a
   file's name. */
double option_share(const char *text);
