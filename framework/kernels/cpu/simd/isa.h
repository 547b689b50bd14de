// Chooses the instruction set that this machine runs, among those that simd/ is compiled for.
#pragma once

#include <cstdint>
#include <string_view>

#include "framework/base/dtype.h"

namespace hexad::kernels::cpu {

/// x86-64-v3 is AVX2 with FMA, the least this program needs; x86-64-v4 is AVX-512 (F, BW, CD, DQ, VL).
enum class Isa : uint8_t { v3, v4 };
std::string_view name_of(Isa isa);

/// The best instruction set of this processor, but at most the one that the environment variable HEXAD_MAX_ISA names
/// (v3, v4, dot or amx; to reproduce another machine's results). Read once. Throws Error(usage) for another value.
Isa machine_isa();
/// True if the machine has, beside x86-64-v4, the instruction that multiplies and adds pairs of bf16 (AVX-512 BF16),
/// and HEXAD_MAX_ISA is not less.
bool machine_has_dot();
/// True if that instruction is faster than f32 multiply-adds, or HEXAD_MAX_ISA names it. AMD's does twice as many
/// operations a cycle as f32 multiply-adds, Intel's as many.
bool machine_prefers_dot();
/// True if there is, beside x86-64-v4, the matrix unit for bf16 (AMX): the processor has it, HEXAD_MAX_ISA is not less,
/// and the operating system lets this process use its registers, which the first call asks for.
bool machine_has_amx();

/// One table of loops for each floating dtype.
template <template <class> class Loops>
struct ByDtype {
  Loops<float> for_f32;
  Loops<base::bf16> for_bf16;
  Loops<double> for_f64;

  template <class T>
  const Loops<T>& get() const {
    if constexpr (std::is_same_v<T, float>)
      return for_f32;
    else if constexpr (std::is_same_v<T, base::bf16>)
      return for_bf16;
    else
      return for_f64;
  }
};

/// The loops for T on this machine: choose<T>(v3::norm_loops, v4::norm_loops).
template <class T, template <class> class Loops>
const Loops<T>& choose(const ByDtype<Loops>& v3, const ByDtype<Loops>& v4) {
  return (machine_isa() == Isa::v4 ? v4 : v3).template get<T>();
}

}  // namespace hexad::kernels::cpu
