

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_CUDA
#include <cuda_runtime_api.h>
#endif

#include "support/test.h"
#include "support/mpirun.h"

char mpirun_own_path[PATH_MAX];
static char mpirun[PATH_MAX];

/* More ranks than cores, root too, and not a word of its own: as Open MPI is told. Others do
   without being told. */
static void set_up_mpirun(void) {
  static const char *const variables[][2] = {
      {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
      {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
      {"OMPI_MCA_hwloc_base_binding_policy", "none"},
      {"OMPI_MCA_orte_execute_quiet", "1"},
      {"PMIX_MCA_pcompress_base_silence_warning", "1"},
      {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"}};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
    setenv(variables[i][0], variables[i][1], 1);
#ifdef __SANITIZE_ADDRESS__
  setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* those of MPI */
#endif
}

bool mpirun_find(void) {
  char found[PATH_MAX];
  if (!realpath("/proc/self/exe", mpirun_own_path)) return false;
  FILE *command = popen("command -v mpirun", "r");
  if (command && fgets(found, sizeof found, command)) sscanf(found, "%4095s", mpirun);
  if (command) pclose(command);
  set_up_mpirun();
  return true;
}

static bool has_library(void) {
  char path[PATH_MAX + 32], folder[PATH_MAX];
  snprintf(folder, sizeof folder, "%s", mpirun_own_path);
  *strrchr(folder, '/') = '\0'; /* the tests stand where the library is built */
  snprintf(path, sizeof path, "%s/libmlp-ranks.so", folder);
  return access(path, F_OK) == 0;
}

void needs_mpi(void) {
#ifdef __SANITIZE_THREAD__
  print_message("ThreadSanitizer does not know what MPI does\n");
  skip();
#endif
  if (*mpirun && has_library()) return;
  print_message(*mpirun ? "this was built without MPI\n" : "there is no mpirun\n");
  skip();
}

int needs_gpus(void) {
  int gpus = 0;
#ifdef HAVE_CUDA
  if (cudaGetDeviceCount(&gpus) != cudaSuccess) gpus = 0;
#endif
  if (gpus > 1) return gpus < MOST_RANKS ? gpus : MOST_RANKS;
  print_message("there are no two GPUs\n");
  skip();
  return 0;
}

pid_t mpirun_start(int ranks, const char *path, const char *const *arguments) {
  enum { MOST = 60 };
  char count[16], started[sizeof program_called], called[sizeof program_called];
  const char *argv[MOST + 4] = {"-n", count, started};
  snprintf(count, sizeof count, "%d", ranks);
  snprintf(started, sizeof started, "%s", path);
  for (size_t i = 0; arguments[i]; i++) {
    assert_true(i < MOST);
    argv[3 + i] = arguments[i];
  }
  strcpy(called, program_called);
  strcpy(program_called, mpirun);
  const pid_t process = program_start(PROGRAM_OUT, argv);
  strcpy(program_called, called);
  return process;
}
