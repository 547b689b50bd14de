# Compilation of kernels for several instruction sets in the same program.
#
# hexad_simd_sources(TARGET a.cpp b.cpp) compiles each file twice into TARGET: with -march=x86-64-v3 (AVX2) and
# -DHEXAD_ISA=v3, and with -march=x86-64-v4 (AVX-512) and -DHEXAD_ISA=v4. Such a file puts its exported functions into
# `namespace hexad::...::HEXAD_ISA`. The caller, an ordinary file, chooses at run time
# (framework/kernels/cpu/simd/isa.h).
#
# Such a file must not instantiate an inline function with external linkage, from std:: or elsewhere. The linker keeps
# only one copy of such a function. If the linker keeps the AVX-512 copy, the program crashes on an older processor.
# Helpers belong in an anonymous namespace. The tests simd.TARGET_v3 and simd.TARGET_v4 check the symbols of the
# objects.
#
# hexad_isa_objects(TARGET ISA FLAGS a.cpp) compiles each file once, with the given flags and -DHEXAD_ISA=ISA.
#
# Contraction to fused multiply-add is on for these files, unless a library turns it off by a later compile option. Both
# instruction sets have fused multiply-add, so results do not depend on the chosen set.
set(HEXAD_SIMD_CHECK ${CMAKE_CURRENT_LIST_DIR}/check_simd_objects.sh)

function(hexad_simd_sources target)
  foreach(isa v3 v4)
    hexad_isa_objects(${target} ${isa} "-march=x86-64-${isa}" ${ARGN})
  endforeach()
endfunction()

function(hexad_isa_objects target isa flags)
  set(objects ${target}_${isa})
  add_library(${objects} OBJECT ${ARGN})
  target_compile_definitions(${objects} PRIVATE HEXAD_ISA=${isa})
  target_compile_options(${objects} PRIVATE ${flags} -mtune=skylake-avx512 -mprefer-vector-width=512
                                            -ffp-contract=fast -fno-math-errno -fno-trapping-math -fopenmp-simd)
  # Peeling for alignment is off, because the order of a sum would otherwise depend on the address of the tensor.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${objects} PRIVATE --param=vect-max-peeling-for-alignment=0)
  endif()
  target_include_directories(${objects} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${objects} PRIVATE hexad_warnings)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
  set_property(GLOBAL APPEND PROPERTY HEXAD_SIMD_TARGETS ${objects})
endfunction()

# hexad_simd_tests() adds a test for each object library made by hexad_isa_objects(). Builds with a sanitizer have no
# such tests, because sanitizers add symbols.
function(hexad_simd_tests)
  if(HEXAD_SANITIZE)
    return()
  endif()
  get_property(targets GLOBAL PROPERTY HEXAD_SIMD_TARGETS)
  foreach(objects ${targets})
    string(REGEX MATCH "(v[34]|dot|amx)$" isa ${objects})
    add_test(NAME simd.${objects} COMMAND sh ${HEXAD_SIMD_CHECK} ${isa} $<TARGET_OBJECTS:${objects}>
             COMMAND_EXPAND_LISTS)
    set_tests_properties(simd.${objects} PROPERTIES LABELS unit)
  endforeach()
endfunction()
