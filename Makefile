# mlp-train: `make help` lists what this file can do.

# ---- variables to set on the command line; the environment sets none of them ------------------
SETUP    = 1                 # 0 installs nothing and looks for nothing
SANITIZE = 0                 # 1 builds with AddressSanitizer and UBSan, CPU only; thread with ThreadSanitizer
CUDA     = auto              # 1 builds kernels even without a GPU; 0 builds no kernels
MPI      = auto              # 0 builds without MPI even if there is one; 1 lets make setup install it
CUBLAS   = 0                 # 1 lets make setup fetch cuBLAS, 444 MB, if it fetches nvcc
ARCH     = auto              # all builds for every GPU since Turing; options of nvcc are allowed, too
PART     = all               # for make gpu-check and gpu-bench: the parts to run, as the scripts list them
EPOCHS   = 10                # for make run: number of epochs
SEED     = 1                 # for make exercise (random if it grades), make soak and make mutants
GRADE    =                   # for make exercise: a file for the points; see docs/teaching
VARIANT  =                   # for make student-kit: any word; it draws constants that our answers do not have
TOPIC    = softmax           # for make profile: a topic of the lab
RUNGS    =                   # for make profile: only these rungs of TOPIC
SECONDS  = 60                # for make fuzz: time for each harness
COUNT    = 100               # for make mutants: number of changes to try
MINUTES  = 10                # for make soak: time to run
JOBS     =                   # for make test: programs to run at the same time, by default one per core
RELEASES = bookworm trixie noble # for make fresh: releases of Debian or Ubuntu, as debootstrap names them
PREFIX   = /usr/local        # for make install: where programs and manual are used
DESTDIR  =                   # for make install: a folder that PREFIX is put in
WERROR   = 0                 # 1 makes compiler warnings errors, for developers
V        = 0                 # 1 shows the commands

SEED_GIVEN := $(filter command,$(origin SEED))
# Remove the spaces between values and comments, which make takes for a part of the value.
$(foreach name,$(shell sed -n 's/^\([A-Z]*\) *= .*\# .*/\1/p' Makefile),$(eval $(name) := $(strip $($(name)))))

# In NAME=~/folder, few shells expand the ~: sh, zsh and fish leave it to the program.
home = $(or $(if $(filter ~,$(2)),$(HOME)),$(wildcard $(2)),$(error there is no home folder $(2)))$(subst <$(2),,<$(1))
$(foreach name,PREFIX DESTDIR GRADE SUBMISSION WARMUP FROM CSV NCCL_HOME MNIST_SOURCE DATA_DIR, \
  $(if $(filter ~%,$(firstword $($(name)))),$(eval override export $(name) := \
    $$(call home,$$($(name)),$$(firstword $$(subst /, ,$$($(name))))))))

