# mlp-train: `make help` lists what this file can do.

# ---- what can be set ---------------------------------------------------------------------
SETUP    ?= 1                 # 0: install nothing, look for nothing
SANITIZE ?= 0                 # 1: AddressSanitizer and UBSan, CPU only; thread: ThreadSanitizer
CUDA     ?= auto              # 0: build without CUDA even where nvcc is found
EPOCHS   ?= 10                # of make run
BATCH    ?= 64                # of make run
SEED     ?= 1                 # of the shapes that make exercise draws
TOPIC    ?= softmax           # of make profile
SECONDS  ?= 60                # of make fuzz: for each harness
PREFIX   ?= /usr/local        # of make install: where programs and manual are to be found
DESTDIR  ?=                   # of make install: a folder to put that tree in

SETUP := $(strip $(SETUP))
SANITIZE := $(strip $(SANITIZE))
CUDA := $(strip $(CUDA))
EPOCHS := $(strip $(EPOCHS))
BATCH := $(strip $(BATCH))
SEED := $(strip $(SEED))
TOPIC := $(strip $(TOPIC))
SECONDS := $(strip $(SECONDS))
PREFIX := $(strip $(PREFIX))
DESTDIR := $(strip $(DESTDIR))

# ---- compilers ---------------------------------------------------------------------------
ifeq ($(CUDA),0)
override NVCC :=
else ifeq ($(origin NVCC),undefined)
NVCC := $(shell scripts/setup.sh --nvcc)
endif
# A sanitizer and the GPU's driver do not get on: KERNELS_NVCC builds what runs without a driver.
KERNELS_NVCC := $(NVCC)
ifneq ($(SANITIZE),0)
override NVCC :=
endif

VERSION := 0.1.0
WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Werror
CFLAGS ?= -O3 -g
LANGUAGE := -std=c11 -D_POSIX_C_SOURCE=200809L -DMLP_TRAIN_VERSION='"$(VERSION)"' -Isrc
# A build's folder leaves no trace in it: `make reproducible`.
NO_FOLDER := -ffile-prefix-map=$(CURDIR)=.
C_FLAGS = $(LANGUAGE) $(CFLAGS) $(WARNINGS) $(HARDENED) $(NO_FOLDER) -fopenmp -MMD -MP
LIBRARIES := -lcsv -linih -ljansson -lz -lm -lpthread
BUILD := build
# The programs' folder
PLACE := .

ifeq ($(SANITIZE),1)
BUILD := build/sanitize
PLACE := $(BUILD)
C_FLAGS += -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
else ifeq ($(SANITIZE),thread)
BUILD := build/thread
PLACE := $(BUILD)
C_FLAGS += -O1 -fsanitize=thread
else
# What makes an overrun buffer an end instead of a door; 3 is of gcc 12 and clang 9. Not for -O0,
# where the C library cannot check anything.
FORTIFY := $(shell for level in 3 2; do \
             echo '\#include <stdio.h>' | $(CC) -O -Werror -U_FORTIFY_SOURCE \
               -D_FORTIFY_SOURCE=$$level -E -x c - >/dev/null 2>&1 && echo $$level && break; done)
HARDENED := -fstack-protector-strong -fPIE \
            $(if $(filter -O1 -O2 -O3 -Os,$(CFLAGS)),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$(FORTIFY))
LDFLAGS  += -pie -Wl,-z,relro,-z,now
endif

# With a GPU at hand, build for it alone; else for Ampere and Hopper, and PTX for what follows.
ifneq ($(KERNELS_NVCC),)
CUDA_HOME := $(patsubst %/bin/nvcc,%,$(realpath $(KERNELS_NVCC)))
ifeq ($(NVCC),)
ARCH := -gencode arch=compute_80,code=compute_80
else ifneq ($(shell nvidia-smi -L 2>/dev/null),)
ARCH ?= -arch=native
else
ARCH ?= -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90]
endif
NVCC_FLAGS := -std=c++17 -O3 -lineinfo $(ARCH) -Isrc -Ikernels -MMD -MP \
              -Xcompiler -Wall,-Wextra,-fPIE,$(NO_FOLDER) -Werror all-warnings
