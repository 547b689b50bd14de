#include "framework/kernels/gate_and_up.h"
#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

void forward(Stream& stream, const Tensor& gate_up, const Tensor& activated, const Tensor& x, const Tensor& w,
             const GroupOffsets& offsets, const Tensor& weights) {
  GroupedMatmulKernels::of_reference.forward(stream, gate_up, x, w, offsets, Write::replace);
  stream.run([=, groups = StoredOffsets(offsets)] {
    const std::vector<int64_t> o = groups.offsets();
    const Array GU = load(gate_up), W = weights.defined() ? load(weights) : Array{};
    Array Y = load(activated);
    for (int64_t r = o.front(); r < o.back(); ++r)
      for (int64_t f = 0; f < Y.columns; ++f) {
        const double gate = GU(r, f), up = GU(r, Y.columns + f);
        Y(r, f) = gate / (1 + std::exp(-gate)) * up * (weights.defined() ? W[r] : 1);
      }
    store(activated, Y);
  });
}

// `product` first contains the gradient of the activation.
void backward(Stream& stream, const GroupedSwigluGradients& gradients, const Tensor& dout, const Tensor& w,
              const GroupOffsets& offsets, const Tensor& gate_up, const Tensor& weights) {
  const auto& [dgate_up, product, dweights] = gradients;
  GroupedMatmulKernels::of_reference.input_gradient(stream, product, dout, w, offsets, Write::replace);
  const auto [dgate, dup] = gate_and_up(dgate_up);
  const auto [gate, up] = gate_and_up(gate_up);
  SwigluKernels::of_reference.backward(stream, {.dgate = dgate, .dup = dup, .product = product, .dweights = dweights},
                                       product, {gate, up, weights});
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const GroupedSwigluKernels GroupedSwigluKernels::of_reference{.forward = reference::forward,
                                                              .backward = reference::backward};

}  // namespace hexad::kernels
