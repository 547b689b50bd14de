// Matrix products on the CPU: own loops for AVX2 and AVX-512 in f32 and f64, also for bf16: by AMX where
// the processor has it, through oneDNN on AMD's, else widened to f32 while it is packed (docs/adr/0002). Shapes and
// errors are those of MatmulKernels and GroupedMatmulKernels.
#pragma once

#include <string>

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {

void matmul_forward(Stream&, const Tensor& out, const Tensor& x, const Weight& w, Write write);
void matmul_input_gradient(Stream&, const Tensor& dx, const Tensor& dy, const Weight& w, Write write);
void matmul_weight_gradient(Stream&, const Tensor& dw, const Tensor& dy, const Tensor& x, Write write);

void grouped_matmul_forward(Stream&, const Tensor& out, const Tensor& x, const Weight& w, const GroupOffsets& offsets,
                            Write write);
void grouped_matmul_input_gradient(Stream&, const Tensor& dx, const Tensor& dy, const Weight& w,
                                   const GroupOffsets& offsets, Write write);
void grouped_matmul_weight_gradient(Stream&, const Tensor& dw, const Tensor& dy, const Tensor& x,
                                    const GroupOffsets& offsets, Write write);

/// False when bf16 products are computed by converting blocks to f32.
bool bf16_products_are_native();
/// One line for `hexad env`: the library, its version and the instruction set that it uses here.
std::string products_description();

}  // namespace hexad::kernels::cpu
