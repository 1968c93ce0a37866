comma := ,
# Rules to score the exercise. The Makefiles of the project and of the student kit include them, and link the scorers.

# Kernels get nvcc's rules: pointers to different types may alias, and the compiler must not copy a barrier for
# two paths to it. Without -fno-delete-null-pointer-checks, g++ 12 addresses some loops' stores from NULL (ivopts),
# takes the function for pure and drops its calls.
as_nvcc = -fno-strict-aliasing -ffp-contract=off -fno-delete-null-pointer-checks \
          $(if $(findstring clang,$(1)),,-fno-thread-jumps)
AS_NVCC := $(call as_nvcc,$(CXX))
# An access of the source stays one access: nothing is vectorised or removed. Basic blocks keep the order of the
# source, on which src/emulator/findings.cpp relies.
like_source = $(if $(findstring clang,$(1)),-fsanitize=thread$(comma)array-bounds$(comma)local-bounds -fsanitize-coverage=trace-pc$(comma)no-prune \
                -mllvm -tsan-instrument-read-before-write -fno-vectorize -fno-slp-vectorize -fno-unroll-loops, \
                -fsanitize=thread$(comma)bounds -fsanitize-coverage=trace-pc \
                -fno-reorder-blocks -fno-guess-branch-probability -fno-tree-sra)
# `quoted` makes one word for the shell of a name, which may have any characters. HERE is our folder.
quoted = '$(subst ','\'',$(1))'
HERE := $(call quoted,$(CURDIR))
# watched_by COMPILER, FOLDER/. Our own objects have no FOLDER: `;` in its name would make a rule of a .d file wrong.
watched_by = $(1) -std=c++17 -O1 -gdwarf-4 -fPIE -U_FORTIFY_SOURCE $(call as_nvcc,$(1)) $(call like_source,$(1)) \
             -isystem $(2)src/emulator/include -I$(2)src
WATCHED_CXX = $(call watched_by,$(CXX))

# clang++ compiles a student's file: its front end knows CUDA, and its watch sees structs that are passed by value.
STUDENT_CXX := $(or $(shell for c in clang++ $(foreach n,22 21 20 19 18 17 16 15 14,clang++-$n); do command -v $$c && break; done),clang++)
# A loop without end stays one.
STUDENTS := -fno-exceptions -fno-finite-loops -fstack-clash-protection -fsanitize=integer-divide-by-zero -Wno-everything -Werror=vla -Werror=gnu-label-as-value \
            $(if $(filter x86_64,$(shell uname -m)),-fsanitize=function)

# The command line sets these variables, the environment none. SET is what `make exercise` and `make grade-all` score.
# SUBMISSION is scored instead of the set's file, SEALED is the folder of its build: scripts/grade_all.sh sets both for
# each submission. ON is below.
SET        = exercise
SUBMISSION =
SEALED     = $(BUILD)
WARMUP     = kernels/class/warmup.cu
GRADE      =
ONLY       =
SHAPE      =
HINT       =
FROM       =
CSV        =
# What the emulator is: H100, A100 or T4. It refuses what is later than compute capability 8.0, or than 7.5 of a T4.
GPU        = H100
ARCH_T4   := 75
ARCH_A100 := 80
ARCH_H100 := 80
$(if $(ARCH_$(GPU)),,$(error GPU=$(GPU): the emulator can be an H100, A100 or T4))

# The sets of tasks, as in src/exercise/tasks.c, and the file of each. A program scores one set, so that a mistake in one
# file does not keep the others from being scored. Its name is mlp-SET-emulator or mlp-SET-gpu.
SETS := exercise transformer warmup
$(if $(filter $(SET),exercise transformer),,$(error SET=$(SET): the sets are exercise and transformer; for the warm-ups: make warmup))
# A rule cannot wait for a name with spaces, and does not say which variable names a file that is absent.
named = $(if $($(1)),$(if $(word 2,$($(1))),$(error $(1)=$($(1)): the name must have no spaces))$(if \
          $(shell test -f $(call quoted,$($(1))) && echo it),,$(error $(1)=$($(1)): there is no such file)))
$(call named,SUBMISSION)$(if $(filter command%,$(origin WARMUP)),$(call named,WARMUP))
FILE_exercise    = $(or $(if $(filter exercise,$(SET)),$(SUBMISSION)),kernels/exercise.cu)
FILE_transformer = $(or $(if $(filter transformer,$(SET)),$(SUBMISSION)),kernels/class/transformer.cu)
FILE_warmup      = $(WARMUP)
SEALED_EMULATOR  := $(SETS:%=$(SEALED)/sealed_%_emulator.o)
SEALED_GPU       := $(SETS:%=$(SEALED)/sealed_%_gpu.o)
SCORERS_EMULATOR := $(SETS:%=$(SEALED)/mlp-%-emulator)
SCORERS_GPU      := $(SETS:%=$(SEALED)/mlp-%-gpu)

