#include "tests/support/lab.h"

#include "framework/base/philox.h"
#include "framework/tensor/host_read.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
using namespace tensor;
namespace {

device::DeviceContext::Options poisoned(device::DeviceContext::Options options) {
  options.poison = true;
  return on_test_device(std::move(options));
}

template <class F>
Tensor filled(Shape shape, Dtype dtype, Device device, F&& next) {
  const Tensor t = Tensor::empty(shape, dtype, device.host());
  with_dtype<float, bf16, double>("lab", dtype, [&]<class T>() {
    for (int64_t i = 0; i < t.numel(); ++i) t.data<T>()[i] = T(static_cast<accumulator_t<T>>(next()));
  });
  return on_device(t, device, Category::temporary);
}

}  // namespace

Lab::Lab(uint64_t seed, device::DeviceContext::Options options)
    : context(poisoned(std::move(options))), seed_(seed), trace_(__FILE__, __LINE__, cat("seed ", seed)) {}

Tensor Lab::randn(Shape shape, Dtype dtype) {
  const Philox random(seed_, Purpose::synthetic);
  return filled(shape, dtype, context, [&] { return random.normal(drawn_++); });
}

Tensor Lab::integers(Shape shape, int64_t low, int64_t high, Dtype dtype) {
  const Philox random(seed_, Purpose::synthetic);
  return filled(shape, dtype, context, [&] {
    return static_cast<double>(low + static_cast<int64_t>(random.below(drawn_++, static_cast<uint64_t>(high - low))));
  });
}

Parameter& Lab::parameter(Shape shape, Dtype dtype) {
  Parameter& p = parameters.add({.name = cat("p", parameters.size()),
                                 .global_shape = shape,
                                 .placement = {},
                                 .dtype = dtype,
                                 .init = {Init::Kind::normal, 1.0}});
  p.initialize(seed_);
  return p;
}

Tensor copy_of(const Tensor& t) {
  require(t.contiguous(), "[lab] copy_of() needs a contiguous tensor; this tensor is strided: ", t.shape());
  Tensor copy = Tensor::like(t);
  copy.copy_from(t, t.device().context().compute());
  return copy;
}

}  // namespace hexad::tests
