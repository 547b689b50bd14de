#include "framework/kernels/cpu/simd/isa.h"

#include <cstdlib>

namespace hexad::kernels::cpu {
namespace {

Isa detect() {
  const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  const char* limit = std::getenv("HEXAD_MAX_ISA");
  const std::string_view name = limit ? limit : "v4";
  if (name != "v3" && name != "v4")
    base::fail(base::ExitCode::usage, "environment: HEXAD_MAX_ISA is '", name, "'; expected v3 or v4");
  return v4 && name == "v4" ? Isa::v4 : Isa::v3;
}

}  // namespace

std::string_view name_of(Isa isa) { return isa == Isa::v4 ? "x86-64-v4" : "x86-64-v3"; }

Isa machine_isa() {
  static const Isa isa = detect();
  return isa;
}

}  // namespace hexad::kernels::cpu
