#!/usr/bin/env bash
# edited_comment_test.sh SOURCES: tests that ccache can build a new build folder after a comment in a precompiled header
# has changed. ccache compares preprocessed sources, which have no comments, so it could take the precompiled header of
# the previous build. GCC would then not recognise the changed header, and would define its classes twice.
set -euo pipefail
command -v ccache >/dev/null || { echo 'skipped: ccache is not installed' && exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/sources"
cd "$scratch/sources"
cat >CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.25)
project(edited LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
list(APPEND CMAKE_MODULE_PATH $1/cmake)
find_package(fmt REQUIRED)
include(HexadOptions)
include(HexadPrecompiled)
add_library(hexad_precompiled_standard OBJECT \${HEXAD_EMPTY_SOURCE})
hexad_compile_headers(hexad_precompiled_standard standard <event.h>)
add_library(hexad_user OBJECT user.cpp)
target_include_directories(hexad_user PRIVATE .)
target_link_libraries(hexad_user PRIVATE hexad_warnings fmt::fmt)
hexad_precompiled(user)
END
printf '#pragma once\n// An event.\nstruct Event {};\n' >event.h
printf '#include "event.h"\n\nEvent event;\n' >user.cpp

export CCACHE_DIR=$scratch/cache
build() {
  rm -rf "$scratch/build"
  cmake -G Ninja -DCMAKE_BUILD_TYPE=Release -S . -B "$scratch/build" >/dev/null
  cmake --build "$scratch/build" >"$scratch/log" 2>&1 || { cat "$scratch/log" && echo "the $1 build failed" && exit 1; }
}
build first
sed -i 's/An event/The event/' event.h
echo 'Event second;' >>user.cpp  # otherwise, ccache would take the object of user.cpp from the first build
build second
