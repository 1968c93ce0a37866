# The exercise. Yours are kernels/exercise.cu, and src/exercise/exercise_cpu.c without a GPU;
# docs/exercise.md is the handout.
#
#   make exercise-cpu           score src/exercise/exercise_cpu.c
#   make exercise               score kernels/exercise.cu: wants a GPU, nvcc and cuBLAS
#   ... SEED=7                  on other shapes
#   ... GRADE=results.json      with points, as Gradescope reads them; on shapes nobody knows
#
# gcc, make and jansson are wanted: sudo apt-get install gcc make libjansson-dev

CFLAGS ?= -O3 -g
NVCC   ?= $(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
CUDA   := $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
ARCH   ?= -arch=native
GOALS  := $(or $(MAKECMDGOALS),help)
BUILD  := build

FLAGS  := -std=c11 -D_POSIX_C_SOURCE=200809L -DSTUDENT_KIT -Isrc $(CFLAGS) -Wall -fPIE \
          -ffunction-sections -MMD -MP
WRAP   := cudaLaunchKernel __cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel \
          cudaGraphLaunch
HOST   := $(wildcard src/mlp_exercise.c src/base/*.c src/measure/*.c src/exercise/*.c)
HOST   := $(filter-out %/exercise_cpu.c,$(HOST))
GPU    := $(HOST) $(wildcard src/measure/cuda/*.c src/engine/cuda/*.c)
SCORE  := $(if $(SEED),--seed $(SEED)) \
          $(if $(GRADE),--grade '$(GRADE)' --grade-plain '$(GRADE:.json=).plain.json')

help:
	@sed -n 's/^#   \(.*\)/\1/p' Makefile

exercise-cpu: $(BUILD)/score-cpu
	@$< --cpu $(SCORE)

exercise: $(BUILD)/score-gpu
	@$< $(SCORE)

$(BUILD)/score-cpu: $(HOST:%.c=$(BUILD)/cpu/%.o) $(BUILD)/sealed_cpu.o
	$(CC) $(CFLAGS) -pie $^ -o $@ -ljansson -lm -lpthread

# What has no caller here wants kernels that are not here.
$(BUILD)/score-gpu: $(GPU:%.c=$(BUILD)/gpu/%.o) $(BUILD)/sealed_cpu.o $(BUILD)/sealed_gpu.o
	$(CC) $(CFLAGS) -pie $^ -o $@ -Wl,--gc-sections $(WRAP:%=-Wl,--wrap=%) -L$(CUDA)/lib64 \
	  -Wl,-rpath,$(CUDA)/lib64 -lcublas -lcudart_static -ldl -lrt -lstdc++ -ljansson -lm -lpthread

$(BUILD)/sealed_cpu.o: $(BUILD)/cpu/src/exercise/exercise_cpu.o
	scripts/seal_exercise.sh cpu $< $@
$(BUILD)/sealed_gpu.o: $(BUILD)/gpu/kernels/exercise.o
	scripts/seal_exercise.sh gpu $< $@

$(BUILD)/cpu/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -c $< -o $@
$(BUILD)/gpu/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -DHAVE_CUDA -Ikernels -isystem $(CUDA)/include -c $< -o $@
$(BUILD)/gpu/%.o: %.cu
	@mkdir -p $(@D)
	$(if $(NVCC),,$(error nvcc was not found: NVCC=/where/it/is/nvcc, or make exercise-cpu))
	$(NVCC) -std=c++17 -O3 -lineinfo $(ARCH) -Isrc -Ikernels -MMD -MP -Xcompiler -Wall,-fPIE \
	  -c $< -o $@

clean:
	rm -rf $(BUILD)

.PHONY: help exercise exercise-cpu clean
.DELETE_ON_ERROR:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
