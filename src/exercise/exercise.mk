# Scores the exercise: of the project's Makefile and the student kit's, which link the scorers.

# Kernels as nvcc has them: it does not believe that pointers to two types are apart, and a barrier is one
# place, where threads have come by two ways, too. g++ 12 counts the stores of some loops from NULL (ivopts),
# takes the function for pure and drops its calls.
AS_NVCC := -fno-strict-aliasing -ffp-contract=off -fno-delete-null-pointer-checks \
           $(if $(findstring clang,$(CXX)),,-fno-thread-jumps)
# An instruction of the source stays one access, nothing is vectorised or left out, and basic blocks
# stand in the order of the source: src/emulator/counts.cpp.
LIKE_SOURCE := $(if $(findstring clang,$(CXX)),-mllvm -tsan-instrument-read-before-write \
                 -fno-vectorize -fno-slp-vectorize -fno-unroll-loops, \
                 -fno-reorder-blocks -fno-guess-branch-probability -fno-tree-sra)
WATCH_FLAGS := -std=c++17 -O1 -gdwarf-4 -fPIE -U_FORTIFY_SOURCE $(AS_NVCC) \
               -fsanitize=thread,bounds -fsanitize-coverage=trace-pc$(if $(findstring clang,$(CXX)),$(shell echo ,)no-prune) $(LIKE_SOURCE)
# The folder's name may be any.
HERE := '$(subst ','\'',$(CURDIR))'
WATCHED_CXX = $(CXX) $(WATCH_FLAGS) -isystem $(HERE)/src/emulator/include -I$(HERE)/src

$(BUILD)/sealed_emulator.o: kernels/exercise.cu $(wildcard src/emulator/*.h) scripts/seal_exercise.sh
	@mkdir -p $(@D)
	@CXX='$(CXX)' scripts/seal_exercise.sh emulator $< $@ $(WATCHED_CXX) -w -include emulator/device.h
$(BUILD)/sealed_gpu.o: kernels/exercise.cu scripts/seal_exercise.sh
	@mkdir -p $(@D)
	@CXX='$(CXX)' scripts/seal_exercise.sh gpu $< $@ $(if $(filter .cuda/%,$(NVCC)),$(HERE)/)$(NVCC) -std=c++17 -O3 -lineinfo $(ARCH) -Xcompiler -fPIE

# What src/measure/cuda/launch_count.c counts, put in the place of what the host calls.
LAUNCHES := cudaLaunchKernel __cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel \
            cudaGraphLaunch

# On a GPU where there is one.
ON ?= $(if $(wildcard /dev/nvidia[0-9]* /dev/dxg),$(if $(NVCC),gpu,emulator),emulator)
SCORER = $(BUILD)/mlp-exercise-$(ON)
HOW_TO_SCORE := $(if $(and $(GRADE),$(if $(SEED_GIVEN),,1)),,--seed $(SEED)) \
                $(GRADE:%=--grade '%' --grade-plain '$(GRADE:.json=).plain.json')
# HINT=N: the Nth hint of each function.
HINT  ?=
HINTS = $(if $(HINT),awk -v n='$(HINT)' '/^\/\* ---- [1-4]: / { f = $$3; c = 0 } \
          /^   HINT / { c++ } /^   [A-Z]/ { on = /^   HINT / && c == n } /\*\/$$/ { if (on) print f " " $$0; on = 0 } \
          on { print f " " $$0 }' kernels/exercise.cu,:)