# ---- compilers ---------------------------------------------------------------------------
# Kernels take minutes to compile. Without a GPU they are built only if CUDA, ARCH or NVCC ask for them.
# In WSL2, /dev/dxg is a GPU of any maker. If it is NVIDIA's, there is a libcuda, too.
GPUS := $(wildcard /dev/nvidia[0-9]* $(if $(wildcard $(addsuffix /libcuda.so.1,/usr/lib/wsl/lib /usr/lib/*)),/dev/dxg))
# The compute capabilities of the GPUs, such as 7.5, as far as nvidia-smi knows them. GPUs that are too old count as none.
CAPABILITIES := $(if $(GPUS),$(if $(filter auto,$(ARCH)),$(sort $(shell \
                  nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | grep -xE '[0-9]+\.[0-9]+'))))
TOO_OLD := $(filter 3.% 5.% 6.% 7.0 7.2,$(CAPABILITIES))
CAPABILITIES := $(filter-out $(TOO_OLD),$(CAPABILITIES))
ifneq ($(if $(CAPABILITIES),,$(TOO_OLD)),)
override GPUS :=
endif
ifeq ($(CUDA),auto)
override CUDA := $(if $(GPUS)$(filter-out auto,$(ARCH))$(filter-out undefined,$(origin NVCC)),1,0)
endif
ifeq ($(CUDA),0)
override NVCC :=
else ifeq ($(origin NVCC),undefined)
NVCC := $(shell scripts/setup.sh --nvcc)
endif
# Sanitizers conflict with the GPU's driver, so SANITIZE unsets NVCC. KERNELS_NVCC builds what needs no driver.
KERNELS_NVCC := $(NVCC)

comma := ,
# nvcc passes the name of this folder to a shell in double quotes.
ifneq ($(NVCC),)
$(if $(shell case $$PWD in (*[\"\`$$\\]*) echo no;; esac),$(error nvcc would run what the name of this \
  folder says: move the checkout to a folder without " ` $$ and \ in its name, or use CUDA=0))
endif
VERSION := 0.1.0
# Our constants are enumerators. clang 19 warns of arithmetic with an enumerator and a float. A compiler that does not
# know this warning, such as gcc 12, would complain of the option beside any other warning.
warnings_of = -Wall -Wextra -Wshadow -Wconversion $(shell $(1) -Werror -Wenum-float-conversion -E -x c /dev/null >/dev/null 2>&1 && \
                echo -Wno-enum-float-conversion) $(if $(filter 1,$(WERROR)),-Werror)
WARNINGS := $(call warnings_of,$(CC))
CFLAGS ?= -O3 -g
LANGUAGE := -std=c11 -D_POSIX_C_SOURCE=200809L -DMLP_TRAIN_VERSION='"$(VERSION)"' -Isrc \
            -Ikernels
C_FLAGS = $(LANGUAGE) $(CFLAGS) $(WARNINGS) $(HARDENED) -fopenmp -MMD -MP
LIBRARIES := -lcsv -linih -ljansson -lz -lm -lpthread
ifneq ($(SANITIZE),0)
override NVCC :=
BUILD := build/$(if $(filter 1,$(SANITIZE)),sanitize,$(SANITIZE))
PLACE := $(BUILD)
C_FLAGS += -O1 $(if $(filter 1,$(SANITIZE)),-fsanitize=address$(comma)undefined -fno-sanitize-recover=all \
             -fno-omit-frame-pointer,-fsanitize=$(SANITIZE))
else
BUILD := build
PLACE := .
# FORTIFY makes a buffer overflow end the program, so that it cannot be exploited. Level 3 needs gcc 12
# or clang 9. At -O0 the C library cannot check anything.
FORTIFY := $(shell for level in 3 2; do \
             $(CC) -O -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$$level -include stdio.h \
               -E -x c /dev/null >/dev/null 2>&1 && echo $$level && break; done)
HARDENED := -fstack-protector-strong -fPIE \
            $(if $(filter -O1 -O2 -O3 -Os,$(CFLAGS)),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$(FORTIFY))
LDFLAGS  += -pie -Wl,-z,relro,-z,now
endif

# The library of the ranks is built if pkg-config or mpicc finds an MPI.
MPI_FLAGS := $(if $(filter-out 0,$(MPI)),$(strip $(shell pkg-config --cflags --libs ompi-c 2>/dev/null || \
               pkg-config --cflags --libs mpich 2>/dev/null || mpicc --showme 2>/dev/null | cut -d' ' -f2-)))

# NVIDIA's wheels (scripts/setup.sh) keep their relative path, since this folder may have any name.
CUDA_HOME := $(patsubst %/bin/nvcc,%,$(or $(filter .cuda/%,$(KERNELS_NVCC)),$(realpath $(KERNELS_NVCC))))
# NCCL_HOME/lib has NCCL, unless a program finds it elsewhere when it runs. The ranks are built with
# NCCL's header, which Python packages have, too.
ifneq ($(KERNELS_NVCC),)
NCCL_HOME ?= $(shell for home in /usr/local /usr $(CUDA_HOME) \
               "$$(python3 -c 'import nvidia.nccl as n; print(n.__path__[0])' 2>/dev/null)"; do \
               [ -f "$$home/include/nccl.h" ] && echo "$$home" && break; done)
NCCL_FLAGS := $(foreach home,$(NCCL_HOME),-DNCCL_FOLDER='"$(home)"' $(if $(MPI_FLAGS),-DHAVE_NCCL -isystem $(home)/include))

# Machine code for each compute capability of a list, and PTX of the last one for future GPUs.
code_for = $(foreach c,$(1),-gencode arch=compute_$(c),code=$(if \
             $(filter $(lastword $(1)),$(c)),[sm_$(c)$(comma)compute_$(c)],sm_$(c)))
# An old release of nvcc does not know newer GPUs.
ifeq ($(ARCH),all)
override ARCH := $(call code_for,$(filter 75 80 86 89 90 100 120,$(patsubst sm_%,%,$(shell \
                   $(KERNELS_NVCC) --list-gpu-code))))
# The name of a GPU's code, such as sm_89, is a list of one.
else ifneq ($(filter sm_%,$(ARCH)),)
KNOWN := $(if $(NVCC),$(shell $(KERNELS_NVCC) --list-gpu-code))
$(foreach code,$(ARCH),$(if $(filter 3% 5% 6% 70 72,$(code:sm_%=%)),$(error $(code): the kernels need a GPU of compute \
  capability 7.5 or newer; `make CUDA=0` builds for the CPU)))
$(if $(KNOWN),$(foreach code,$(ARCH),$(if $(filter-out $(KNOWN),$(code)),$(error $(code): this nvcc does not know it, but \
  $(lastword $(KNOWN)); a newer CUDA Toolkit does))))
override ARCH := $(call code_for,$(ARCH:sm_%=%))
# With a GPU, build only for it (-arch=native would ask it for each file). Without, build for Ampere and Hopper. If nvcc
# does not know the GPU yet, it makes PTX of the newest GPU before it, which the driver compiles.
else ifeq ($(ARCH),auto)
newest_code = $(or $(shell $(KERNELS_NVCC) --list-gpu-code | sed -n 's/^sm_//p' | awk '$$1 <= $(1)' | tail -n 1),$(1))
own_code = $(foreach c,$(call newest_code,$(1)),-gencode arch=compute_$(c),code=$(if $(filter $(1),$(c)),sm,compute)_$(c))
override ARCH := $(if $(NVCC),$(if $(GPUS),$(or $(foreach c,$(CAPABILITIES),$(call own_code,$(subst .,,$(c)))),-arch=native),$(call \
                   code_for,80 90)),-gencode arch=compute_80,code=compute_80)
TOO_NEW := $(if $(CAPABILITIES),$(if $(findstring code=compute,$(ARCH)),$(lastword $(CAPABILITIES))))
endif
NVCC_FLAGS := -std=c++17 -O3 -lineinfo $(ARCH) -Isrc -Ikernels -MMD -MP \
              $(addprefix -Xcompiler ,-Wall,-Wextra,-fPIE) \
              $(if $(filter 1,$(WERROR)),-Werror all-warnings)
WITH_CUDA := -DHAVE_CUDA -isystem $(CUDA_HOME)/include
endif
CUDA_LIBRARIES :=
ifneq ($(NVCC),)
CUDA_LIBRARIES := -L$(CUDA_HOME)/lib64 -lcudart_static -ldl -lrt -lstdc++
# Only the lab's references and mlp-bench use cuBLAS. Without cuBLAS, they are built with functions that fail.
ifneq ($(wildcard $(CUDA_HOME)/include/cublas_v2.h /usr/include/cublas_v2.h),)
CUBLAS_FLAGS = -L$(CUDA_HOME)/lib64 -Wl,-rpath,$(if $(filter .cuda/%,$(CUDA_HOME)),$(HERE)/)$(CUDA_HOME)/lib64 -lcublas
else
NVCC_FLAGS += -isystem src/measure/cuda/absent
WITH_CUDA += -isystem src/measure/cuda/absent \
             -DWITHOUT_CUBLAS='"cuBLAS is not installed; make setup CUBLAS=1 brings it (444 MB)"'
endif
LANGUAGE += $(WITH_CUDA)
endif

# ---- sources and programs ----------------------------------------------------------------
# The folders of src/, from the lowest floor to the highest. A folder includes only files of its own
# floor or below (make lint checks this). The mains, src/mlp_NAME.c, are on top.
FLOORS := base ranks+data+model+plot+emulator engine train+predict+measure cli commands+bench+lab+exercise

# There are three libraries: most of src/, what tests share, and what bench, lab and exercise measure with.
# A program is linked from its main, its own folder and these libraries. Code that needs CUDA has folders of its own.
objects = $(patsubst %.c,$(BUILD)/%.o,$(wildcard $(1:%=src/%/*.c)))
kernels = $(patsubst %.cu,$(BUILD)/%.o,$(wildcard $(1:%=%/*.cu)))
with_cuda = $(if $(NVCC),$(1))
# Files that compile longest come first, so that all cores have work until the end.
KERNELS  := $(call kernels,kernels/layer kernels/epoch kernels/many kernels)
LONGEST  := $(foreach name,tiles_first tiles_second tiles_mail tiles_80 tiles_without_hidden wide_wgmma wide_mma,$(filter %/$(name).o,$(KERNELS)))
LIBRARY  := $(call with_cuda,$(LONGEST) $(KERNELS) $(call objects,engine/cuda)) \
            $(call objects,data engine base ranks model plot train predict cli) $(BUILD)/digit_page_html.o
COMMANDS := $(call objects,commands)
MEASURE  := $(BUILD)/libmeasure.a
BENCH    := $(call objects,bench $(call with_cuda,bench/cuda)) $(MEASURE)
LAB      := $(call with_cuda,$(call kernels,kernels/lab) $(call objects,lab/cuda)) \
            $(call objects,lab) $(MEASURE)
# The code that judges a student's functions, on a GPU and on the emulator.
JUDGE    := $(filter-out %/run.o %/calls.o %/gpu.o %/emulated.o,$(call objects,exercise))
SUPPORT  := $(BUILD)/src/exercise/reference.o \
            $(filter-out %/cuda_stand_in.o %/emulated.o %/fault.o %/tsan_openmp.o %/without_cuda.o, \
              $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/support/*.c)))

# Only runs of several ranks load this library. Nothing else uses MPI.
RANKS    := $(if $(MPI_FLAGS),$(BUILD)/libmlp-ranks.so)
PROGRAMS := mlp-train mlp-digits mlp-lab mlp-bench
PLACED   := $(PROGRAMS:%=$(PLACE)/%)
MANUAL   := $(PROGRAMS:%=$(BUILD)/%.1)
TESTS    := $(patsubst tests/%.c,$(BUILD)/%,$(wildcard tests/test_*.c))
LONGEST_TESTS := $(filter %_epoch_schedules %_kernels_wide %_kernels_gemm %_threads %_faults,$(TESTS))
TESTS    := $(LONGEST_TESTS) $(filter-out $(LONGEST_TESTS),$(TESTS))
SCENARIOS := $(wildcard tests/scenarios/*.sh)
# Without CUDA, tests/support/without_cuda.c is compiled in place of each of these files.
CUDA_ALONE := $(if $(NVCC),,$(shell grep -lE '"support/(cuda_only|kernel_tests).h"' tests/*.c))
# The emulator runs kernels as C++ on the CPU. It needs only a C++ compiler.
EMULATOR := $(if $(shell command -v $(firstword $(CXX))),$(patsubst %.cpp,$(BUILD)/%.o,$(wildcard src/emulator/*.cpp)))
# Without nvcc, the lab on the emulator is named mlp-lab.
LAB_EMULATOR := $(if $(EMULATOR),$(if $(filter 0,$(SANITIZE)),$(PLACE)/mlp-lab$(if $(NVCC),-emulator)))
LAB_ON_EMULATOR := $(patsubst %.c,$(BUILD)/emulated/%.o,$(wildcard src/lab/*.c src/lab/emulated/*.c) \
                     $(addprefix src/lab/cuda/,arrays.c run.c)) \
                   $(patsubst %.cu,$(BUILD)/watched/%.o,$(filter-out %/math.cu %/math_fast.cu %/transfers.cu, \
                     $(wildcard kernels/lab/*.cu)) $(addprefix kernels/,unfused.cu optimizer.cu state.cu \
                     $(addprefix layer/,forward.cu head.cu softmax.cu backward.cu update.cu))) \
                   $(patsubst %,$(BUILD)/emulated/src/engine/cuda/%.o,levels level_none level_layer) $(EMULATOR)
LAB_TESTS := $(if $(NVCC),,$(LAB_EMULATOR:%=$(BUILD)/test_lab))
EMULATED := $(if $(EMULATOR),$(filter-out %/calls.o,$(EMULATOR)) \
              $(BUILD)/tests/support/epoch_parts.o $(BUILD)/tests/support/schedules.o)
# Without a GPU, the tests of kernels run on the emulator, too.
KERNEL_TESTS := $(filter $(BUILD)/test_kernels%,$(TESTS))
ON_EMULATOR := $(if $(EMULATOR),$(if $(GPUS),,$(KERNEL_TESTS)))
KERNELS_ON_EMULATOR := $(patsubst %.cu,$(BUILD)/emulated/%.o,$(filter-out %/exercise.cu, \
                         $(wildcard kernels/*.cu kernels/layer/*.cu))) \
                       $(BUILD)/emulated/tests/support/emulated.o $(EMULATED)
# Kernels of level epoch are not watched, because only mail orders their blocks.
WATCHED_KERNELS := $(KERNELS_ON_EMULATOR:$(BUILD)/emulated/kernels/%=$(BUILD)/watched/kernels/%)
ifeq ($(SANITIZE),thread)
# fault.c and the sanitizer both replace malloc. The emulator's watch defines functions with the sanitizer's names, so
# that the sanitizer would see nothing, and the watch accesses of the test itself. Races of kernels are found by `make watched`.
UNFIT    := $(addprefix $(BUILD)/,test_faults test_emulator test_epoch_schedules) $(KERNEL_TESTS)
TESTS    := $(filter-out $(UNFIT),$(TESTS))
LIBRARY  += $(BUILD)/tests/support/tsan_openmp.o
LDFLAGS  += -Wl,--wrap=GOMP_parallel
endif

.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*/\1/p' Makefile)
.DELETE_ON_ERROR:
.SECONDARY:

all: $(PLACED) $(LAB_EMULATOR) $(RANKS) $(MANUAL) ## build the programs and their manual
	@:

tests: $(TESTS)             ## build the tests
	@:

# Targets for users first set up the machine. Then they build on every core, unless -j says
# otherwise.
MAKEFLAGS += --no-print-directory
BUILD_ON_EVERY_CORE = $(MAKE) $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc)) SETUP=0

run: setup                  ## set up, build, get MNIST (or draw digits), train
	@$(BUILD_ON_EVERY_CORE) $(PLACE)/mlp-train mnist
	@train='$(PLACE)/mlp-train --epochs $(EPOCHS)'; \
	if ! [ -f data/mnist_train.csv -a -f data/mnist_test.csv ]; then \
	  echo 'MNIST cannot be had (the reason is above): training on drawn digits instead.'; \
	  [ -f data/digits_train.csv ] && [ -f data/digits_test.csv ] || \
	    { $(BUILD_ON_EVERY_CORE) $(PLACE)/mlp-digits && $(PLACE)/mlp-digits; } || exit; \
	  train="$$train --train data/digits_train.csv --test data/digits_test.csv"; \
	fi; \
	echo "$$train"; $$train

mnist:                      # downloads while compilers run
	@scripts/download_mnist.sh || :

test: setup                 ## set up, build, run every test that this machine can run
	@$(BUILD_ON_EVERY_CORE) all tests
	@$(if $(UNFIT),echo 'left out because ThreadSanitizer does not go with them: $(notdir $(UNFIT))')
	@$(if $(filter 0,$(SANITIZE)),,STREAM_ROWS=2000) PROGRAMS=$(PLACE) scripts/run_tests.sh $(TESTS) $(SCENARIOS)

short: setup                ## run the tests of threads and ranks, best with SANITIZE=1 or thread
	@$(BUILD_ON_EVERY_CORE) $(PLACE)/mlp-train $(PLACE)/mlp-digits $(BUILD)/test_ranks
	@STREAM_ROWS=2000 PROGRAMS=$(PLACE) scripts/run_tests.sh $(patsubst %,tests/scenarios/%.sh,ranks seeds sweep stream)

fresh:                      ## as root: run `make run` and `make test` in minimal systems of RELEASES
	@scripts/fresh.sh $(RELEASES)

CHECKS = 'test CUDA=1' watched 'test SANITIZE=1 CUDA=1' 'test SANITIZE=thread' lint 'fuzz SECONDS=10'

check-all: setup            ## run every check that needs no GPU, in a quarter of an hour
	+@for check in $(CHECKS); do \
	  start=$$(date +%s); log=build/check.log; \
	  if $(MAKE) WERROR=1 $$check >$$log 2>&1 </dev/null; then verdict=ok; else verdict=FAILED; failed=1; sed 's/^/  | /' $$log; fi; \
	  printf '%-6s  %4d s  make %-21s  %s\n' $$verdict $$(($$(date +%s) - start)) "$$check" "$$(tail -n 1 $$log)"; \
	done; [ -z "$$failed" ]

watched: setup              ## run the tests of kernels, except wide, on the emulator; watch every access
	@$(BUILD_ON_EVERY_CORE) $(WATCHED)
	@scripts/run_tests.sh $(WATCHED)

faults: setup               ## make each call that can fail do so, and look for leaks
	@$(BUILD_ON_EVERY_CORE) SANITIZE=1 CUDA=1 build/sanitize/test_faults
	@FAULTS_STRIDE=1 build/sanitize/test_faults

soak: setup                 ## interrupt and resume random runs for MINUTES
	@$(BUILD_ON_EVERY_CORE) SANITIZE=1 build/sanitize/mlp-train
	@MINUTES=$(MINUTES) SEED=$(SEED) PROGRAMS=build/sanitize tests/support/scenario.sh tests/soak/soak.sh

gpu-check:                  ## on a GPU: run every test, sanitizers, MNIST; write docs/results/
	+@NVCC='$(NVCC)' PART='$(PART)' scripts/gpu_check.sh

gpu-bench:                  ## on a GPU: time every level and the peers; write docs/results/
scaling:                    ## time ranks on 1, 2, 4, ... GPUs or cores; write docs/results/
profile:                    ## on a GPU: read hardware counters of every rung of TOPIC
gpu-bench scaling profile: setup
	@$(BUILD_ON_EVERY_CORE) all
	@NVCC='$(NVCC)' scripts/$(if $(filter profile,$@),profile.py $(TOPIC) $(RUNGS),$(subst -,_,$@).sh)

docs: setup                 ## write tables and pictures of the records in docs/results, without a GPU
	@$(BUILD_ON_EVERY_CORE) $(PLACE)/mlp-bench $(PLACE)/mlp-lab
	@PROGRAMS=$(PLACE) scripts/docs.sh

include src/exercise/exercise.mk

# Fails unless all functions are right: mlp-exercise's exit status says so.
exercise:                   ## check and score what you made of kernels/exercise.cu, or of SET=transformer: docs/exercise.md
warmup:                     ## check and score what you made of kernels/class/warmup.cu
grade-all:                  ## for the teacher: grade all files of folder FROM, for SET, write CSV
exercise warmup: setup
	@$(BUILD_ON_EVERY_CORE) $(SCORER)
	@$(HINTS)
	@$(SCORE)

student-kit:                ## for the teacher: make build/student-kit/ and .tar.gz, without answers
	@scripts/student_kit.sh $(BUILD) $(call quoted,$(VARIANT))

data:                       ## get MNIST as data/mnist_train.csv and data/mnist_test.csv
	@scripts/download_mnist.sh

setup:                      ## look for what is needed, install what is missing
	@NVCC='$(KERNELS_NVCC)' CUDA='$(CUDA)' MPI='$(MPI)' CUBLAS='$(CUBLAS)' SETUP='$(SETUP)' CXX='$(CXX)' TOO_OLD='$(TOO_OLD)' TOO_NEW='$(TOO_NEW)' GOALS='$(MAKECMDGOALS)' scripts/setup.sh

TREE = $(subst ','\'',$(DESTDIR)$(PREFIX))
COMPLETIONS = $(TREE)/share/bash-completion/completions

install: all                ## put programs, manuals, completion, pages and configs under PREFIX
	install -D -t '$(TREE)/bin' $(sort $(PLACED) $(LAB_EMULATOR))
	$(if $(RANKS),install -D -t '$(TREE)/lib/mlp-train' $(RANKS))
	install -D scripts/download_mnist.sh '$(TREE)/bin/mlp-train-fetch'
	install -D -m 644 -t '$(TREE)/share/man/man1' $(PROGRAMS:%=$(BUILD)/%.1)
	for name in $(PROGRAMS); do install -D -m 644 src/cli/mlp.bash '$(COMPLETIONS)'/$$name || exit; done
	install -D -m 644 -t '$(TREE)/share/mlp-train/configs' configs/*.conf
	install -D -m 644 -t '$(TREE)/share/doc/mlp-train' docs/formats.md docs/options.md docs/recipes.md docs/results/lab-h200.json

uninstall:                  ## remove what install put there
	rm -f $(patsubst %,'$(TREE)/bin/%',$(PROGRAMS) mlp-lab-emulator mlp-train-fetch)
	rm -f $(PROGRAMS:%='$(TREE)/share/man/man1/%.1') $(PROGRAMS:%='$(COMPLETIONS)/%')
	rm -rf '$(TREE)/share/mlp-train' '$(TREE)/share/doc/mlp-train' '$(TREE)/lib/mlp-train'

# ---- how files are built -----------------------------------------------------------------
# If compilers or flags have changed since the last time, everything is built again.
FLAGS := $(strip $(CC) $(CXX) $(C_FLAGS) $(MPI_FLAGS) $(NCCL_FLAGS) $(KERNELS_NVCC) $(NVCC_FLAGS))
ifneq ($(FLAGS),$(file <$(BUILD)/flags))
$(shell mkdir -p $(BUILD))
$(file >$(BUILD)/flags,$(FLAGS))
endif

# Prints the first argument, or the commands with `make V=1`. Makes the folder of the target.
said = $(if $(filter 1,$(V)),,@echo '$(1)';)mkdir -p $(@D);

# The objects of each program, in addition to its main. An archive comes last: the linker takes from it
# what the objects before it need.
WATCHED := $(patsubst $(BUILD)/%,$(BUILD)/watched_%,$(filter-out %_wide,$(KERNEL_TESTS)))
SCORERS := $(SCORERS_GPU) $(SCORERS_EMULATOR)
$(PLACED): | $(call with_cuda,$(LONGEST))
$(filter-out $(LAB_EMULATOR),$(PLACED)): $(PLACE)/mlp-%:                                       $(BUILD)/src/mlp_%.o
$(filter-out $(ON_EMULATOR) $(LAB_TESTS),$(TESTS)): $(BUILD)/test_%: $(BUILD)/tests/test_%.o
$(LAB_TESTS): $(BUILD)/test_%: $(BUILD)/emulated/tests/test_%.o $(LAB_ON_EMULATOR) $(MEASURE)
$(ON_EMULATOR): $(BUILD)/test_%:                                 $(BUILD)/emulated/tests/test_%.o $(KERNELS_ON_EMULATOR)
$(WATCHED): $(BUILD)/watched_%:                                  $(BUILD)/emulated/tests/%.o $(WATCHED_KERNELS) $(EMULATOR)
$(SCORERS_GPU): $(SEALED)/mlp-%-gpu: $(addprefix $(BUILD)/src/,$(addsuffix .o,mlp_exercise exercise/run exercise/calls exercise/gpu)) $(SEALED)/sealed_%_gpu.o
$(SCORERS_EMULATOR): $(SEALED)/mlp-%-emulator: $(addprefix $(BUILD)/emulated/src/,$(addsuffix .o,mlp_exercise exercise/run exercise/calls exercise/emulated)) $(SEALED)/sealed_%_emulator.o
$(SCORERS):                                                      $(JUDGE) $(MEASURE)
$(SCORERS_EMULATOR):                                             $(EMULATOR)
# mlp-lab --on emulator runs this program.
$(LAB_EMULATOR): $(BUILD)/emulated/src/mlp_lab.o $(LAB_ON_EMULATOR) $(MEASURE)
$(PLACE)/mlp-train:                                              $(COMMANDS)
$(PLACE)/mlp-bench $(BUILD)/test_bench:                          $(BENCH)
$(filter-out $(LAB_EMULATOR) $(LAB_TESTS),$(PLACE)/mlp-lab $(filter $(BUILD)/test_lab%,$(TESTS))): $(LAB)
$(BUILD)/test_record:                                            $(MEASURE)
$(BUILD)/test_train_log:                                         $(BUILD)/src/commands/train_log.o
$(BUILD)/test_exercise:                                          $(JUDGE) $(MEASURE)
$(BUILD)/test_activation: $(addprefix $(BUILD)/tanh/src/,engine/gemm_cpu.o engine/engine_cpu_steps.o exercise/reference.o predict/digit_page.o)
$(BUILD)/test_epoch_schedules:                                   $(EMULATED)
$(BUILD)/test_emulator:                                          $(if $(EMULATOR),$(EMULATOR) $(BUILD)/watched/tests/emulated/planted.o)
$(TESTS) $(WATCHED):                                             $(BUILD)/libtests.a

$(BUILD)/libmlp.a: $(LIBRARY)
$(BUILD)/libmeasure.a: $(call with_cuda,$(call kernels,kernels/measure) $(call objects,measure/cuda)) \
                       $(call objects,measure)
$(BUILD)/libtests.a: $(SUPPORT)
$(BUILD)/lib%.a:
	@rm -f $@
	$(call said,AR $@)$(AR) rcs $@ $^

ifneq ($(NVCC),)
# These programs count the launches of the host.
$(PLACE)/mlp-bench $(BUILD)/test_bench $(SCORERS_GPU): \
  private LDFLAGS += $(LAUNCHES:%=-Wl,--wrap=%)
$(PLACE)/mlp-bench $(PLACE)/mlp-lab $(filter-out $(ON_EMULATOR),$(TESTS)): private CUDA_LIBRARIES += $(CUBLAS_FLAGS)
endif

# Tests run programs, so the programs are built first.
$(filter-out %/test_ranks,$(TESTS)): | $(PLACED) $(LAB_EMULATOR)
$(BUILD)/test_ranks: | $(RANKS)
$(BUILD)/test_faults: | $(BUILD)/mlp-train-faults

# In mlp-train-faults, calls fail on demand. It has a stand-in for CUDA's runtime, so CUDA's calls fail, too.
ifneq ($(KERNELS_NVCC),)
STAND_IN := $(call objects,engine/cuda) $(BUILD)/tests/support/cuda_stand_in.o $(LONGEST) $(KERNELS)
$(BUILD)/tests/support/cuda_stand_in.o $(call objects,engine/cuda): C_FLAGS += $(WITH_CUDA)
$(BUILD)/tests/test_faults.o: C_FLAGS += -DHAVE_STAND_IN
endif
$(BUILD)/mlp-train-faults: $(BUILD)/src/mlp_train.o $(COMMANDS) $(BUILD)/tests/support/fault.o $(STAND_IN)

LINKED := $(sort $(PLACED) $(LAB_EMULATOR)) $(BUILD)/mlp-train-faults $(SCORERS) $(TESTS) $(WATCHED)
$(LINKED):                                                       $(BUILD)/libmlp.a
$(LINKED):
	$(call said,LD $@)$(CC) $(C_FLAGS) $^ -o $@ $(LDFLAGS) $(CUDA_LIBRARIES) $(LIBRARIES)

$(TESTS) $(WATCHED): private LIBRARIES += -lcmocka
$(SCORERS) $(BUILD)/test_exercise: private LIBRARIES += -lseccomp
$(SCORERS_EMULATOR): private CUDA_LIBRARIES += -lstdc++
# These programs have the emulator's CUDA runtime, or a stand-in for it.
$(ON_EMULATOR) $(WATCHED) $(LAB_EMULATOR) $(LAB_TESTS): private CUDA_LIBRARIES := -ldl -lstdc++
$(BUILD)/mlp-train-faults: private CUDA_LIBRARIES := -ldl $(if $(KERNELS_NVCC),-lstdc++)

$(BUILD)/src/engine/cuda/engine_cuda_ranks.o: C_FLAGS += $(NCCL_FLAGS)

$(BUILD)/libmlp-ranks.so: src/ranks/mpi/ranks_mpi.c src/ranks/ranks_mpi.h $(BUILD)/flags
	$(call said,LD $@)$(CC) $(filter-out -fPIE -fopenmp -MMD -MP,$(C_FLAGS)) -fPIC -shared $< -o $@ \
	  $(MPI_FLAGS)

# The manual of a program is the output of --help.
$(BUILD)/mlp-%.1: $(PLACE)/mlp-%
	@{ printf '.TH mlp-$* 1\n.SH NAME\nmlp-$* \\- a program of mlp-train\n.SH DESCRIPTION\n.nf\n'; \
	  $(PLACE)/mlp-$* --help | sed "s/[\\]/\\\\e/g; s/-/\\\\-/g; s/^[.']/\\\\\&&/"; } >$@

# cmocka 2 deprecates names that cmocka 1 needs. Tests compute little, so they are built with -O1, in
# half of the time.
TEST_FLAGS = $(CFLAGS:-O3=-O1) -DSANITIZED=$(if $(filter 0,$(SANITIZE)),0,1) -DCMOCKA_DISABLE_DEPRECATION_WARNINGS -Itests -DPROGRAM_FOLDER='"$(PLACE)"'
$(BUILD)/%.o: %.c $(BUILD)/flags
	$(call said,CC $<)$(CC) $(C_FLAGS) $(if $(filter src/%,$<),-Wpedantic,$(TEST_FLAGS)) \
	  -c $(if $(filter $<,$(CUDA_ALONE)),tests/support/without_cuda.c,$<) -o $@

# test_activation has these files with tests/support/tanh.h instead of ReLU.
$(BUILD)/tanh/%.o: %.c $(BUILD)/flags
	$(call said,CC $< for tanh)$(CC) $(C_FLAGS) -DOTHER_ACTIVATION='"support/tanh.h"' -Itests -c $< -o $@

# The page of --html becomes an array of bytes in the program.
$(BUILD)/digit_page_html.o: src/predict/digit_page.html $(BUILD)/flags
	$(call said,CC $<){ echo 'const char digit_page_html[] = {'; od -An -v -tu1 $< | sed 's/ *\([0-9][0-9]*\)/\1,/g'; \
	  echo '0};'; } | $(CC) $(filter-out -MMD -MP,$(C_FLAGS)) -x c -c - -o $@

# ---- the emulator ------------------------------------------------------------------------
# Uses the emulator's own cuda_runtime_api.h, no cuBLAS even where there is one, and no sanitizer,
# because fibers have their own stacks.
EMULATOR_INCLUDE := -isystem src/emulator/include -isystem src/measure/cuda/absent
WITHOUT_CUBLAS := -DWITHOUT_CUBLAS='"the emulator has no cuBLAS"'
CXX_FLAGS = -std=c++17 -O2 -g -fPIE -Wall -Wextra $(if $(filter 1,$(WERROR)),-Werror) \
            $(EMULATOR_INCLUDE) -Isrc -Ikernels -MMD -MP
KERNEL_FLAGS := $(AS_NVCC) -O1 -g1 -w # nvcc already gives the warnings of kernels
# This file would take longest to compile. With -Og its tests are as fast, which those of other kernels are not.
$(BUILD)/tests/support/epoch_parts.o: CXX_FLAGS += $(KERNEL_FLAGS) -Og -Itests
$(BUILD)/tests/support/schedules.o: CXX_FLAGS += -Itests
$(addprefix $(BUILD)/tests/,test_emulator.o test_epoch_schedules.o): \
  C_FLAGS += $(if $(EMULATED),-DHAVE_EMULATOR $(EMULATOR_INCLUDE))
$(BUILD)/test_epoch_schedules $(BUILD)/test_emulator: private LIBRARIES += $(if $(EMULATED),-lstdc++)
$(BUILD)/%.o: %.cpp $(BUILD)/flags
	$(call said,CXX $<)$(CXX) $(CXX_FLAGS) -c $< -o $@

# Kernels as C++: launches.awk turns launches into calls, in headers, too. Files that launches.awk need not
# change are used where they are.
AS_CXX  = $(EMULATOR_INCLUDE) $(WITHOUT_CUBLAS) -I$(BUILD)/emulated/kernels -include emulator/device.h -x c++ -c $< -o $@
REWRITTEN := $(patsubst %,$(BUILD)/emulated/%,$(shell grep -lE \
               '<<<|extern __shared__|__shared__ alignas' kernels/*.cuh kernels/*/*.cuh))
