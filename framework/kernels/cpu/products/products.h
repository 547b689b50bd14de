// Matrix products on the CPU: own loops for AVX2 and AVX-512 in f32 and f64; for bf16 by AMX or by AMD's AVX-512 BF16
// where the processor has it, else widened to f32 while it is packed (docs/adr/0002). Shapes and errors are those of
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

/// One line for `hexad env`: by which instructions products are computed here.
std::string products_description();

}  // namespace hexad::kernels::cpu
