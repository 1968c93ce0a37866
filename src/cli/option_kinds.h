/* What the values of options may be: an OptionKind for each type of field. */
#ifndef OPTION_KINDS_H
#define OPTION_KINDS_H

#include "cli/options.h"

extern const OptionKind option_whole; /* int, from low to high */
extern const OptionKind
    option_whole_or_auto;                 /* float, likewise, or auto: OPTIONS_AUTO, below low */
extern const OptionKind option_whole64;   /* uint64_t, likewise */
extern const OptionKind option_megabytes; /* uint64_t, in bytes */
extern const OptionKind option_number;    /* float, likewise */
extern const OptionKind option_yes_no;    /* bool */
extern const OptionKind option_choice;    /* int: an index of choices */
extern const OptionKind option_strengths; /* AugmentStrengths, its kinds named by choices */
extern const OptionKind option_path;      /* char[OPTIONS_PATH] */
extern const OptionKind option_paths;     /* PathList: one more each time */
extern const OptionKind option_share_or_path; /* likewise: a number up to high, or a path */
extern const OptionKind option_sizes;         /* HiddenSizes */
extern const OptionKind option_shares;        /* DropoutShares, each from low to high */

#endif
