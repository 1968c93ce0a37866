#include "lab/harness.h"

LabNote lab_refusal(const LabRung *rung, const GpuLimits *gpu, int problem, LabSize size) {
  LabNote note = {""};
  const char *refused = rung->refuse ? rung->refuse(gpu, problem, size) : NULL;
  const int needs = rung->capability, has = gpu->capability;
  if (needs > has)
    snprintf(note.text, sizeof note.text,
             "it needs compute capability %d.%d, this GPU or the code for it has %d.%d", needs / 10,
             needs % 10, has / 10, has % 10);
  else if (refused)
    snprintf(note.text, sizeof note.text, "%s", refused);
  return note;
}
