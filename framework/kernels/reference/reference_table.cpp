#include "framework/kernels/reference/families.h"

namespace hexad::kernels {

const KernelTable reference_table{
    .matmul = reference::matmul,
    .grouped_matmul = reference::grouped_matmul,
    .bias = reference::bias,
    .rms_norm = reference::rms_norm,
    .layer_norm = reference::layer_norm,
    .rotary = reference::rotary,
    .attention = reference::attention,
    .swiglu = reference::swiglu,
    .gelu = reference::gelu,
    .router = reference::router,
    .router_loss = reference::router_loss,
    .capacity = reference::capacity,
    .slots = reference::slots,
    .index = reference::indices,
    .permute = reference::permute,
    .wire = reference::wire,
    .embedding = reference::embedding,
    .cross_entropy = reference::cross_entropy,
    .split_softmax = reference::split_softmax,
    .pointwise = reference::pointwise,
    .optimizer = reference::optimizer,
};

}  // namespace hexad::kernels