$(BUILD)/emulated/%: % src/emulator/launches.awk
	@mkdir -p $(@D) && awk -v NAME=$< -f src/emulator/launches.awk $< >$@
$(BUILD)/emulated/%.o: $(BUILD)/emulated/%.cu $(REWRITTEN) $(BUILD)/flags
	$(call said,CXX $*.cu)$(CXX) $(AS_CXX) $(CXX_FLAGS) $(KERNEL_FLAGS) $(filter --coverage,$(CFLAGS))
$(BUILD)/watched/%.o: $(BUILD)/emulated/%.cu $(REWRITTEN) $(BUILD)/flags
	$(call said,CXX $*.cu)$(WATCHED_CXX) $(AS_CXX) -Ikernels -w -fdebug-prefix-map=$(HERE)=. -MMD -MP
$(BUILD)/emulated/%.o: %.c $(BUILD)/flags
	$(call said,CC $<)$(CC) $(EMULATOR_INCLUDE) -DHAVE_CUDA -DON_EMULATOR=true $(C_FLAGS) -UWITHOUT_CUBLAS $(WITHOUT_CUBLAS) $(TEST_FLAGS) -c $< -o $@

$(BUILD)/kernels/%.o: kernels/%.cu $(BUILD)/flags
	$(call said,NVCC $<)$(KERNELS_NVCC) $(NVCC_FLAGS) -c $< -o $@ 2>$@.said; status=$$?; \
	  sed '/(C7519)/d' $@.said >&2; rm $@.said; exit $$status # C7519 warns of a fence that costs nothing

