#include "framework/kernels/cpu/attention.h"
#include "framework/kernels/cpu/families.h"
#include "framework/kernels/cpu/products/products.h"

namespace hexad::kernels::cpu {

KernelTable make_table(const AttentionKernels& attention) {
  return {
      .matmul = {.forward = cpu::matmul_forward,
                 .input_gradient = cpu::matmul_input_gradient,
                 .weight_gradient = cpu::matmul_weight_gradient},
      .grouped_matmul = {.forward = cpu::grouped_matmul_forward,
                         .input_gradient = cpu::grouped_matmul_input_gradient,
                         .weight_gradient = cpu::grouped_matmul_weight_gradient},
      .bias = cpu::bias,
      .rms_norm = cpu::rms_norm,
      .layer_norm = cpu::layer_norm,
      .rotary = cpu::rotary,
      .attention = attention,
      .swiglu = cpu::swiglu,
      .gelu = cpu::gelu,
      .router = cpu::router,
      .router_loss = cpu::router_loss,
      .capacity = cpu::capacity,
      .slots = cpu::slots,
      .index = cpu::indices,
      .permute = cpu::permute,
      .wire = cpu::wire,
      .embedding = cpu::embedding,
      .cross_entropy = cpu::cross_entropy,
      .split_softmax = cpu::split_softmax,
      .pointwise = cpu::pointwise,
      .optimizer = cpu::optimizer,
  };
}

}  // namespace hexad::kernels::cpu
