#include "optim/rests.h"

#include <bit>
#include <type_traits>

#include "framework/base/main_weight.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/tensor/host_read.h"

namespace hexad::optim {

using device::Category;
using namespace base;
using namespace tensor;
namespace {

constexpr int64_t least_elements = 4096;  // minimum number of elements per thread

Tensor on_host(const Tensor& t) { return copy_to_host("rests", t, t.device().context().compute()); }

uint32_t bits_of(float v) { return std::bit_cast<uint32_t>(v); }
uint16_t bits_of(bf16 v) { return v.bits; }
void set_bits(float& v, uint32_t bits) { v = std::bit_cast<float>(bits); }
void set_bits(bf16& v, uint16_t bits) { v.bits = bits; }

// Calls f(i, moment) for each element i. `moment` is a reference to the moment in host memory.
template <class F>
void for_each(const Tensor& moments, const F& f) {
  with_dtype<float, bf16>("rests", moments.dtype(), [&]<class M>() {
    M* at = moments.data<M>();
    kernels::cpu::parallel_for(moments.numel(), least_elements, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) f(i, at[i]);
    });
  });
}

}  // namespace

Tensor main_weights(const Rests& stored) {
  const Tensor weights = on_host(stored.weights), rests = on_host(stored.rests), moments = on_host(stored.moments);
  const Tensor main = Tensor::empty(rests.shape(), Dtype::f32, rests.device(), Category::temporary);
  for_each(moments,
           [w = weights.data<bf16>(), r = rests.data<bf16>(), out = main.data<float>()](int64_t i, const auto& moment) {
             out[i] = main_of(w[i].bits, r[i].bits, has_mark(bits_of(moment)));
           });
  return main;
}

Tensor unmarked_moments(const Rests& stored) {
  const Tensor moments = on_host(stored.moments);
  const Tensor out = Tensor::like(moments, Category::temporary);
  for_each(moments, [&out](int64_t i, const auto& moment) {
    using M = std::remove_cvref_t<decltype(moment)>;
    set_bits(out.data<M>()[i], with_mark(bits_of(moment), false));
  });
  return out;
}

void store_main_weights(const Tensor& main, const Rests& stored) {
  const Tensor weights = on_host(stored.weights), rests = on_host(stored.rests), moments = on_host(stored.moments);
  for_each(moments,
           [w = weights.data<bf16>(), r = rests.data<bf16>(), in = main.data<float>()](int64_t i, auto& moment) {
             w[i] = bf16(in[i]);
             r[i].bits = rest_of(in[i]);
             set_bits(moment, with_mark(bits_of(moment), marked(in[i])));
           });
  upload_from(weights, stored.weights);
  upload_from(rests, stored.rests);
  upload_from(moments, stored.moments);
}

}  // namespace hexad::optim
