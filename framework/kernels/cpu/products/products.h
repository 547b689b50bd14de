// Matrix products on the CPU. f32 and f64 products use loops of this project for AVX2 and AVX-512. Products of two bf16
// operands use AMX (machine_has_amx()) or AVX-512 BF16 (machine_prefers_dot()). In all other products, bf16 is widened
// to f32 when it is packed (docs/adr/0002). MatmulKernels and GroupedMatmulKernels describe the operands.
#pragma once

#include <string>

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {

void matmul_forward(Stream&, const Tensor& out, const Tensor& x, const Tensor& w, Write write);
void matmul_input_gradient(Stream&, const Tensor& dx, const Tensor& dy, const Tensor& w, Write write);
void matmul_weight_gradient(Stream&, const Tensor& dw, const Tensor& dy, const Tensor& x, Write write);

void grouped_matmul_forward(Stream&, const Tensor& out, const Tensor& x, const Tensor& w, const GroupOffsets& offsets,
                            Write write);
void grouped_matmul_input_gradient(Stream&, const Tensor& dx, const Tensor& dy, const Tensor& w,
                                   const GroupOffsets& offsets, Write write);
void grouped_matmul_weight_gradient(Stream&, const Tensor& dw, const Tensor& dy, const Tensor& x,
                                    const GroupOffsets& offsets, Write write);

/// Returns a line for `hexad env` that names the instructions used for products on this machine.
std::string products_description();

}  // namespace hexad::kernels::cpu
