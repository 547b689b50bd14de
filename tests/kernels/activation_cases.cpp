#include <algorithm>

#include "tests/kernels/cases.h"

namespace hexad::tests {

using namespace kernels;
namespace {

using K = const KernelTable&;
constexpr std::array kinds{GeluKind::exact, GeluKind::tanh};
constexpr Layout strided = Layout::strided_rows;

// Returns the number of rotated pairs of a head: the width of the trial, but at most 264. This maximum is more than the
// number of threads of the CUDA kernel's blocks.
int64_t pairs_of_head(const Trial& r) { return std::min<int64_t>(r.size.width, 264); }

// Rotates the elements of each head except for the last `behind` elements.
void rotary(K k, Trial& r, Direction direction, int64_t behind = 0) {
  constexpr int64_t context = 19;
  const int64_t t = r.size.rows, pairs = pairs_of_head(r), c = 2 * pairs + behind;
  const Shape q{t, 5, c}, keys{t, 2, c};
  const Tensor cosine = r.normal({context, pairs}, r.acc()), sine = r.normal({context, pairs}, r.acc());
  const Tensor positions = r.integers({t}, Dtype::i32, context);
  const auto apply = [&](const QueriesAndKeys& out, const QueriesAndKeys& x) {
    k.rotary.apply(r.stream, out, x, positions, cosine, sine, direction);
  };
  apply({r.output(q), r.output(keys)}, {r.normal(q, strided), r.normal(keys, strided)});
  apply({r.output(q), {}}, {r.normal(q), {}});
  apply({{}, r.output(keys)}, {{}, r.normal(keys)});
  const QueriesAndKeys in_place{r.update(q, r.dtype), r.update(keys, r.dtype)};
  apply(in_place, in_place);
}

void swiglu_backward(K k, Trial& r) {
  const Shape shape{r.size.rows, r.size.width};
  for (Layout layout : {Layout::contiguous, Layout::strided_rows})
    for (bool weighted : {false, true})
      for (bool more : {false, true}) {
        const auto result = [&] { return r.output(shape, r.dtype, 1, layout); };
        const SwigluGradients gradients{result(), result(), more ? r.output(shape) : Tensor(),
                                        more ? r.output({shape[0]}, r.acc(), shape[1]) : Tensor()};
        const Tensor dout = r.normal(shape);
        k.swiglu.backward(
            r.stream, gradients, dout,
            {r.normal(shape, layout), r.normal(shape, layout), weighted ? r.normal({shape[0]}, r.acc()) : Tensor()});
      }
}

// Writes results to the memory of operands, in seven legal combinations.
void swiglu_backward_in_place(K k, Trial& r) {
  const Shape shape{r.size.rows, r.size.width};
  for (const Tensor& weights : {Tensor{}, r.normal({shape[0]}, r.acc())}) {
    const auto updated = [&] { return r.update(shape, r.dtype); };
    const auto dweights = [&] { return r.output({shape[0]}, r.acc(), shape[1]); };
    const Tensor gate = updated(), up = updated(), dout = updated();
    k.swiglu.backward(r.stream, {gate, up}, r.normal(shape), {gate, up, weights});
    const Tensor only_gate = updated(), only_up = updated(), only_dout = updated();
    k.swiglu.backward(r.stream, {only_gate, r.output(shape)}, r.normal(shape), {only_gate, r.normal(shape), weights});
    k.swiglu.backward(r.stream, {r.output(shape), only_up}, r.normal(shape), {r.normal(shape), only_up, weights});
    k.swiglu.backward(r.stream, {r.output(shape), r.output(shape), only_dout}, only_dout,
                      {r.normal(shape), r.normal(shape), weights});
    k.swiglu.backward(r.stream, {.dgate = dout, .dup = r.output(shape), .dweights = dweights()}, dout,
                      {r.normal(shape), r.normal(shape), weights});
    const Tensor gate2 = updated(), up2 = updated(), dout2 = updated();
    k.swiglu.backward(r.stream, {gate2, up2, dout2, dweights()}, dout2, {gate2, up2, weights});
    const Tensor up3 = updated(), dout3 = updated();
    k.swiglu.backward(r.stream, {dout3, up3, r.output(shape)}, dout3, {r.normal(shape), up3, weights});
  }
}

// Computes clamped SwiGLU with the limits 0.75 and 100. The limit 0.75 clamps about a quarter of the gates and half of
// the ups.
void clamped_swiglu_forward(K k, Trial& r) {
  const auto [t, f] = r.size;
  for (const Tensor& weights : {Tensor{}, r.normal({t}, r.acc())}) {
    k.clamped_swiglu.forward(r.stream, r.output({t, f}), r.normal({t, f}, strided), r.normal({t, f}, strided), weights,
                             0.75);
    k.clamped_swiglu.forward(r.stream, r.output({t, f}), r.normal({t, f}), r.normal({t, f}), weights, 100);
  }
}

void clamped_swiglu_backward(K k, Trial& r) {
  const Shape shape{r.size.rows, r.size.width};
  for (const bool weighted : {false, true})
    for (const double limit : {0.75, 100.0}) {
      const SwigluGradients gradients{.dgate = r.output(shape, 3),
                                      .dup = r.output(shape),
                                      .product = weighted ? r.output(shape) : Tensor(),
                                      .dweights = weighted ? r.output({shape[0]}, r.acc(), shape[1]) : Tensor()};
      r.expect_zeros();  // in a small tensor, most elements may be beyond the limit
      k.clamped_swiglu.backward(r.stream, gradients, r.normal(shape),
                                {r.normal(shape), r.normal(shape), weighted ? r.normal({shape[0]}, r.acc()) : Tensor()},
                                limit);
    }
  const Tensor gate = r.update(shape, r.dtype, 3), up = r.update(shape, r.dtype), dout = r.update(shape, r.dtype);
  k.clamped_swiglu.backward(r.stream, {gate, up, dout, r.output({shape[0]}, r.acc(), shape[1])}, dout, {gate, up},
                            0.75);
}

// Writes one result to the memory of an operand, in the four legal combinations.
void clamped_swiglu_backward_in_place(K k, Trial& r) {
  const Shape shape{r.size.rows, r.size.width};
  r.expect_zeros();  // a tensor's only element may be beyond the limit
  for (const Tensor& weights : {Tensor{}, r.normal({shape[0]}, r.acc())}) {
    const auto backward = [&](const SwigluGradients& gradients, const Tensor& dout, const Tensor& gate,
                              const Tensor& up) {
      k.clamped_swiglu.backward(r.stream, gradients, dout, {gate, up, weights}, 0.75);
    };
    const Tensor gate = r.update(shape, r.dtype, 3), up = r.update(shape, r.dtype), dout = r.update(shape, r.dtype);
    backward({gate, r.output(shape)}, r.normal(shape), gate, r.normal(shape));
    backward({r.output(shape, 3), up}, r.normal(shape), r.normal(shape), up);
    backward({r.output(shape, 3), r.output(shape), dout}, dout, r.normal(shape), r.normal(shape));
    const Tensor dout_of_gate = r.update(shape, r.dtype, 3);
    backward({dout_of_gate, r.output(shape)}, dout_of_gate, r.normal(shape), r.normal(shape));
  }
}

}  // namespace

std::vector<Case> activation_cases() {
  return {
      {"rotary_forward", entry(&KernelTable::rotary, &RotaryKernels::apply),
       [](K k, Trial& r) { rotary(k, r, Direction::forward); }},
      {"rotary_backward", entry(&KernelTable::rotary, &RotaryKernels::apply),
       [](K k, Trial& r) { rotary(k, r, Direction::backward); }},
      {"rotary_of_a_part", entry(&KernelTable::rotary, &RotaryKernels::apply),
       [](K k, Trial& r) {
         for (const int64_t behind : {int64_t{1}, pairs_of_head(r), 2 * pairs_of_head(r)})
           rotary(k, r, Direction::forward, behind);
         rotary(k, r, Direction::backward, 1);
       }},
      {"swiglu_forward", entry(&KernelTable::swiglu, &SwigluKernels::forward),
       [](K k, Trial& r) {
         const auto [t, f] = r.size;
         for (const Tensor& weights : {Tensor{}, r.normal({t}, r.acc())}) {
           k.swiglu.forward(r.stream, r.output({t, f}), r.normal({t, f}, strided), r.normal({t, f}, strided), weights);
           k.swiglu.forward(r.stream, r.output({t, f}), r.normal({t, f}), r.normal({t, f}), weights);
         }
       }},
      {"swiglu_backward", entry(&KernelTable::swiglu, &SwigluKernels::backward), swiglu_backward},
      {"swiglu_backward_in_place", entry(&KernelTable::swiglu, &SwigluKernels::backward), swiglu_backward_in_place},
      {"clamped_swiglu_forward", entry(&KernelTable::clamped_swiglu, &ClampedSwigluKernels::forward),
       clamped_swiglu_forward},
      {"clamped_swiglu_backward", entry(&KernelTable::clamped_swiglu, &ClampedSwigluKernels::backward),
       clamped_swiglu_backward},
      {"clamped_swiglu_backward_in_place", entry(&KernelTable::clamped_swiglu, &ClampedSwigluKernels::backward),
       clamped_swiglu_backward_in_place},
      {"row_gate_forward", entry(&KernelTable::row_gate, &RowGateKernels::forward),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         k.row_gate.forward(r.stream, r.output({t, d}), r.normal({t, d}), r.normal({t}, r.acc()));
         const Tensor in_place = r.update({t, d}, r.dtype);
         k.row_gate.forward(r.stream, in_place, in_place, r.normal({t}, r.acc()));
       }},
      {"row_gate_backward", entry(&KernelTable::row_gate, &RowGateKernels::backward),
       [](K k, Trial& r) {
         const auto [t, d] = r.size;
         k.row_gate.backward(r.stream, r.output({t, d}), r.output({t}, r.acc(), d), r.normal({t, d}), r.normal({t, d}),
                             r.normal({t}, r.acc()));
       }},
      {"gelu_forward", entry(&KernelTable::gelu, &GeluKernels::forward),
       [](K k, Trial& r) {
         const auto [t, f] = r.size;
         for (GeluKind kind : kinds) k.gelu.forward(r.stream, r.output({t, f}), r.normal({t, f}), kind);
       }},
      {"gelu_backward", entry(&KernelTable::gelu, &GeluKernels::backward),
       [](K k, Trial& r) {
         const auto [t, f] = r.size;
         for (GeluKind kind : kinds) {
           // The derivative is a sum of terms that may cancel.
           k.gelu.backward(r.stream, r.output({t, f}, 3), r.normal({t, f}), r.normal({t, f}), kind);
           const Tensor x = r.update({t, f}, r.dtype, 3), dout = r.update({t, f}, r.dtype, 3);
           k.gelu.backward(r.stream, x, r.normal({t, f}), x, kind);
           k.gelu.backward(r.stream, dout, dout, r.normal({t, f}), kind);
         }
       }},
  };
}

}  // namespace hexad::tests
