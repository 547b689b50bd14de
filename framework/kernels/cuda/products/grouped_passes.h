// Implementations of a grouped product. The rows of each group are known only on the device, from `offsets` [E + 1]
// (i64).
#pragma once

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

/// Products on tensor cores. They require contiguous bf16 operands, widths that are nonzero multiples of 8, and
/// addresses that are multiples of 16 bytes. If `write` is `replace`, the caller must first zero the weight gradients
/// (f32 or bf16) of groups without rows.
namespace tensor_cores {
/// True if the program has one kernel for all groups on this generation of cards (CUTLASS's kernel, for Hopper). On
/// other generations, each group is a cuBLASLt product, for which the host needs the offsets of the rows. If the host
/// does not have the offsets, it copies them from the device. This copy is counted as "grouped products: offsets".
extern const bool in_one_kernel;
void forward(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& w, const Tensor& offsets, Write write);
void input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w, const Tensor& offsets,
                    Write write);
void weight_gradient(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x, const Tensor& offsets,
                     Write write);
void weight_gradient_bf16(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x, const Tensor& offsets,
                          Write write);

/// Function that computes GroupedSwigluKernels::forward in one launch. In addition to the conditions of namespace
/// tensor_cores, the width of `activated` must be a multiple of swiglu_columns. `weights` may be undefined.
using SwigluForward = void (*)(Stream& stream, const Tensor& gate_up, const Tensor& activated, const Tensor& x,
                               const Tensor& w, const Tensor& offsets, const Tensor& weights);
inline constexpr int64_t swiglu_columns = 128;
/// Implementation for the generation of cards for which the program was built; null if there is none.
extern const SwigluForward swiglu_forward;
/// Implementation for Hopper.
void swiglu_forward_in_one_kernel(Stream& stream, const Tensor& gate_up, const Tensor& activated, const Tensor& x,
                                  const Tensor& w, const Tensor& offsets, const Tensor& weights);

/// Function that computes GroupedSwigluKernels::backward in one launch, except dweights, under the conditions of
/// SwigluForward. `dots` [F / swiglu_columns, R] (f32) receives the addends of dweights; their sum over the first
/// dimension is dweights. If `dots` is undefined, neither dots nor `product` is computed.
using SwigluBackward = void (*)(Stream& stream, const GroupedSwigluGradients& gradients, const Tensor& dots,
                                const Tensor& dout, const Tensor& w, const Tensor& offsets, const Tensor& gate_up,
                                const Tensor& weights);
/// Implementation for the generation of cards for which the program was built; null if there is none.
extern const SwigluBackward swiglu_backward;
/// Implementation for Hopper.
void swiglu_backward_in_one_kernel(Stream& stream, const GroupedSwigluGradients& gradients, const Tensor& dots,
                                   const Tensor& dout, const Tensor& w, const Tensor& offsets, const Tensor& gate_up,
                                   const Tensor& weights);
}  // namespace tensor_cores

/// Products without tensor cores, for contiguous operands of any floating dtype, width and address.
namespace simple {
void forward(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& w, const Tensor& offsets, Write write);
void input_gradient(Stream& stream, const Tensor& dx, const Tensor& dy, const Tensor& w, const Tensor& offsets,
                    Write write);
void weight_gradient(Stream& stream, const Tensor& dw, const Tensor& dy, const Tensor& x, const Tensor& offsets,
                     Write write);
}  // namespace simple

}  // namespace hexad::kernels::cuda