# Drawn digits are the same on every machine only without fused multiply-adds.
$(BUILD)/src/data/digits.o: C_FLAGS += -ffp-contract=off

# In stb, sums of sizes in a file may overflow. With -fwrapv they wrap, and the result is checked. At
# -O3 this file would take longest to compile.
$(BUILD)/src/data/image.o: C_FLAGS += -fwrapv -O2
# Only tests write JPEG files. stb 1.16 shifts bits out of an int as it writes them.
$(BUILD)/tests/test_image.o $(BUILD)/tests/test_photographs.o: C_FLAGS += -fwrapv

# A sqrt() that sets errno is a call, and loops with calls are not vectorised.
$(BUILD)/src/engine/engine_cpu_optimizer.o: C_FLAGS += -fno-math-errno

ifneq ($(KERNELS_NVCC),)
# Only code for sm_90a has Hopper's own instructions. nvcc knows sm_90a from release 12 on.
NVCC_RELEASE = $(shell $(KERNELS_NVCC) --version | sed -n 's/.*release \([0-9]*\).*/\1/p')
# If ARCH asks for PTX alone, this code is PTX, too.
ifeq ($(filter -gencode% arch=%,$(ARCH)),-gencode arch=compute_90$(comma)code=compute_90)
HOPPER := $(subst compute_90,compute_90a,$(ARCH))
else
HOPPER := -gencode arch=compute_90a$(comma)code=sm_90a
endif
$(BUILD)/kernels/layer/wide_wgmma.o $(BUILD)/kernels/many/many.o $(BUILD)/kernels/lab/matmul_hopper.o: \
  NVCC_FLAGS := $(if $(and $(filter-out 10 11,$(NVCC_RELEASE)),$(findstring 90,$(ARCH))$(findstring native,$(ARCH))), \
  $(subst $(ARCH),-DHAVE_SM_90A $(HOPPER),$(NVCC_FLAGS)),$(NVCC_FLAGS))