$(foreach set,$(SETS),$(eval $(SEALED)/sealed_$(set)_emulator.o $(SEALED)/sealed_$(set)_gpu.o: $(FILE_$(set))))
$(SEALED)/sealed_transformer_emulator.o $(SEALED)/sealed_transformer_gpu.o: kernels/class/transformer.h
$(SEALED_EMULATOR): $(SEALED)/sealed_%_emulator.o: $(wildcard src/emulator/*.h src/emulator/*.awk) scripts/seal_exercise.sh $(SEALED)/of_%
	@mkdir -p $(@D)
	@scripts/seal_exercise.sh $* emulator $(FILE_$*) $@ $(call watched_by,$(STUDENT_CXX),$(HERE)/) $(STUDENTS) -DEMULATOR_ARCH=$(ARCH_$(GPU)) -include emulator/device.h
# What a sealed object is made of: new if the file or the GPU is another, even if that file is older than the object.
MADE_OF = $(call quoted,$(FILE_$*) $(GPU))
$(SETS:%=$(SEALED)/of_%): $(SEALED)/of_%: FORCE
	@mkdir -p $(@D)
	@echo $(MADE_OF) | cmp -s - $@ || echo $(MADE_OF) >$@
.PHONY: FORCE
$(SEALED_GPU): $(SEALED)/sealed_%_gpu.o: scripts/seal_exercise.sh $(SEALED)/of_%
	@mkdir -p $(@D)
	@scripts/seal_exercise.sh $* gpu $(FILE_$*) $@ $(NVCC) -std=c++17 -O3 -lineinfo $(ARCH) -Xcompiler -fPIE

# The linker replaces these functions by functions of src/measure/cuda/launch_count.c, which count the calls.
LAUNCHES := cudaLaunchKernel __cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel \
            cudaGraphLaunch

# Scores on a GPU if there are a GPU and nvcc, otherwise on the emulator.
ON = $(if $(wildcard /dev/nvidia[0-9]* /dev/dxg),$(if $(NVCC),gpu,emulator),emulator)
SET_OF = $(if $(filter exercise,$@),$(SET),$@)
SCORER = $(SEALED)/mlp-$(SET_OF)-$(ON)
ifneq ($(if $(NVCC),,$(filter $(SCORERS_GPU),$(MAKECMDGOALS))),)
$(error ON=gpu needs nvcc, which `make setup` installs; ON=emulator does not)
endif
HOW_TO_SCORE = $(if $(ONLY),--only $(call quoted,$(ONLY))) $(if $(SHAPE),--shape $(call quoted,$(SHAPE))) \
               $(if $(filter emulator,$(ON)),--gpu $(GPU)) \
               $(if $(and $(GRADE),$(if $(SEED_GIVEN),,1)),,--seed $(SEED)) \
               $(if $(GRADE),--grade $(call quoted,$(GRADE)))
# Status 4 says that all is right but not all is fused, which is no error.
SCORE = $(SCORER) $(HOW_TO_SCORE) || { status=$$?; [ $$status = 4 ] || exit $$status; }
# Grades a folder of submissions. An entry is a file, or a folder with one file.
grade-all: $(BUILD)/mlp-$(SET)-emulator
	@$(if $(and $(FROM),$(CSV)),,echo 'grade-all wants FROM=FOLDER CSV=points.csv' >&2; exit 1;) \
	  SEED='$(if $(SEED_GIVEN),$(SEED))' GPU=$(GPU) SET=$(SET) scripts/grade_all.sh \
	  $(call quoted,$(FROM)) $(call quoted,$(CSV)) '$(BUILD)'

# HINT=N prints the Nth hint of each function, or of function ONLY.
HINTS = $(if $(HINT),awk -v n=$(call quoted,$(HINT)) -v only=$(call quoted,$(ONLY)) '\
          BEGIN { if (n !~ /^[1-9][0-9]*$$/) { print "HINT=" n ": the hints have numbers from 1" >"/dev/stderr"; exit 1 } } \
          /^\/\* ---- / { told(); f = $$3 + 0; c = 0 } \
          /^   HINT / { c++ } /^   [A-Z]/ { on = /^   HINT / && c == n } { ours = f > 0 && (only == "" || f == only) } \
          on && ours { line = $$0; sub(/ *\*\/$$/, "", line); print f ": " line } /\*\/$$/ { on = 0 } END { told() } \
          function told() { if (ours && c < n) print f ": has " c (c == 1 ? " hint" : " hints") }' \
          $(FILE_$(SET_OF)),:)
