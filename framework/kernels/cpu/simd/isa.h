// Choice of an instruction set for this machine. The loops of this folder are compiled once for each set.
#pragma once

#include <cstdint>
#include <string_view>

#include "framework/base/dtype.h"

namespace hexad::kernels::cpu {

/// Instruction sets. x86-64-v3 is AVX2 with FMA, which this program requires. x86-64-v4 is AVX-512 (F, BW, CD, DQ, VL).
enum class Isa : uint8_t { v3, v4 };
std::string_view name_of(Isa isa);

/// Returns the best instruction set of this processor that the environment variable HEXAD_MAX_ISA permits. The variable
/// names the highest permitted set: v3, v4, dot or amx. Users set it to reproduce the results of another machine. The
/// first call determines the result of all calls. Throws Error(usage) if the variable has any other value.
Isa machine_isa();
/// True if the machine has x86-64-v4 and AVX-512 BF16 (the instruction that multiplies and adds pairs of bf16), and
/// HEXAD_MAX_ISA permits their use.
bool machine_has_dot();
/// True if machine_has_dot() is true, and either the processor is AMD's or HEXAD_MAX_ISA is "dot". On AMD's processors,
/// the instruction for pairs of bf16 does twice as many operations per cycle as f32 multiply-adds. On Intel's
/// processors, it does equally many.
bool machine_prefers_dot();
/// True if all of these conditions hold:
/// - The machine has x86-64-v4, AVX-512 BF16 and the matrix unit for bf16 (AMX).
/// - HEXAD_MAX_ISA permits their use.
/// - The operating system lets this process use the unit's registers. The first call requests this permission.
bool machine_has_amx();

/// Loops for each floating dtype.
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

/// Returns the loops for T and this machine's instruction set, for example choose<T>(v3::norm_loops, v4::norm_loops).
template <class T, template <class> class Loops>
const Loops<T>& choose(const ByDtype<Loops>& v3, const ByDtype<Loops>& v4) {
  return (machine_isa() == Isa::v4 ? v4 : v3).template get<T>();
}

}  // namespace hexad::kernels::cpu