WITH_CUDA := -DHAVE_CUDA -Ikernels -isystem $(CUDA_HOME)/include
KERNELS := $(patsubst kernels/%.cu,$(BUILD)/kernels/%.o,$(wildcard kernels/*.cu))
endif
ifneq ($(NVCC),)
CUDA_LIBRARIES := -L$(CUDA_HOME)/lib64 -lcudart_static -ldl -lrt -lstdc++
CUBLAS := -L$(CUDA_HOME)/lib64 -Wl,-rpath,$(CUDA_HOME)/lib64 -lcublas
LANGUAGE += $(WITH_CUDA)
endif

# ---- what there is -----------------------------------------------------------------------
PROGRAMS := mlp-train mlp-digits
ifeq ($(NVCC),)
LEFT_OUT := src/cuda_error.c src/engine_cuda.c src/steps_cuda.c src/mlp_bench.c \
            $(addprefix src/bench_,cublas.c gpu.c launches.c run.c) \
            src/gpu_rates.c src/mlp_lab.c $(wildcard src/lab_*.c)
else
PROGRAMS += mlp-bench mlp-lab
LEFT_OUT := src/engine_cuda_absent.c
endif
SOURCES  := $(filter-out src/mlp_%.c src/bench_%.c src/lab_%.c src/exercise_%.c $(LEFT_OUT),$(wildcard src/*.c))
OBJECTS  := $(SOURCES:src/%.c=$(BUILD)/%.o) $(if $(NVCC),$(KERNELS))
ifeq ($(SANITIZE),thread)
OBJECTS  += $(BUILD)/tests/tsan_openmp.o
LDFLAGS  += -Wl,--wrap=GOMP_parallel
endif
# What mlp-bench alone has, and its test; src/bench_launches.c tells why it wraps the launches.
BENCH    := $(patsubst src/%.c,$(BUILD)/%.o,$(filter-out $(LEFT_OUT),$(wildcard src/bench_*.c)))
LAUNCHES := cudaLaunchKernel __cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel \
            cudaGraphLaunch
# What mlp-lab alone has, and its tests.
ifneq ($(NVCC),)
LAB      := $(patsubst src/%.c,$(BUILD)/%.o,$(wildcard src/lab_*.c)) \
            $(patsubst kernels/%.cu,$(BUILD)/kernels/%.o,$(wildcard kernels/lab/*.cu))
endif
# What checks the exercise, and its test.
EXERCISE := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/exercise_*.c)) $(BUILD)/exercise_cpu.o \
            $(addprefix $(BUILD)/,error.o table.o times.o)
ifneq ($(NVCC),)
EXERCISE += $(BUILD)/bench_launches.o $(BUILD)/gpu_rates.o $(OBJECTS)
endif
COUNTERS := $(BUILD)/exercise-counters.csv
NCU_FLAGS := --csv --page details --print-units base \
             --metrics dram__bytes_read.sum,dram__bytes_write.sum,lts__t_bytes.sum
TEST_HELP := $(addprefix $(BUILD)/tests/,reference.o process.o program.o)
MANUAL   := $(BUILD)/mlp-train.1 $(BUILD)/mlp-train.bash
TESTS    := $(patsubst tests/%.c,$(BUILD)/%,$(wildcard tests/test_*.c))
# fault.c and ThreadSanitizer cannot both be the allocator.
ifeq ($(SANITIZE),thread)
TESTS    := $(filter-out $(BUILD)/test_faults,$(TESTS))
endif

.PHONY: exercise exercise-cpu
.PHONY: all tests run test faults stream fuzz check-all reproducible gpu-check gpu-bench profile data setup \
        install uninstall format lint clean print-sources help
.DELETE_ON_ERROR:
.SECONDARY:

all: $(PROGRAMS:%=$(PLACE)/%) $(MANUAL) ## build the programs and their manual
	@:

tests: $(TESTS)             ## build the tests
	@:

# The targets that a user types set up the machine before anything is compiled, then build on
# every core unless told otherwise.
MAKEFLAGS += --no-print-directory
BUILD_ON_EVERY_CORE = $(MAKE) $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc)) SETUP=0

run: setup                  ## set up, build, get MNIST (or draw digits), train
	@$(BUILD_ON_EVERY_CORE) all
	@train='$(PLACE)/mlp-train --epochs $(EPOCHS) --batch $(BATCH)'; \
	if ! scripts/download_mnist.sh; then \
	  echo 'MNIST cannot be had (the reason is above): training on drawn digits instead.'; \
	  [ -f data/digits_train.csv ] && [ -f data/digits_test.csv ] || $(PLACE)/mlp-digits || exit; \
	  train="$$train --train data/digits_train.csv --test data/digits_test.csv"; \
	fi; \
	echo "$$train"; $$train

test: setup                 ## set up, build, run every test that this machine can run
	@$(BUILD_ON_EVERY_CORE) all tests
	@$(if $(filter 0,$(SANITIZE)),,STREAM_ROWS=2000) scripts/run_tests.sh $(TESTS)

CHECKS = test 'test SANITIZE=1' 'test SANITIZE=thread' lint exercise-cpu reproducible \
         'reproducible CC=clang CUDA=0' 'fuzz SECONDS=10'

check-all: setup            ## all that a machine without a GPU can check, in a quarter of an hour
	+@scripts/check_all.sh $(CHECKS)

# clang wants libomp-dev.
reproducible: setup         ## build twice: the same programs, byte for byte
	+@scripts/reproducible.sh

faults: setup               ## make each call that can fail do so, leaks are looked for
	@$(BUILD_ON_EVERY_CORE) SANITIZE=1 build/sanitize/test_faults
	@FAULTS_STRIDE=1 build/sanitize/test_faults

stream: setup               ## ten times MNIST's rows, streamed, as a file, a pipe and an archive
	@$(BUILD_ON_EVERY_CORE) $(BUILD)/test_stream
	@STREAM_ROWS=60000 STREAM_TIMES=10 $(BUILD)/test_stream

gpu-check:                  ## on a GPU: every test, sanitizers, MNIST; writes docs/results/
	+@NVCC='$(NVCC)' scripts/gpu_check.sh

gpu-bench: setup            ## on a GPU: time every level and the peers, write docs/results/
	@$(BUILD_ON_EVERY_CORE) all
	@scripts/gpu_bench.sh

profile: setup              ## on a GPU: read hardware counters of every rung of TOPIC
	@$(BUILD_ON_EVERY_CORE) all
	@NVCC='$(NVCC)' scripts/profile.sh $(TOPIC)

exercise: setup             ## on a GPU: check and score what you made of kernels/exercise.cu
	@$(BUILD_ON_EVERY_CORE) $(BUILD)/mlp-exercise
	@rm -f $(COUNTERS); \
	ncu=$$(command -v ncu || command -v $(CUDA_HOME)/bin/ncu) && \
	  "$$ncu" $(NCU_FLAGS) $(BUILD)/mlp-exercise --once >$(COUNTERS) 2>&1; \
	$(BUILD)/mlp-exercise --seed $(SEED) --counters $(COUNTERS) || [ $$? = 3 ]

# A build of its own: nothing here needs nvcc, even where there is one.
exercise-cpu: setup         ## likewise what you made of src/exercise_cpu.c
	@$(BUILD_ON_EVERY_CORE) CUDA=0 BUILD=$(BUILD)/cpu $(BUILD)/cpu/mlp-exercise
	@$(BUILD)/cpu/mlp-exercise --cpu --seed $(SEED)

data:                       ## get MNIST as data/mnist_train.csv and data/mnist_test.csv
	@scripts/download_mnist.sh

setup:                      ## look for what is needed, install what is missing
ifneq ($(SETUP),0)
	@NVCC='$(NVCC)' scripts/setup.sh
endif

TREE = $(DESTDIR)$(PREFIX)
COMPLETION = $(TREE)/share/bash-completion/completions/mlp-train

install: all                ## put programs, manual, completion and configs under PREFIX
	install -D -t '$(TREE)/bin' $(PROGRAMS:%=$(PLACE)/%)
	install -D -m 644 -t '$(TREE)/share/man/man1' $(BUILD)/mlp-train.1
	install -D -m 644 $(BUILD)/mlp-train.bash '$(COMPLETION)'
	install -D -m 644 -t '$(TREE)/share/mlp-train/configs' configs/*.conf
	install -D -m 644 -t '$(TREE)/share/doc/mlp-train' LICENSE README.md

uninstall:                  ## remove what install put there
	rm -f $(patsubst %,'$(TREE)/bin/%',$(sort $(PROGRAMS) mlp-bench mlp-lab))
	rm -f '$(TREE)/share/man/man1/mlp-train.1' '$(COMPLETION)'
	rm -rf '$(TREE)/share/mlp-train' '$(TREE)/share/doc/mlp-train'

# ---- how things are made -----------------------------------------------------------------
# Other compilers or flags than last time: everything is made anew.
FLAGS := $(strip $(CC) $(C_FLAGS) $(KERNELS_NVCC) $(NVCC_FLAGS))
ifneq ($(FLAGS),$(file <$(BUILD)/flags))
$(shell mkdir -p $(BUILD))
$(file >$(BUILD)/flags,$(FLAGS))
endif

$(PROGRAMS:%=$(PLACE)/%): $(PLACE)/mlp-%: $(BUILD)/mlp_%.o $(OBJECTS)
	$(CC) $(C_FLAGS) $^ -o $@ $(LDFLAGS) $(CUDA_LIBRARIES) $(LIBRARIES)

$(BUILD)/test_%: $(BUILD)/tests/test_%.o $(TEST_HELP) $(OBJECTS)
	$(CC) $(C_FLAGS) $^ -o $@ $(LDFLAGS) $(CUBLAS) \
	  $(CUDA_LIBRARIES) -lcmocka $(LIBRARIES)

ifneq ($(NVCC),)
$(PLACE)/mlp-bench $(BUILD)/test_bench: LDFLAGS += $(LAUNCHES:%=-Wl,--wrap=%)
$(PLACE)/mlp-bench: CUDA_LIBRARIES += $(CUBLAS)
$(BUILD)/test_bench: | $(PLACE)/mlp-bench
$(PLACE)/mlp-lab: CUDA_LIBRARIES += $(CUBLAS)
$(BUILD)/test_lab: | $(PLACE)/mlp-lab
endif
$(PLACE)/mlp-bench $(BUILD)/test_bench: $(BENCH)
$(PLACE)/mlp-lab $(BUILD)/test_lab $(BUILD)/test_lab_rungs: $(LAB)

ifneq ($(NVCC),)
$(BUILD)/mlp-exercise $(BUILD)/test_exercise: LDFLAGS += $(LAUNCHES:%=-Wl,--wrap=%)
endif
$(BUILD)/mlp-exercise: $(BUILD)/tests/mlp_exercise.o $(BUILD)/tests/reference.o $(EXERCISE)
	$(CC) $(C_FLAGS) $^ -o $@ $(LDFLAGS) $(CUBLAS) $(CUDA_LIBRARIES) $(LIBRARIES)
$(BUILD)/test_exercise: $(EXERCISE)

# A student's warnings stop nobody: a fused function leaves arguments and functions unused.
$(BUILD)/exercise_cpu.o: C_FLAGS += -Wno-error -Wno-unused-parameter
$(BUILD)/kernels/exercise.o: NVCC_FLAGS := $(filter-out -Werror all-warnings,$(NVCC_FLAGS)) \
                                           -Xcompiler -Wno-unused-parameter

$(addprefix $(BUILD)/test_,program resume asking numbers): | $(PLACE)/mlp-train

# Its calls fail when they are told to, those of CUDA's runtime too, which it has a stand-in for.
CUDA_HALF := $(addprefix $(BUILD)/,cuda_error.o engine_cuda.o steps_cuda.o)
ifneq ($(KERNELS_NVCC),)
FAULTS := $(CUDA_HALF) $(BUILD)/tests/cuda_stand_in.o $(KERNELS)
$(BUILD)/tests/cuda_stand_in.o $(CUDA_HALF): C_FLAGS += $(WITH_CUDA)
$(BUILD)/tests/test_faults.o: C_FLAGS += -DHAVE_STAND_IN
else
FAULTS := $(BUILD)/engine_cuda_absent.o
endif
$(BUILD)/mlp-train-faults: $(BUILD)/mlp_train.o $(BUILD)/tests/fault.o $(FAULTS) \
    $(filter-out $(BUILD)/engine_cuda_absent.o $(BUILD)/gpu_rates.o $(CUDA_HALF) $(KERNELS),$(OBJECTS))
	$(CC) $(C_FLAGS) $^ -o $@ $(LDFLAGS) $(LIBRARIES) -ldl -lstdc++
$(BUILD)/test_faults: | $(BUILD)/mlp-train-faults

$(BUILD)/test_digits: | $(PLACE)/mlp-digits
$(BUILD)/test_stream: | $(PLACE)/mlp-digits $(PLACE)/mlp-train

$(BUILD)/mlp_manual: $(addprefix $(BUILD)/,mlp_manual.o options_manual.o options.o options_text.o \
                       error.o)
	$(CC) $(C_FLAGS) $^ -o $@ $(LDFLAGS) $(LIBRARIES)
$(BUILD)/mlp-train.1: $(BUILD)/mlp_manual
	$< man >$@
$(BUILD)/mlp-train.bash: $(BUILD)/mlp_manual
	$< completion >$@

$(BUILD)/%.o: src/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(C_FLAGS) -Wpedantic -c $< -o $@

$(BUILD)/tests/%.o: tests/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(C_FLAGS) -Itests -DPROGRAM_FOLDER='"$(PLACE)"' -c $< -o $@

# Drawn digits are the same everywhere only if nothing is fused.
$(BUILD)/digits.o: C_FLAGS += -ffp-contract=off

# Stb's sums over sizes in a file may overflow: they wrap, and what comes of it is checked.
$(BUILD)/image.o: C_FLAGS += -fwrapv

# What -use_fast_math does is a lesson of the topic math.
$(BUILD)/kernels/lab/math_fast.o: NVCC_FLAGS += -use_fast_math

$(BUILD)/kernels/%.o: kernels/%.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(KERNELS_NVCC) $(NVCC_FLAGS) -c $< -o $@
	@strip -g $@ # nvcc leaves the names of its temporary files in it, other ones each time

-include $(wildcard $(addprefix $(BUILD)/,*.d */*.d */*/*.d))

# ---- hostile input -----------------------------------------------------------------------
# libFuzzer, which clang brings, over the readers of files and of the command line.
FUZZ_CC    ?= clang
FUZZ_FLAGS := -std=gnu11 -D_GNU_SOURCE -Isrc -O1 -g -fno-omit-frame-pointer $(WARNINGS) \
              -fsanitize=fuzzer,address,undefined,float-divide-by-zero -fno-sanitize-recover=all
FUZZ       := build/fuzz
HARNESSES  := $(patsubst tests/fuzz/%.c,$(FUZZ)/%,$(wildcard tests/fuzz/fuzz_*.c))

fuzz:                       ## with clang: invent input for every reader, SECONDS each
	@mkdir -p $(FUZZ)
	@echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' >$(FUZZ)/runtime.c; \
	$(FUZZ_CC) -fsanitize=fuzzer $(FUZZ)/runtime.c -o $(FUZZ)/runtime 2>/dev/null || \
	  { echo "make fuzz needs clang with libFuzzer: sudo apt-get install clang libclang-rt-dev" >&2; \
	    exit 1; }
	@$(BUILD_ON_EVERY_CORE) $(HARNESSES)
	@tests/fuzz/run.sh $(SECONDS) $(FUZZ)

$(FUZZ)/fuzz_csv: src/dataset.c src/source.c
$(FUZZ)/fuzz_ini $(FUZZ)/fuzz_options: src/options.c src/options_text.c tests/fuzz/same_options.h
$(FUZZ)/fuzz_checkpoint: src/checkpoint.c src/network.c
$(FUZZ)/fuzz_image: src/image.c
# What stb, version 2.27, does to numbers that does not touch memory is left alone.
$(FUZZ)/fuzz_image: FUZZ_FLAGS += -fwrapv -fno-sanitize=shift,nonnull-attribute \
                                   -DSTBI_MAX_DIMENSIONS=1024
$(FUZZ)/fuzz_%: tests/fuzz/fuzz_%.c src/error.c tests/fuzz/fuzz.h $(wildcard src/*.h)
	@mkdir -p $(@D)
	$(FUZZ_CC) $(FUZZ_FLAGS) $(filter %.c,$^) -o $@ $(LIBRARIES)

# ---- for those who change it ---------------------------------------------------------------
C_FILES := $(wildcard src/*.[ch] tests/*.[ch] tests/fuzz/*.[ch])

format:                     ## lay out C and CUDA files as .clang-format says
	clang-format -i $(C_FILES) $(wildcard kernels/*.cu kernels/*.cuh kernels/*.h kernels/lab/*)

# cppcheck takes every loop for one that may not run, those over layers and classes too; what it
# then believes to be 0 or unset is left to clang-tidy's analyzer. That does not know that a failed
# assertion of cmocka ends the test, so it reads src/ alone. LLVM's omp.h may not be there, gcc's
# has attributes that LLVM does not know.
CPPCHECK_LEAVES := arrayIndexOutOfBoundsCond invalidFunctionArg invalidPointerCast uninitvar zerodiv
CLANG_TIDY = xargs -P $(shell nproc) -I% clang-tidy --quiet $(1) % -- $(LANGUAGE) -Itests \
             -DPROGRAM_FOLDER='"."' -fopenmp -isystem build/lint

lint:                       ## clang-tidy, cppcheck and shellcheck over C and shell
	@for tool in clang-tidy cppcheck shellcheck; do command -v $$tool >/dev/null || \
	  { echo "make lint needs $$tool: sudo apt-get install $$tool" >&2; exit 1; }; done
	shellcheck scripts/*.sh tests/fuzz/run.sh .ci/run
	cppcheck --quiet --error-exitcode=1 --enable=warning,performance,portability \
	  $(CPPCHECK_LEAVES:%=--suppress=%) --inline-suppr --std=c11 -Isrc -Itests src tests
	@mkdir -p build/lint
	@sed 's/__malloc__ ([a-z_]*)/__malloc__/' "$$($(CC) -print-file-name=include/omp.h)" \
	  >build/lint/omp.h
	@echo 'clang-tidy src tests'
	@printf '%s\n' $(filter-out $(LEFT_OUT),$(wildcard src/*.c)) | $(call CLANG_TIDY)
	@printf '%s\n' $(wildcard tests/*.c) | $(call CLANG_TIDY,--checks=-clang-analyzer-*)
	@echo 'clang-tidy, cppcheck and shellcheck have nothing to say'

print-sources:              ## the hash of the sources that gpu-check's record names
	@find src kernels tests -type f | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-64

clean:                      ## remove what was built (data/ stays)
	rm -rf build $(PROGRAMS)

help:                       ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' Makefile
	@awk -F' *[?]= *| *# ' '/^[A-Z]+ +[?]=.*# / {printf "  %-17s %s\n", $$1 "=" $$2, $$3}' Makefile
