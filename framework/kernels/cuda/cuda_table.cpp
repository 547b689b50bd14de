#include "framework/kernels/cuda/families.h"
#include "framework/kernels/cuda/touching.h"
#include "framework/kernels/wrapped_table.h"

namespace hexad::kernels {

const KernelTable& cuda::launches() {
  static const KernelTable table{
      .matmul = cuda::matmul,
      .grouped_matmul = cuda::grouped_matmul,
      .bias = cuda::bias,
      .rms_norm = cuda::rms_norm,
      .layer_norm = cuda::layer_norm,
      .rotary = cuda::rotary,
      .attention = cuda::attention,
      .swiglu = cuda::swiglu,
      .gelu = cuda::gelu,
      .router = cuda::router,
      .router_loss = cuda::router_loss,
      .capacity = cuda::capacity,
      .slots = cuda::slots,
      .index = cuda::indices,
      .permute = cuda::permute,
      .wire = cuda::wire,
      .embedding = cuda::embedding,
      .cross_entropy = cuda::cross_entropy,
      .split_softmax = cuda::split_softmax,
      .pointwise = cuda::pointwise,
      .optimizer = cuda::optimizer,
  };
  return table;
}

const KernelTable& cuda_kernels() {
  static const KernelTable table = wrapped_table<cuda::Touching>();
  return table;
}

}  // namespace hexad::kernels