endif

# The topic math of the lab teaches what -use_fast_math does.
$(BUILD)/kernels/lab/math_fast.o: NVCC_FLAGS += -use_fast_math
# A rung of the topic transfers computes on the CPU's cores.
$(BUILD)/kernels/lab/transfers.o: NVCC_FLAGS += -Xcompiler -fopenmp

-include $(shell find $(addprefix $(BUILD)/,src tests kernels emulated watched tanh) -name '*.d' 2>/dev/null)

# ---- hostile input -----------------------------------------------------------------------
# Runs libFuzzer, a part of clang, on the readers of files and of the command line.
FUZZ_CC    ?= clang
FUZZ_FLAGS = -std=gnu11 -D_GNU_SOURCE= -DMLP_TRAIN_VERSION='"$(VERSION)"' -Isrc -O1 -g -fno-omit-frame-pointer $(call warnings_of,$(FUZZ_CC)) -Werror \
              -fsanitize=fuzzer,address,undefined,float-divide-by-zero -fno-sanitize-recover=all
FUZZ       := build/fuzz
HARNESSES  := $(patsubst tests/fuzz/%.c,$(FUZZ)/%,$(wildcard tests/fuzz/fuzz_*.c))

fuzz:                       ## with clang: invent input for every reader, for SECONDS each
	@echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | \
	  $(FUZZ_CC) -fsanitize=fuzzer -x c - -o /dev/null 2>/dev/null || \
	  { echo "make fuzz needs clang with libFuzzer: sudo apt-get install clang libclang-rt-dev" >&2; exit 1; }
	@$(BUILD_ON_EVERY_CORE) $(HARNESSES)
	@tests/fuzz/run.sh $(SECONDS) $(FUZZ)

