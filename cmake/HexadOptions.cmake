# Compiler settings. Users of the installed package do not inherit them.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(HEXAD_CCACHE ccache)
if(HEXAD_CCACHE)
  # CCACHE_SLOPPINESS lets ccache store objects that were compiled with a precompiled header. With CCACHE_BASEDIR, build
  # folders share objects: the preset mpich reuses most objects of the preset release.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${HEXAD_CCACHE})
endif()

# With the default heap, GCC's garbage collection takes a tenth of the time of a clean build. With this heap, GCC seldom
# collects garbage, and a compiler process needs at most 1.1 GB instead of 0.9 GB.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=2000000>)

add_library(hexad_warnings INTERFACE)
target_compile_options(hexad_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wnon-virtual-dtor -Woverloaded-virtual
                            $<$<BOOL:${HEXAD_WERROR}>:-Werror>>)
# In a unity build, -Wshadow would also warn about local names that are equal to names in another source's unnamed
# namespace.
target_compile_options(hexad_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:$<IF:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>,-Wshadow=local,-Wshadow>>)

# Debug builds use -O1, because the numerical tests would take hours at -O0.
set(CMAKE_CXX_FLAGS_DEBUG "-g1 -O1 -fno-omit-frame-pointer")
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
# Contraction to fused multiply-add is off, except in kernels that request it. Results therefore do not depend on the
# chosen instruction set.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)

if(HEXAD_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${HEXAD_SANITIZE}>
                      $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all>)
  add_link_options(-fsanitize=${HEXAD_SANITIZE})
endif()

if(HEXAD_NATIVE)
  set(HEXAD_ARCH native)
else()
  set(HEXAD_ARCH x86-64-v3)
endif()
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-march=${HEXAD_ARCH}>)
