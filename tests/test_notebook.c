/* docs/colab.ipynb, cell by cell, in a copy of this checkout that is already built. Cells that need
   a GPU run where there is one, and say so elsewhere. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"
#include "support/folder.h"
#include "support/process.h"

#define NOTEBOOK "docs/colab.ipynb"

static char output[1 << 20];

static bool has(const char *command) {
  return process_run(output, sizeof output, "%s >/dev/null", command) == 0;
}

TEST(test_cells_are_short) {
  json_error_t problem;
  json_t *notebook = json_load_file(NOTEBOOK, 0, &problem), *cell;
  assert_non_null(notebook);
  assert_int_equal(json_integer_value(json_object_get(notebook, "nbformat")), 4);
  size_t index, code = 0;
  json_array_foreach(json_object_get(notebook, "cells"), index, cell) {
    if (strcmp(json_string_value(json_object_get(cell, "cell_type")), "code") != 0) continue;
    code++;
    assert_in_range(json_array_size(json_object_get(cell, "source")), 1, 10);
    /* Committed as it is before it runs. */
    assert_int_equal(json_array_size(json_object_get(cell, "outputs")), 0);
  }
  assert_true(code >= 10);
  json_decref(notebook);
}

/* The copy has the objects and programs of this build, and FLAGS tells make that its flags are
   theirs: the flags name the folder. */
TEST_WITH(test_every_cell_runs, folder_open, folder_close) {
  if (!has("command -v python3")) {
    print_message("python3 is not installed\n");
    skip();
  }
  if (strcmp(PROGRAM_FOLDER, ".") != 0) {
    print_message("the notebook is for the build without a sanitizer\n");
    skip();
  }
  assert_int_equal(
      process_run(output, sizeof output,
                  "mkdir '%s' && tar c --exclude='build/test*' --exclude='build/*/*.csv' "
                  "Makefile scripts src kernels configs data/README.md build/flags build/lib*.a "
                  "build/src build/kernels mlp-* | tar x -C '%s'",
                  folder_path("mlp-train"), folder_path("mlp-train")),
      0);
  const bool gpu = has("nvidia-smi -L");
  const char *flags = getenv("MAKEFLAGS");
  const int status = process_run(
      output, sizeof output,
      "notebook=$PWD/" NOTEBOOK " run=$PWD/tests/support/run_notebook.py; cd '%s' && "
      "MAKEFLAGS='%s%s FLAGS=$$(shell\\ cat\\ build/flags)' EPOCHS=1 SETUP=0 MNIST_SOURCE=/nowhere "
      "python3 \"$run\" \"$notebook\"",
      folder, flags ? flags : "", flags && strstr(flags, " -- ") ? "" : " -- ");
  if (status != 0) print_message("%s", output);
  assert_int_equal(status, 0);
  /* It trained on digits that were drawn. */
  assert_non_null(strstr(output, "\nepoch 1/1 "));
  assert_int_not_equal(access(folder_path("mlp-train"), F_OK), 0);
  if (gpu) {
    assert_non_null(strstr(output, "fusion epoch"));
    assert_non_null(strstr(output, "4 of 4 right"));
  } else {
    int refused = 0;
    for (const char *at = output; (at = strstr(at, "This cell needs a GPU.")); at++) refused++;
    assert_int_equal(refused, 4);
  }
}
