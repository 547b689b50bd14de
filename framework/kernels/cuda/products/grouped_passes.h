// Implementations of a grouped product on the device. Only the device has the rows of each group: `offsets` is [E + 1]
// i64.
#pragma once

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

/// Products on tensor cores: contiguous bf16, widths that are nonzero multiples of 8, addresses that are multiples of
/// 16 bytes. If `write` replaces, the caller must zero the weight gradients (f32 or bf16) of groups without rows before
/// the call.
namespace tensor_cores {
/// True if this generation of cards has one kernel for all groups (CUTLASS's, for Hopper). On other generations each
/// group is a cuBLASLt product, whose rows the host must know. A host without these rows reads them from the device,
/// counted as "grouped products: offsets".
extern const bool in_one_kernel;
void forward(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& w, const Tensor& offsets, Write write);
void input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w, const Tensor& offsets,
                    Write write);
void weight_gradient(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x, const Tensor& offsets,
                     Write write);
void weight_gradient_bf16(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x, const Tensor& offsets,
                          Write write);
}  // namespace tensor_cores

/// Products that tensor cores cannot take: contiguous f32 and f64, and odd widths.
namespace simple {
void forward(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& w, const Tensor& offsets, Write write);
void input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w, const Tensor& offsets,
                    Write write);
void weight_gradient(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x, const Tensor& offsets,
                     Write write);
}  // namespace simple

}  // namespace hexad::kernels::cuda
