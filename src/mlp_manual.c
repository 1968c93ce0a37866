/* mlp_manual: prints the man page or the bash completion of mlp-train. A part of the build, which
   nobody installs. */
#include <stdio.h>
#include <string.h>

#include "cli/options.h"

int main(int argc, char **argv) {
  const char *what = argc == 2 ? argv[1] : "";
  if (strcmp(what, "man") == 0) {
    options_print_man(stdout);
  } else if (strcmp(what, "completion") == 0) {
    options_print_completion(stdout);
  } else {
    fputs("usage: mlp_manual man|completion\n", stderr);
    return 2;
  }
  if (fflush(stdout) == 0 && !ferror(stdout)) return 0;
  perror("mlp_manual: cannot write");
  return 1;
}
