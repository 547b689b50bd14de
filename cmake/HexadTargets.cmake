# hexad_library(comm SOURCES a.cpp DEPENDS tensor PRIVATE fmt::fmt) makes the static library hexad_comm, with the alias
# hexad::comm. DEPENDS lists hexad libraries, without the prefix. PUBLIC and PRIVATE list other libraries. If
# HEXAD_UNITY is set, the compiler reads several sources at once (a unity build), in batches that follow the order of
# SOURCES. Two sources of one batch must not use the same name in their unnamed namespaces. A new order of SOURCES can
# put sources with a common name into one batch. SEPARATE turns unity builds off for the library.
function(hexad_library name)
  cmake_parse_arguments(A "SEPARATE" "" "SOURCES;DEPENDS;PUBLIC;PRIVATE" ${ARGN})
  add_library(hexad_${name} STATIC ${A_SOURCES})
  add_library(hexad::${name} ALIAS hexad_${name})
  set_target_properties(hexad_${name} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(hexad_${name} PUBLIC cxx_std_20)
  target_include_directories(hexad_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/hexad>)
  hexad_precompiled(${name} ${A_DEPENDS})
  if(HEXAD_UNITY AND NOT A_SEPARATE)
    # GCC would warn about classes with members of types from unnamed namespaces, because it treats the included sources
    # as headers.
    set_target_properties(hexad_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
    target_compile_options(hexad_${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  endif()
  list(TRANSFORM A_DEPENDS PREPEND hexad::)
  target_link_libraries(hexad_${name} PUBLIC ${A_DEPENDS} ${A_PUBLIC} PRIVATE ${A_PRIVATE} $<BUILD_INTERFACE:hexad_warnings>)
  set_property(GLOBAL APPEND PROPERTY HEXAD_LIBRARIES hexad_${name})
endfunction()

# hexad_test(tape_test.cpp FOLDER autograd DEPENDS autograd LABELS unit) makes one executable and the test
# 'autograd.tape'. ANY_DEVICE adds the test 'autograd.tape.emulated', which runs on the emulated device with random
# delays of its queues. EMULATED_FILTER "*.First:*/Second" limits 'autograd.tape.emulated' to the selected tests, for
# files that would take too long. EMULATED_FILTER also adds the whole file as 'autograd.tape.emulated_whole' with the
# label slow. CUDA_FILTER "*.First" adds the selected tests as 'autograd.tape.cuda_double', which runs on the CUDA test
# double, if HEXAD_CUDA_DOUBLE is set. The selected tests take long, because they run the CUDA kernels on the CPU.
# TIMEOUT: seconds until ctest ends a test that hangs. The default is several times the longest test's time, because
# machines may be slow.
function(hexad_test source)
  cmake_parse_arguments(A "ANY_DEVICE" "FOLDER;TIMEOUT;EMULATED_FILTER;CUDA_FILTER" "DEPENDS;LABELS;PRIVATE" ${ARGN})
  string(REGEX REPLACE "_test\\.cpp$" "" name ${source})
  set(target test_${A_FOLDER}_${name})
  add_executable(${target} ${source})
  hexad_precompiled_test(${target} ${A_DEPENDS} ${A_PRIVATE})
  list(TRANSFORM A_DEPENDS PREPEND hexad::)
  target_link_libraries(${target} PRIVATE ${A_DEPENDS} ${A_PRIVATE} GTest::gtest_main hexad_warnings)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${A_FOLDER}.${name} COMMAND ${target})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 900)
  endif()
  set_tests_properties(${A_FOLDER}.${name} PROPERTIES LABELS "${A_LABELS}" TIMEOUT ${A_TIMEOUT})
  if(A_ANY_DEVICE)
    # The semicolons are escaped, because set_tests_properties expects the three variables as one value.
    set(late_queues ENVIRONMENT "HEXAD_TEST_DEVICE=emulated\\;HEXAD_DEVICE=emulated\\;HEXAD_EMULATED_JITTER=1")
    if(A_EMULATED_FILTER)
      add_test(NAME ${A_FOLDER}.${name}.emulated_whole COMMAND ${target})
      set_tests_properties(${A_FOLDER}.${name}.emulated_whole PROPERTIES LABELS slow TIMEOUT 900 ${late_queues})
    else()
      set(A_EMULATED_FILTER "*")
    endif()
    add_test(NAME ${A_FOLDER}.${name}.emulated COMMAND ${target} --gtest_filter=${A_EMULATED_FILTER})
    set_tests_properties(${A_FOLDER}.${name}.emulated PROPERTIES LABELS "${A_LABELS};emulated" TIMEOUT ${A_TIMEOUT}
      ${late_queues})
  endif()
  if(A_CUDA_FILTER AND HEXAD_CUDA_DOUBLE)
    add_executable(${target}_on_double $<TARGET_OBJECTS:${target}>)
    target_link_libraries(${target}_on_double PRIVATE hexad_cuda_on_double ${A_DEPENDS} ${A_PRIVATE} GTest::gtest_main)
    set_target_properties(${target}_on_double PROPERTIES LINKER_LANGUAGE CXX
                          RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${A_FOLDER}.${name}.cuda_double COMMAND ${target}_on_double --gtest_filter=${A_CUDA_FILTER})
    set_tests_properties(${A_FOLDER}.${name}.cuda_double PROPERTIES LABELS cuda-double TIMEOUT 900
      ENVIRONMENT "HEXAD_TEST_DEVICE=cuda;HEXAD_DEVICE=cuda;HEXAD_CUDA_DOUBLE_JITTER=1")
  endif()
endfunction()

# hexad_mpi_test(mpi_group_test.cpp FOLDER comm RANKS 2 4 DEPENDS comm) makes the tests 'comm.mpi_group.2' and
# 'comm.mpi_group.4' with the label dist. Both run one executable, which has its own main(), under the MPI launcher.
function(hexad_mpi_test source)
  cmake_parse_arguments(A "" "FOLDER;TIMEOUT" "DEPENDS;PRIVATE;RANKS" ${ARGN})
  string(REGEX REPLACE "_test\\.cpp$" "" name ${source})
  set(target test_${A_FOLDER}_${name})
  add_executable(${target} ${source})
  hexad_precompiled_test(${target} ${A_DEPENDS} ${A_PRIVATE})
  list(TRANSFORM A_DEPENDS PREPEND hexad::)
  target_link_libraries(${target} PRIVATE ${A_DEPENDS} ${A_PRIVATE} GTest::gtest hexad_warnings)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 600)
  endif()
  foreach(ranks ${A_RANKS})
    add_test(NAME ${A_FOLDER}.${name}.${ranks}
             COMMAND ${MPIEXEC_EXECUTABLE} -np ${ranks} ${HEXAD_MPIEXEC_FLAGS} $<TARGET_FILE:${target}>)
    set_tests_properties(${A_FOLDER}.${name}.${ranks} PROPERTIES LABELS dist TIMEOUT ${A_TIMEOUT} PROCESSORS ${ranks}
      ENVIRONMENT "${HEXAD_MPI_ENVIRONMENT}")
  endforeach()
endfunction()
