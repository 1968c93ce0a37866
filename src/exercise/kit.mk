# The exercise. You edit kernels/exercise.cu; docs/exercise.md is the handout.
#
#   make exercise               score it: on a GPU where there is one and nvcc, else on an emulator
#   make exercise ON=emulator   count and diagnose beside a GPU
#   ... SEED=7                  on other shapes
#   ... GRADE=results.json      with points, as Gradescope reads them; on shapes nobody knows
#   ... HINT=2                  the second hint for each function
#   ... ONLY=2 SHAPE=5x7        function 2 alone, on 5 rows of 7 classes; of 1 and 4: 5x7x3
#   make exercise SET=transformer   score kernels/class/transformer.cu, a second set of four functions; ... as above
#   make warmup                 score kernels/class/warmup.cu, fifteen small kernels to repair first
#   make grade-all FROM=folder CSV=points.csv    every submission in a folder; ... SET=transformer
#
# It needs g++, clang++, make, binutils, jansson and libseccomp, on Linux, in WSL or in the container of .devcontainer:
#   sudo apt-get install g++ clang make libjansson-dev libseccomp-dev
# make grade-all also wants bsdtar, if students hand in archives: sudo apt-get install libarchive-tools

CFLAGS ?= -O2 -g
NVCC   ?= $(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
CUDA   := $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
ARCH   ?= -arch=native
SEED_GIVEN := $(filter command environment,$(origin SEED))
SEED   ?= 1
BUILD  := build

FLAGS  := -std=c11 -D_POSIX_C_SOURCE=200809L -DSTUDENT_KIT -DMLP_TRAIN_VERSION='"kit"' -Isrc -Ikernels $(CFLAGS) -Wall -fPIE -fopenmp \
          -ffunction-sections -MMD -MP
HOST   := $(filter-out %/gpu.c %/emulated.c,$(wildcard src/mlp_exercise.c src/base/*.c \
            src/cli/*.c src/measure/*.c src/exercise/*.c))

help:
	@sed -n 's/^#   \(.*\)/\1/p' Makefile

include src/exercise/exercise.mk

exercise: $(SEALED)/mlp-$(SET)-$(ON)
warmup: $(SEALED)/mlp-warmup-$(ON)
exercise warmup:
	@$(HINTS)
	@$(SCORE)

$(SCORERS_EMULATOR): $(SEALED)/mlp-%-emulator: $(SEALED)/sealed_%_emulator.o
$(SCORERS_GPU): $(SEALED)/mlp-%-gpu: $(SEALED)/sealed_%_gpu.o

$(SCORERS_EMULATOR): $(patsubst %.c,$(BUILD)/emulated/%.o,$(HOST) src/exercise/emulated.c) \
                     $(patsubst %.cpp,$(BUILD)/%.o,$(wildcard src/emulator/*.cpp))
	$(CXX) $(CFLAGS) -fopenmp -pie $^ -o $@ -ljansson -lseccomp -lm -lpthread

# --gc-sections drops functions without callers, because some need kernels that the kit lacks.
$(SCORERS_GPU): $(patsubst %.c,$(BUILD)/gpu/%.o,$(HOST) src/exercise/gpu.c \
                $(wildcard src/measure/cuda/*.c src/engine/cuda/*.c))
	$(CC) $(CFLAGS) -fopenmp -pie $^ -o $@ -Wl,--gc-sections $(LAUNCHES:%=-Wl,--wrap=%) -L$(CUDA)/lib64 \
	  -Wl,-rpath,$(CUDA)/lib64 -lcudart_static -ldl -lrt -lstdc++ -ljansson -lseccomp -lm -lpthread

$(BUILD)/emulated/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -DON_EMULATOR=true -isystem src/emulator/include -c $< -o $@
$(BUILD)/gpu/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -DHAVE_CUDA -isystem $(CUDA)/include -c $< -o $@
$(BUILD)/%.o: %.cpp
	@mkdir -p $(@D)
	$(CXX) -std=c++17 $(CFLAGS) -fPIE -isystem src/emulator/include -Isrc -MMD -MP -c $< -o $@

clean:
	rm -rf $(BUILD)

.PHONY: help exercise warmup grade-all clean
.DELETE_ON_ERROR:
-include $(shell find $(BUILD) -name '*.d' -type f 2>/dev/null)
