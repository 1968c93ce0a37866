# mlp-train: `make help` lists what this file can do.

# ---- what can be set ---------------------------------------------------------------------
SETUP    ?= 1                 # 0: install nothing, look for nothing
SANITIZE ?= 0                 # 1: AddressSanitizer and UBSan, CPU only; thread: ThreadSanitizer
CUDA     ?= auto              # 0: build without CUDA even where nvcc is found
EPOCHS   ?= 10
BATCH    ?= 64

SETUP := $(strip $(SETUP))
SANITIZE := $(strip $(SANITIZE))
CUDA := $(strip $(CUDA))

# ---- compilers ---------------------------------------------------------------------------
NVCC ?= $(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc \
          /opt/cuda/bin/nvcc /usr/lib/nvidia-cuda-toolkit/bin/nvcc))
ifneq ($(SANITIZE),0)
CUDA := 0
endif
ifeq ($(CUDA),0)
NVCC :=
endif

VERSION := 0.1.0
WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Werror
CFLAGS ?= -O3 -g
C_FLAGS := -std=c11 -D_POSIX_C_SOURCE=200809L $(CFLAGS) $(WARNINGS) -fopenmp -MMD -MP -Isrc \
           -DMLP_TRAIN_VERSION='"$(VERSION)"'
LIBRARIES := -lcsv -linih -lm -lpthread
BUILD := build

ifeq ($(SANITIZE),1)
BUILD := build/sanitize
C_FLAGS += -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
else ifeq ($(SANITIZE),thread)
BUILD := build/thread
C_FLAGS += -O1 -fsanitize=thread
endif

# With a GPU at hand, build for it alone; else for Ampere and Hopper, and PTX for what follows.
ifneq ($(NVCC),)
CUDA_HOME := $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
ifneq ($(shell nvidia-smi -L 2>/dev/null),)
ARCH ?= -arch=native
else
ARCH ?= -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90]
endif
NVCC_FLAGS := -std=c++17 -O3 -lineinfo $(ARCH) -Isrc -Ikernels -MMD -MP \
              -Xcompiler -Wall,-Wextra -Werror all-warnings
CUDA_LIBRARIES := -L$(CUDA_HOME)/lib64 -lcudart_static -ldl -lrt -lstdc++
C_FLAGS += -DHAVE_CUDA -Ikernels -isystem $(CUDA_HOME)/include
endif

# ---- what there is -----------------------------------------------------------------------
PROGRAMS := mlp-train mlp-digits
MAINS    := $(patsubst mlp-%,src/mlp_%.c,$(PROGRAMS))
ifeq ($(NVCC),)
LEFT_OUT := src/engine_cuda.c
else
LEFT_OUT := src/engine_cuda_absent.c
KERNELS  := $(wildcard kernels/*.cu)
endif
SOURCES  := $(filter-out $(MAINS) src/mlp_%.c $(LEFT_OUT),$(wildcard src/*.c))
OBJECTS  := $(SOURCES:src/%.c=$(BUILD)/%.o) $(KERNELS:kernels/%.cu=$(BUILD)/kernels/%.o)
TESTS    := $(patsubst tests/%.c,$(BUILD)/%,$(wildcard tests/test_*.c))

.PHONY: all run test gpu-check data setup format lint clean print-sources help
.DELETE_ON_ERROR:
.SECONDARY:

all: $(PROGRAMS)            ## build the programs

ifeq ($(SANITIZE),0)
$(PROGRAMS): mlp-%: $(BUILD)/mlp_%.o $(OBJECTS)
	$(CC) $(C_FLAGS) $^ -o $@ $(LDFLAGS) $(CUDA_LIBRARIES) $(LIBRARIES)
else
$(PROGRAMS): mlp-%: $(BUILD)/mlp-%
$(BUILD)/mlp-%: $(BUILD)/mlp_%.o $(OBJECTS)
	$(CC) $(C_FLAGS) $^ -o $@ $(LDFLAGS) $(LIBRARIES)
endif

$(BUILD)/test_%: $(BUILD)/tests/test_%.o $(BUILD)/tests/reference.o $(OBJECTS)
	$(CC) $(C_FLAGS) $^ -o $@ $(LDFLAGS) $(if $(NVCC),-L$(CUDA_HOME)/lib64 -lcublas) \
	  $(CUDA_LIBRARIES) -lcmocka $(LIBRARIES)

$(BUILD)/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(C_FLAGS) -c $< -o $@

$(BUILD)/tests/%.o: tests/%.c
	@mkdir -p $(@D)
	$(CC) $(C_FLAGS) -Itests -c $< -o $@

$(BUILD)/kernels/%.o: kernels/%.cu
	@mkdir -p $(@D)
	$(NVCC) $(NVCC_FLAGS) -c $< -o $@

-include $(wildcard $(BUILD)/*.d $(BUILD)/*/*.d)

clean:                      ## remove what was built (data/ stays)
	rm -rf build $(PROGRAMS)

help:                       ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
