// Matrix products on the CPU. f32 and f64 use our own loops for AVX2 and AVX-512. bf16 uses AMX or AMD's AVX-512 BF16
// if the processor has it, else it is widened to f32 while it is packed (docs/adr/0002). Shapes and errors are those of
// MatmulKernels and GroupedMatmulKernels.
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

/// Returns one line for `hexad env`: the instructions that compute products on this machine.
std::string products_description();

}  // namespace hexad::kernels::cpu
