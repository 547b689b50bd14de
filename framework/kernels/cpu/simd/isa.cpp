#include "framework/kernels/cpu/simd/isa.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

namespace hexad::kernels::cpu {
namespace {

std::string_view limit() {
  const char* limit = std::getenv("HEXAD_MAX_ISA");
  const std::string_view name = limit ? limit : "amx";
  if (name != "v3" && name != "v4" && name != "amx")
    base::fail(base::ExitCode::usage, "environment: HEXAD_MAX_ISA is '", name, "'; expected v3, v4 or amx");
  return name;
}

Isa detect() {
  const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  return limit() != "v3" && v4 ? Isa::v4 : Isa::v3;
}

bool detect_amx() {
  constexpr int request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM of Linux's asm/prctl.h
  return limit() == "amx" && machine_isa() == Isa::v4 && __builtin_cpu_supports("amx-bf16") &&
         __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("avx512bf16") &&
         syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

}  // namespace

std::string_view name_of(Isa isa) { return isa == Isa::v4 ? "x86-64-v4" : "x86-64-v3"; }

Isa machine_isa() {
  static const Isa isa = detect();
  return isa;
}

bool machine_has_amx() {
  static const bool amx = detect_amx();
  return amx;
}

}  // namespace hexad::kernels::cpu
