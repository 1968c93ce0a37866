comma := ,
# Scores the exercise: of the project's Makefile and the student kit's, which link the scorers.

# Kernels as nvcc has them: it does not believe that pointers to two types are apart, and a barrier is one
# place, where threads have come by two ways, too. g++ 12 counts the stores of some loops from NULL (ivopts),
# takes the function for pure and drops its calls.
as_nvcc = -fno-strict-aliasing -ffp-contract=off -fno-delete-null-pointer-checks \
          $(if $(findstring clang,$(1)),,-fno-thread-jumps)
AS_NVCC := $(call as_nvcc,$(CXX))
# An instruction of the source stays one access, nothing is vectorised or left out, and basic blocks
# stand in the order of the source: src/emulator/findings.cpp.
like_source = $(if $(findstring clang,$(1)),-fsanitize=thread$(comma)array-bounds -fsanitize-coverage=trace-pc$(comma)no-prune \
                -mllvm -tsan-instrument-read-before-write -fno-vectorize -fno-slp-vectorize -fno-unroll-loops, \
                -fsanitize=thread$(comma)bounds -fsanitize-coverage=trace-pc \
                -fno-reorder-blocks -fno-guess-branch-probability -fno-tree-sra)
# The folder's name may be any.
HERE := '$(subst ','\'',$(CURDIR))'
watched_by = $(1) -std=c++17 -O1 -gdwarf-4 -fPIE -U_FORTIFY_SOURCE $(call as_nvcc,$(1)) $(call like_source,$(1)) \
             -isystem $(HERE)/src/emulator/include -I$(HERE)/src
WATCHED_CXX = $(call watched_by,$(CXX))

# A student's file is compiled by clang++: its front end knows CUDA, and its watch sees structs that are passed by value.
STUDENT_CXX := $(or $(shell for c in clang++ $(foreach n,22 21 20 19 18 17 16 15 14,clang++-$n); do command -v $$c && break; done),clang++)
STUDENTS := -fno-exceptions -fstack-clash-protection -fsanitize=integer-divide-by-zero -Wno-everything -Werror=vla \
            $(if $(filter x86_64,$(shell uname -m)),-fsanitize=function)

# Another submission than the one that is edited, and a folder for what is made of it: scripts/grade_all.sh.
SUBMISSION ?= kernels/exercise.cu
SEALED     ?= $(BUILD)

WARMUP     ?= kernels/class/warmup.cu
SOURCE      = $(if $(findstring warmup,$@),$(WARMUP),$(SUBMISSION))

$(SEALED)/sealed_emulator.o $(SEALED)/sealed_gpu.o: $(SUBMISSION)
$(BUILD)/sealed_emulator_warmup.o $(BUILD)/sealed_gpu_warmup.o: $(WARMUP)
$(SEALED)/sealed_emulator.o $(BUILD)/sealed_emulator_warmup.o: $(wildcard src/emulator/*.h src/emulator/*.awk) scripts/seal_exercise.sh
	@mkdir -p $(@D)
	@scripts/seal_exercise.sh emulator $(SOURCE) $@ $(call watched_by,$(STUDENT_CXX)) $(STUDENTS) -include emulator/device.h
$(SEALED)/sealed_gpu.o $(BUILD)/sealed_gpu_warmup.o: scripts/seal_exercise.sh
	@mkdir -p $(@D)
	@scripts/seal_exercise.sh gpu $(SOURCE) $@ $(NVCC) -std=c++17 -O3 -lineinfo $(ARCH) -Xcompiler -fPIE

# What src/measure/cuda/launch_count.c counts, put in the place of what the host calls.
LAUNCHES := cudaLaunchKernel __cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel \
            cudaGraphLaunch

# On a GPU where there is one.
ON ?= $(if $(wildcard /dev/nvidia[0-9]* /dev/dxg),$(if $(NVCC),gpu,emulator),emulator)
SCORER = $(SEALED)/mlp-exercise-$(ON)
ifeq ($(if $(NVCC),,$(filter %/mlp-exercise-gpu,$(MAKECMDGOALS))),$(SCORER))
$(error ON=gpu needs nvcc, which `make setup` installs; ON=emulator does not)
endif
HOW_TO_SCORE := $(if $(filter warmup,$(MAKECMDGOALS)),--warmup) $(ONLY:%=--only %) $(SHAPE:%=--shape %) $(if $(and $(GRADE),$(if $(SEED_GIVEN),,1)),,--seed $(SEED)) \
                $(GRADE:%=--grade '%')
# What is handed in as a folder of files, or of folders with one each.
grade-all: $(BUILD)/mlp-exercise-emulator
	@$(if $(and $(FROM),$(CSV)),,echo 'grade-all wants FROM=FOLDER CSV=points.csv' >&2; exit 1;) \
	  SEED='$(if $(SEED_GIVEN),$(SEED))' scripts/grade_all.sh '$(FROM)' '$(CSV)' '$(BUILD)'

# HINT=N: the Nth hint of each function.
HINT  ?=
HINTS = $(if $(HINT),awk -v n='$(HINT)' '/^\/\* ---- [1-5]: / { f = $$3; c = 0 } \
          /^   HINT / { c++ } /^   [A-Z]/ { on = /^   HINT / && c == n } /\*\/$$/ { if (on) print f " " $$0; on = 0 } \
          on { print f " " $$0 }' $(if $(filter warmup,$(MAKECMDGOALS)),$(WARMUP),kernels/exercise.cu),:)
