# Precompiled headers: the standard library, and the headers that most sources of a part of the code include. These
# headers take most of the time that a small file needs to compile. Files still include every header that they use, so
# that they compile with -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON.
#
# There are four sets. Each set also contains the headers of the previous set. The libraries kernels, autograd and train
# introduce the sets of the same names. A target uses the highest set that the target or one of its dependencies
# introduces, or `standard` if there is none. Therefore, a target never compiles headers of a layer above the target.
set(HEXAD_PRECOMPILED_SETS standard kernels autograd train)
set(HEXAD_PRECOMPILED_standard <algorithm> <array> <chrono> <cmath> <cstdint> <cstring> <filesystem> <fstream> <functional>
    <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span> <sstream> <string> <string_view> <thread>
    <unordered_map> <utility> <vector>)
set(HEXAD_PRECOMPILED_kernels ${HEXAD_PRECOMPILED_standard} <framework/kernels/kernel_table.h>)
set(HEXAD_PRECOMPILED_autograd ${HEXAD_PRECOMPILED_kernels} <framework/autograd/ops/ops.h>)
set(HEXAD_PRECOMPILED_train ${HEXAD_PRECOMPILED_autograd} <fmt/format.h> <tools/train/recipe/recipe.h>
    <layers/transformer.h>)
set(HEXAD_EMPTY_SOURCE ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp)
file(CONFIGURE OUTPUT ${HEXAD_EMPTY_SOURCE} CONTENT "int main() {}\n")

# Sets `out` to the set of headers for library `name` (empty for a test). The other arguments are the libraries on which
# it depends. A target that introduces no set, such as a library of tests, names the set of its users in the property
# HEXAD_PRECOMPILED_SET.
function(hexad_precompiled_set out name)
  set(highest 0)
  list(FIND HEXAD_PRECOMPILED_SETS "${name}" own)
  foreach(library ${ARGN})
    set(target ${library})
    if(TARGET hexad_${library})
      set(target hexad_${library})
    endif()
    if(TARGET ${target})
      get_target_property(set ${target} HEXAD_PRECOMPILED_SET)
      list(FIND HEXAD_PRECOMPILED_SETS "${set}" index)
      if(index GREATER highest)
        set(highest ${index})
      endif()
    endif()
  endforeach()
  if(own GREATER highest)
    set(highest ${own})
  endif()
  list(GET HEXAD_PRECOMPILED_SETS ${highest} set)
  set(${out} ${set} PARENT_SCOPE)
endfunction()

# Makes the target `precompiled` compile the headers of `set`, and the headers in the other arguments.
function(hexad_compile_headers precompiled set)
  target_precompile_headers(${precompiled} PRIVATE ${HEXAD_PRECOMPILED_${set}} ${ARGN})
  target_include_directories(${precompiled} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${precompiled} PRIVATE hexad_warnings fmt::fmt)  # users compile with the same flags
  if(HEXAD_CCACHE)
    # ccache compares preprocessed sources, which have no comments. In a new build folder, ccache could therefore return
    # a precompiled header that was made from headers with other comments. GCC recognises a header with #pragma once by
    # its whole text, and would then define the classes of that header twice. With CCACHE_DEPEND, ccache compares the
    # headers themselves. The namespace separates these files from the rest of the cache.
    set(launcher ${CMAKE_CXX_COMPILER_LAUNCHER})
    list(INSERT launcher 3 CCACHE_DEPEND=1 CCACHE_NAMESPACE=hexad_precompiled)
    set_target_properties(${precompiled} PROPERTIES CXX_COMPILER_LAUNCHER "${launcher}")
  endif()
endfunction()

# Lets library `name` reuse the precompiled headers of its set. The other arguments are the libraries on which it
# depends.
function(hexad_precompiled name)
  hexad_precompiled_set(set ${name} ${ARGN})
  set_target_properties(hexad_${name} PROPERTIES HEXAD_PRECOMPILED_SET ${set})
  if(NOT TARGET hexad_precompiled_${set})
    add_library(hexad_precompiled_${set} OBJECT ${HEXAD_EMPTY_SOURCE})
    hexad_compile_headers(hexad_precompiled_${set} ${set})
  endif()
  target_precompile_headers(hexad_${name} REUSE_FROM hexad_precompiled_${set})
endfunction()

# Lets a test reuse the precompiled headers of its set and of googletest. The other arguments are the libraries on which
# it depends.
function(hexad_precompiled_test target)
  hexad_precompiled_set(set "" ${ARGN})
  if(NOT TARGET hexad_precompiled_test_${set})  # executable, because -fPIE and -fPIC need different precompiled headers
    add_executable(hexad_precompiled_test_${set} EXCLUDE_FROM_ALL ${HEXAD_EMPTY_SOURCE})
    hexad_compile_headers(hexad_precompiled_test_${set} ${set} <gtest/gtest.h>)
    target_link_libraries(hexad_precompiled_test_${set} PRIVATE GTest::gtest)
  endif()
  target_precompile_headers(${target} REUSE_FROM hexad_precompiled_test_${set})
  target_link_libraries(${target} PRIVATE fmt::fmt)  # the headers were compiled with fmt's definitions
endfunction()
