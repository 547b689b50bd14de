#include "tests/kernels/cases.h"

namespace hexad::tests {
namespace {

using K = const KernelTable&;
constexpr std::array kinds{GeluKind::exact, GeluKind::tanh};

void rotary(K k, Trial& r, Direction direction) {
  constexpr int64_t heads = 3, context = 19;
  const int64_t t = r.size.rows, c = 2 * r.size.width;
  const Tensor cosine = r.normal({context, c / 2}, r.acc()), sine = r.normal({context, c / 2}, r.acc());
  const Tensor positions = r.integers({t}, Dtype::i32, context);
  const Tensor x = r.normal({t, heads, c}, Layout::strided_rows);
  k.rotary.apply(r.stream, r.output({t, heads, c}), x, positions, cosine, sine, direction);
  const Tensor in_place = r.update({t, heads, c}, r.dtype);
  k.rotary.apply(r.stream, in_place, in_place, positions, cosine, sine, direction);
}

}  // namespace

std::vector<Case> activation_cases() {
  return {
      {"rotary_forward", entry(&KernelTable::rotary, &RotaryKernels::apply),
       [](K k, Trial& r) { rotary(k, r, Direction::forward); }},
      {"rotary_backward", entry(&KernelTable::rotary, &RotaryKernels::apply),
       [](K k, Trial& r) { rotary(k, r, Direction::backward); }},
      {"swiglu_forward", entry(&KernelTable::swiglu, &SwigluKernels::forward),
       [](K k, Trial& r) {
         const auto [t, f] = r.size;
         k.swiglu.forward(r.stream, r.output({t, f}), r.normal({t, f}, Layout::strided_rows),
                          r.normal({t, f}, Layout::strided_rows));
       }},
      {"swiglu_backward", entry(&KernelTable::swiglu, &SwigluKernels::backward),
       [](K k, Trial& r) {
         const auto [t, f] = r.size;
         constexpr Layout strided = Layout::strided_rows;
         k.swiglu.backward(r.stream, r.output({t, f}, r.dtype, 1, strided), r.output({t, f}, r.dtype, 1, strided),
                           r.normal({t, f}), r.normal({t, f}, strided), r.normal({t, f}, strided));
       }},
      {"gelu_forward", entry(&KernelTable::gelu, &GeluKernels::forward),
       [](K k, Trial& r) {
         const auto [t, f] = r.size;
         for (GeluKind kind : kinds) k.gelu.forward(r.stream, r.output({t, f}), r.normal({t, f}), kind);
       }},
      {"gelu_backward", entry(&KernelTable::gelu, &GeluKernels::backward),
       [](K k, Trial& r) {
         const auto [t, f] = r.size;
         for (GeluKind kind : kinds)
           k.gelu.backward(r.stream, r.output({t, f}, 3), r.normal({t, f}), r.normal({t, f}), kind);  // 3 terms cancel
       }},
  };
}

}  // namespace hexad::tests
