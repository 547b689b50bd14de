#include "framework/kernels/cpu/families.h"
#include "framework/kernels/reference/families.h"

namespace hexad::kernels {

const KernelTable cpu_table{
    .matmul = reference::matmul,
    .grouped_matmul = reference::grouped_matmul,
    .bias = cpu::bias,
    .rms_norm = cpu::rms_norm,
    .layer_norm = cpu::layer_norm,
    .rotary = cpu::rotary,
    .attention = reference::attention,
    .swiglu = cpu::swiglu,
    .gelu = cpu::gelu,
    .router = cpu::router,
    .permute = cpu::permute,
    .embedding = cpu::embedding,
    .cross_entropy = cpu::cross_entropy,
    .pointwise = cpu::pointwise,
    .optimizer = cpu::optimizer,
};

}  // namespace hexad::kernels
