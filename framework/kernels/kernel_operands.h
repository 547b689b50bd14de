// Operands of several families of kernels, and conventions of all kernels.
//
// Legend of shapes:
//
//   T  tokens (rows)       E  experts                         B  sequences
//   D  hidden size         K  slots per token (top-k)         S  positions of a sequence
//   N  output features     R  rows of all experts together    H  query heads
//   V  vocabulary          C  size of a head                  G  key/value heads
//
// Floating tensors are f32, bf16 or f64. "acc" is the accumulator dtype: f64 for f64 operands, otherwise f32. Tensors
// are contiguous. If a comment allows "strided rows", only the last dimension must be contiguous. Rows whose address
// and stride are multiples of 16 bytes may be processed faster. Kernels run in stream order. Operands must not overlap.
// If a comment says that one operand "may be" another, both may be the same tensor. They must not be different parts of
// one tensor that overlap.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "framework/base/error.h"
#include "framework/device/stream.h"
#include "framework/tensor/tensor.h"

namespace hexad::kernels {

using device::Device;
using device::Stream;
using tensor::Tensor;

/// Returns the matrix [N, D] of expert e in weights or gradients [E, N, D].
inline Tensor expert_matrix(const Tensor& stack, int64_t e) {
  return stack.slice(0, e, e + 1).reshape({stack.dim(1), stack.dim(2)});
}

/// Write mode of a result: replace the old values, or add to them. In the contracts of kernels, "Computes out = ..."
/// also means "out += ..." if the kernel has a parameter of this type.
enum class Write : uint8_t { replace, add };

/// Rows of each group. For offsets o with groups + 1 entries (i64), rows [o[e], o[e + 1]) of a tensor belong to group
/// e. Rows outside [o[0], o[groups]) belong to no group. The offsets are in host memory, in device memory, or in both.
/// A backend may use either copy. If there is only a device copy, the backend may copy it to the host.
struct GroupOffsets {
  int64_t groups = 0;
  int64_t max_rows = 0;             // upper bound of each group's number of rows, for launches without host offsets
  std::span<const int64_t> host{};  // read before the kernel's call returns; empty: not available
  Tensor device{};                  // [groups + 1] i64; undefined: not available

  /// Returns GroupOffsets for `offsets` in pageable host memory. The caller may change or free `offsets` once the
  /// kernel's call has returned.
  static GroupOffsets on_host(std::span<const int64_t> offsets);
};

/// Throws std::logic_error unless `offsets` has groups + 1 entries from 0 to `rows` in ascending order (equal entries
/// allowed). The message begins with `op` in brackets. It names the wrong number of offsets, or the first wrong offset
/// and its legal range.
inline void require_offsets(std::string_view op, std::span<const int64_t> offsets, int64_t groups, int64_t rows) {
  base::require(static_cast<int64_t>(offsets.size()) == groups + 1, "[", op, "] the number of offsets is ",
                offsets.size(), "; expected ", groups + 1, ", one more than the number of experts");
  int64_t least = 0;
  for (size_t e = 0; e < offsets.size(); ++e) {
    base::require(least <= offsets[e] && offsets[e] <= rows, "[", op, "] offset ", e, " is ", offsets[e],
                  "; expected a whole number from ", least, " to ", rows);
    least = offsets[e];
  }
}

}  // namespace hexad::kernels
