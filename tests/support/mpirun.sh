#!/bin/sh
# mpirun.sh N PROGRAM ARGUMENT... starts N ranks of a program. Its settings let Open MPI run as root
# and start more ranks than cores, and silence its own messages. Other MPIs need no settings.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_orte_execute_quiet=1 PMIX_MCA_pcompress_base_silence_warning=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export ASAN_OPTIONS=detect_leaks=0 # because MPI itself has leaks
exec mpirun -n "$@"
