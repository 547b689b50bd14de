#include "framework/kernels/gate_and_up.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {
namespace {

// Calls the kernel of the product, then the kernel of the activation.
void forward(Stream& stream, const Tensor& gate_up, const Tensor& activated, const Tensor& x, const Tensor& w,
             const GroupOffsets& offsets, const Tensor& weights) {
  GroupedMatmulKernels::of_cpu.forward(stream, gate_up, x, w, offsets, Write::replace);
  const auto [gate, up] = gate_and_up(gate_up);
  SwigluKernels::of_cpu.forward(stream, activated, gate, up, weights);
}

// Calls the kernel of the product, then the kernel of the activation. `product` first contains the gradient of the
// activation.
void backward(Stream& stream, const GroupedSwigluGradients& gradients, const Tensor& dout, const Tensor& w,
              const GroupOffsets& offsets, const Tensor& gate_up, const Tensor& weights) {
  const auto& [dgate_up, product, dweights] = gradients;
  GroupedMatmulKernels::of_cpu.input_gradient(stream, product, dout, w, offsets, Write::replace);
  const auto [dgate, dup] = gate_and_up(dgate_up);
  const auto [gate, up] = gate_and_up(gate_up);
  SwigluKernels::of_cpu.backward(
      stream, {.dgate = dgate, .dup = dup, .product = dweights.defined() ? product : Tensor{}, .dweights = dweights},
      product, {gate, up, weights});
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const GroupedSwigluKernels GroupedSwigluKernels::of_cpu{.forward = cpu::forward, .backward = cpu::backward};

}  // namespace hexad::kernels
