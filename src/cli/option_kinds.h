/* The kinds of options: one OptionKind for each type of field. */
#pragma once

#include "cli/option_table.h"

extern const OptionKind option_whole, /* int, from low to high */
    option_whole64,                   /* uint64_t, from low to high */
    option_megabytes,                 /* uint64_t in bytes; low and high are megabytes */
    option_number,                    /* float, from low to high */
    option_number_or_auto,            /* like option_number, or auto, which is NAN */
    option_yes_no,                    /* bool; an option without argument is yes */
    option_choice,                    /* int or enum: an index into choices */
    option_strengths,                 /* AugmentStrengths; choices names the kinds */
    option_word,                      /* const char *: any text; points to the caller's text */
    option_path,                      /* char[OPTIONS_PATH] */
    option_name,                      /* char[OPTIONS_PATH]: any text of one line */
    option_path_or_none,              /* char[OPTIONS_PATH]: a path, none or auto */
    option_paths,                     /* PathList: each use adds a path */
    option_share_or_path,             /* char[OPTIONS_PATH]: a fraction up to high, or a path */
    option_sizes,                     /* HiddenSizes */
    option_shares;                    /* DropoutShares; each is from low to high */

enum { OPTIONS_PATH = 1024 }; /* bytes of a file's name, including the final 0 */
enum { OPTIONS_LOADS = 32 };

/* The files of an option that may be given more than once, in the order given. */
typedef struct {
  int count;
  char path[OPTIONS_LOADS][OPTIONS_PATH];
} PathList;

/* Returns the fraction that an option_share_or_path holds, or NAN if it holds a file's name. */
double option_share(const char *text);
