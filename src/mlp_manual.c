/* mlp_manual: fills in the template of mlp-train's man page or bash completion, from standard input
   to standard output. A part of the build, which nobody installs. */
#include <stdio.h>

#include "cli/options.h"

int main(void) {
  options_fill_template(stdin, stdout);
  if (fflush(stdout) == 0 && !ferror(stdin) && !ferror(stdout)) return 0;
  perror("mlp_manual");
  return 1;
}
