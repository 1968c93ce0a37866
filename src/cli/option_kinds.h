/* The kinds of options: one OptionKind for each type of field. */
#pragma once

#include "cli/option_table.h"

extern const OptionKind option_whole, /* int, from low to high */
    option_whole64,                   /* uint64_t, from low to high */
    option_megabytes,                 /* uint64_t in bytes; low and high are megabytes */
    option_number,                    /* float, from low to high */
    option_number_or_auto,            /* float, from low to high; NAN stands for auto */
    option_yes_no,                    /* bool; without an argument, the option means yes */
    option_choice,                    /* int or enum; the index of the chosen word in choices */
    option_strengths,                 /* AugmentStrengths; choices names the kinds */
    option_word,                      /* const char *, any text; the text is not copied */
    option_path,                      /* char[OPTIONS_PATH] */
    option_name,                      /* char[OPTIONS_PATH], any text of one line */
    option_path_or_none,              /* char[OPTIONS_PATH], a path, none or auto */
    option_paths,                     /* PathList; each use of the option adds a path */
    option_share_or_path,             /* char[OPTIONS_PATH], a fraction up to high, or a path */
    option_sizes,                     /* HiddenSizes */
    option_shares;                    /* DropoutShares; each share is from low to high */

enum { OPTIONS_PATH = 1024 }; /* bytes of a file's name, including the final 0 */
enum { OPTIONS_LOADS = 32 };

/* The files of an option that may be given several times, in the order of the command line. */
typedef struct {
  int count;
  char path[OPTIONS_LOADS][OPTIONS_PATH];
} PathList;

/* Returns the fraction that an option_share_or_path holds, or NAN if it holds a file's name. */
double option_share(const char *text);
