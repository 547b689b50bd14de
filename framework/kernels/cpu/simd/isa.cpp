#include "framework/kernels/cpu/simd/isa.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace hexad::kernels::cpu {
namespace {

constexpr std::array<std::string_view, 4> names{"v3", "v4", "dot", "amx"};

/// Returns the value of HEXAD_MAX_ISA, empty if it is not set. Throws Error(usage) if the value is not one of `names`.
std::string_view limit() {
  const char* limit = std::getenv("HEXAD_MAX_ISA");
  if (limit && std::find(names.begin(), names.end(), limit) == names.end())
    base::fail(base::ExitCode::usage, "environment: HEXAD_MAX_ISA is '", limit, "'; expected v3, v4, dot or amx");
  return limit ? limit : "";
}

bool allows(std::string_view name) {
  const auto most = std::find(names.begin(), names.end(), limit());
  return most == names.end() || std::find(names.begin(), names.end(), name) <= most;
}

Isa detect() {
  const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  return allows("v4") && v4 ? Isa::v4 : Isa::v3;
}

bool detect_dot() { return allows("dot") && machine_isa() == Isa::v4 && __builtin_cpu_supports("avx512bf16"); }

bool detect_amx() {
  // request_permission is ARCH_REQ_XCOMP_PERM of Linux (asm/prctl.h). tile_data is the number of the processor state
  // that the request names: the registers of AMX.
  constexpr int request_permission = 0x1023, tile_data = 18;
  return allows("amx") && machine_isa() == Isa::v4 && __builtin_cpu_supports("amx-bf16") &&
         __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("avx512bf16") &&
         syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

}  // namespace

std::string_view name_of(Isa isa) { return isa == Isa::v4 ? "x86-64-v4" : "x86-64-v3"; }

Isa machine_isa() {
  static const Isa isa = detect();
  return isa;
}

bool machine_has_dot() {
  static const bool dot = detect_dot();
  return dot;
}

bool machine_prefers_dot() {
  static const bool prefers = machine_has_dot() && (__builtin_cpu_is("amd") || limit() == "dot");
  return prefers;
}

bool machine_has_amx() {
  static const bool amx = detect_amx();
  return amx;
}

}  // namespace hexad::kernels::cpu