# Ignores undefined arithmetic in stb 2.27 that does not affect memory.
$(FUZZ)/data/image.o: FUZZ_FLAGS += -fwrapv -fno-sanitize=shift,nonnull-attribute -DSTBI_MAX_DIMENSIONS=1024
$(FUZZ)/%.o: src/%.c $(wildcard src/*/*.h)
	@mkdir -p $(@D)
	@$(FUZZ_CC) $(FUZZ_FLAGS) -c $< -o $@
$(FUZZ)/read.a: $(patsubst src/%.c,$(FUZZ)/%.o,$(wildcard $(patsubst %,src/%/*.c,base cli data model)))
	@$(AR) rcs $@ $^
$(FUZZ)/fuzz_%: tests/fuzz/fuzz_%.c $(FUZZ)/read.a $(wildcard tests/fuzz/*.h)
	$(call said,CC $@)$(FUZZ_CC) $(FUZZ_FLAGS) $(filter %.c %.a,$^) -o $@ $(LIBRARIES)

# ---- what the tests miss -------------------------------------------------------------------
coverage: setup             ## with lcov: print the share of each file's lines that tests run without a GPU
	@rm -f $$(find build/coverage -name '*.gcda' 2>/dev/null)
	@$(MAKE) test SETUP=0 CUDA=0 BUILD=build/coverage PLACE=build/coverage CFLAGS='-O0 -g --coverage'
	@lcov -q -c -d build/coverage/src -b . --no-external -o build/coverage/lines.info 2>/dev/null
	@lcov -l build/coverage/lines.info

mutants: setup              ## make COUNT random changes of single tokens, list those that no test finds
	@scripts/mutants.py $(COUNT) $(SEED) $(notdir $(TESTS)) $(SCENARIOS)

# ---- for developers ------------------------------------------------------------------------
C_FILES := $(wildcard $(foreach folder,src src/* src/*/* tests tests/*,$(folder)/*.[ch]))

format:                     ## lay out C and CUDA files as .clang-format says
	clang-format -i $(C_FILES) $(wildcard kernels/*.* kernels/*/*.* src/emulator/*.cpp tests/support/*.cpp)

# cppcheck assumes that any loop may run zero times, even loops over layers and classes. So its reports
# of values that are 0 or unset are suppressed; clang-tidy's analyzer finds these. The analyzer does not
# know that a failed assertion of cmocka ends a test, so it reads only src/. The analyzer takes most of the
# time: NODES=25000 limits it to a ninth of its usual 225000 steps per function. For each macro of NEVER_SEEN,
# cppcheck would check all files once more, but only compilers that never see these files define it. LLVM's
# omp.h may be missing, and gcc's omp.h has attributes that LLVM does not know.
NODES =
WANTS_MORE := src/exercise/emulated.c $(wildcard src/lab/emulated/*.c) $(if $(MPI_FLAGS),,src/ranks/mpi/ranks_mpi.c) \
              $(if $(NVCC),,src/exercise/run.c src/exercise/calls.c src/exercise/gpu.c $(wildcard src/*/cuda/*.c) \
                $(CUDA_ALONE) tests/support/cuda_stand_in.c)
CPPCHECK_LEAVES := arrayIndexOutOfBoundsCond ctunullpointer ctuuninitvar invalidFunctionArg invalidPointerCast uninitvar zerodiv
NEVER_SEEN := __CUDACC__ __CUDA_ARCH__ __clang_analyzer__
CLANG_TIDY = xargs -P $(shell nproc) -I% clang-tidy --quiet $(1) % -- $(LANGUAGE) $(call warnings_of,clang) \
             $(TEST_FLAGS) $(filter -I%,$(MPI_FLAGS)) -fopenmp -isystem build/lint \
             $(NODES:%=-Xclang -analyzer-config -Xclang max-nodes=%)

lint:                       ## run clang-tidy, cppcheck, shellcheck; check links between pages
	@for tool in clang-tidy cppcheck shellcheck; do command -v $$tool >/dev/null || \
	  { echo "make lint needs $$tool: sudo apt-get install $$tool" >&2; exit 1; }; done
	@scripts/check_includes.py $(FLOORS)
	@scripts/check_links.py
	@shellcheck -x -P SCRIPTDIR scripts/*.sh tests/fuzz/run.sh tests/support/*.sh .ci/run
	@shellcheck -s bash -e SC1091,SC2034,SC2086,SC2154 $(SCENARIOS) tests/soak/soak.sh # functions and variables come from scenario.sh
	@cppcheck --quiet --error-exitcode=1 --enable=warning,performance,portability \
	  $(CPPCHECK_LEAVES:%=--suppress=%) $(NEVER_SEEN:%=-U%) --inline-suppr --std=c11 --file-filter='*.c' -Isrc -Itests -isrc/emulator src tests
	@mkdir -p build/lint
	@sed 's/__malloc__ ([a-z_]*)/__malloc__/' "$$($(CC) -print-file-name=include/omp.h)" \
	  >build/lint/omp.h
	@printf '%s\n' $(filter-out $(WANTS_MORE),$(filter src/%.c,$(C_FILES))) | $(call CLANG_TIDY) 2>/dev/null
	@printf '%s\n' $(filter-out tests/fuzz/% $(WANTS_MORE),$(filter tests/%.c,$(C_FILES))) | \
	  $(call CLANG_TIDY,--checks=-clang-analyzer-*) 2>/dev/null

print-sources:              ## print the hash of the sources, which gpu-check's record names
	@find src kernels tests -type f | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-64

clean:                      ## remove what was built (data/ stays)
	rm -rf build $(PROGRAMS) mlp-lab-emulator

help:                       ## print this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "make %-14s %s\n", $$1, $$2}' Makefile
	@awk -F' *= *| *# ' '/^[A-Z]+ += .*# / {printf "  %-17s %s\n", $$1 "=" $$2, $$3}' Makefile
	@echo '  The environment can set CC CXX AR NVCC CFLAGS LDFLAGS NCCL_HOME FUZZ_CC MNIST_SOURCE DATA_DIR.'
