# MPI library and its launcher: Open MPI, MPICH, or a library derived from MPICH. HEXAD_MPI chooses a library if several
# are installed, as Debian permits. Sets:
#
#   HEXAD_MPI_FAMILY       openmpi, mpich (also libraries derived from it) or other
#   HEXAD_MPIEXEC_NAME     name of the launcher in messages, such as mpirun or mpiexec.mpich
#   HEXAD_MPIEXEC_FLAGS    options of the launcher that allow more ranks than cores
#   HEXAD_MPI_ENVIRONMENT  environment of tests that start ranks
set(HEXAD_MPI "" CACHE STRING "MPI library: openmpi, mpich, or empty (that of the launcher mpiexec on the PATH)")
set_property(CACHE HEXAD_MPI PROPERTY STRINGS "" openmpi mpich)
if(HEXAD_MPI AND NOT HEXAD_MPI MATCHES "^(openmpi|mpich)$")
  message(FATAL_ERROR "HEXAD_MPI is '${HEXAD_MPI}'; expected openmpi, mpich or an empty value")
endif()
if(HEXAD_MPI)  # Debian's names; on other systems, FindMPI searches the PATH
  find_program(MPI_CXX_COMPILER NAMES mpicxx.${HEXAD_MPI} DOC "MPI compiler for CXX")
  find_program(MPIEXEC_EXECUTABLE NAMES mpiexec.${HEXAD_MPI} DOC "Executable for running MPI programs.")
endif()
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI REQUIRED COMPONENTS CXX)

# Sets HEXAD_MPI_FAMILY and HEXAD_MPI_VERSION from the header mpi.h.
function(hexad_read_mpi_header)
  set(source ${PROJECT_BINARY_DIR}/CMakeFiles/hexad_mpi.cpp)
  file(WRITE ${source} "#include <mpi.h>
#if defined(OPEN_MPI)
hexad_mpi openmpi OMPI_MAJOR_VERSION OMPI_MINOR_VERSION OMPI_RELEASE_VERSION
#elif defined(MPICH_VERSION)
hexad_mpi mpich MPICH_VERSION
#elif defined(MPICH_NAME) || defined(I_MPI_VERSION)
hexad_mpi mpich
#else
hexad_mpi other
#endif
")
  list(TRANSFORM MPI_CXX_INCLUDE_DIRS PREPEND -I OUTPUT_VARIABLE folders)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -E -P ${folders} ${source} OUTPUT_VARIABLE text ERROR_VARIABLE error)
  if(NOT text MATCHES "hexad_mpi ([a-z]+)([^\n]*)")
    message(FATAL_ERROR "mpi.h cannot be read with ${CMAKE_CXX_COMPILER} ${folders}: ${error}")
  endif()
  set(HEXAD_MPI_FAMILY ${CMAKE_MATCH_1} PARENT_SCOPE)
  string(REGEX MATCHALL "[0-9][0-9a-z.]*" numbers "${CMAKE_MATCH_2}")
  list(JOIN numbers . version)
  set(HEXAD_MPI_VERSION "${version}" PARENT_SCOPE)
endfunction()

# Sets `out` to the family of the launcher, or to `other` for an unknown launcher such as srun.
function(hexad_family_of_launcher out)
  execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE text ERROR_VARIABLE text)
  set(family other)
  if(text MATCHES "Open MPI|OpenRTE|PRRTE")
    set(family openmpi)
  elseif(text MATCHES "HYDRA|MPICH|Intel\\(R\\) MPI")
    set(family mpich)
  endif()
  set(${out} ${family} PARENT_SCOPE)
endfunction()

hexad_read_mpi_header()
set(found "${HEXAD_MPI_FAMILY} ${HEXAD_MPI_VERSION} (${MPI_CXX_COMPILER})")
if(HEXAD_MPI AND NOT HEXAD_MPI STREQUAL HEXAD_MPI_FAMILY)
  message(FATAL_ERROR "HEXAD_MPI is ${HEXAD_MPI}, but the MPI library is ${found}. Install ${HEXAD_MPI} (Debian: "
          "libmpich-dev and mpich, or libopenmpi-dev and openmpi-bin), or set MPI_CXX_COMPILER and MPIEXEC_EXECUTABLE. In a "
          "build folder of another library, add --fresh")
endif()
hexad_family_of_launcher(family)
if(NOT family STREQUAL HEXAD_MPI_FAMILY AND NOT family STREQUAL "other" AND NOT HEXAD_MPI_FAMILY STREQUAL "other")
  message(FATAL_ERROR "the launcher ${MPIEXEC_EXECUTABLE} is that of ${family}, but the MPI library is ${found}. Set "
          "HEXAD_MPI, or MPI_CXX_COMPILER and MPIEXEC_EXECUTABLE. In a build folder of another library, add --fresh")
endif()
message(STATUS "MPI: ${found}, launcher ${MPIEXEC_EXECUTABLE}")

set(HEXAD_MPIEXEC_NAME mpiexec)
if(MPIEXEC_EXECUTABLE)
  get_filename_component(HEXAD_MPIEXEC_NAME "${MPIEXEC_EXECUTABLE}" NAME)
endif()
set(HEXAD_MPIEXEC_FLAGS "")
set(HEXAD_MPI_ENVIRONMENT "")
if(HEXAD_MPI_FAMILY STREQUAL "openmpi")
  if(HEXAD_MPIEXEC_NAME STREQUAL "mpiexec")
    set(HEXAD_MPIEXEC_NAME mpirun)  # the name that Open MPI's documentation uses
  endif()
  set(HEXAD_MPIEXEC_FLAGS --oversubscribe --bind-to none)
  # Allows root, because containers run as root by default. Lets waiting ranks yield, because there may be more ranks
  # than cores.
  set(HEXAD_MPI_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1)
endif()
