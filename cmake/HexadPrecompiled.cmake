# Precompiled headers: the standard library, and googletest for tests. They shorten the compilation of small files.
#
# hexad_precompiled(TARGET) and hexad_precompiled_test(TARGET) share one compiled copy each among all targets. A file
# must still include every header that it uses: -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON builds without precompiled headers.
set(HEXAD_STANDARD_HEADERS <algorithm> <array> <chrono> <cmath> <cstdint> <cstring> <filesystem> <fstream> <functional>
    <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span> <sstream> <string> <string_view> <thread>
    <unordered_map> <utility> <vector>)
set(HEXAD_EMPTY_SOURCE ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp)
file(CONFIGURE OUTPUT ${HEXAD_EMPTY_SOURCE} CONTENT "int main() {}\n")

add_library(hexad_precompiled OBJECT ${HEXAD_EMPTY_SOURCE})
target_precompile_headers(hexad_precompiled PRIVATE ${HEXAD_STANDARD_HEADERS})
target_link_libraries(hexad_precompiled PRIVATE hexad_warnings)  # -Wpedantic changes the predefined macros

function(hexad_precompiled target)
  target_precompile_headers(${target} REUSE_FROM hexad_precompiled)
endfunction()

function(hexad_precompiled_test target)
  if(NOT TARGET hexad_precompiled_test)  # an executable, because -fPIE and -fPIC need different precompiled headers
    add_executable(hexad_precompiled_test EXCLUDE_FROM_ALL ${HEXAD_EMPTY_SOURCE})
    target_precompile_headers(hexad_precompiled_test PRIVATE ${HEXAD_STANDARD_HEADERS} <gtest/gtest.h>)
    target_link_libraries(hexad_precompiled_test PRIVATE GTest::gtest hexad_warnings)
  endif()
  target_precompile_headers(${target} REUSE_FROM hexad_precompiled_test)
endfunction()
