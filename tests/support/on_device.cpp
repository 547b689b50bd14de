#include "tests/support/on_device.h"

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "framework/base/enum_names.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::tests {

using namespace base;

using namespace tensor;

device::DeviceKind test_device() {
  const char* wanted = std::getenv("HEXAD_TEST_DEVICE");
  if (!wanted) return device::DeviceKind::cpu;
  if (const auto kind = enum_named<device::DeviceKind>(wanted)) return *kind;
  fail_invariant(cat("[test] HEXAD_TEST_DEVICE is '", wanted, "', expected cpu, emulated or cuda"));
}

device::ContextOptions on_test_device(device::ContextOptions options) {
  options.kind = test_device();
  if (options.kind != device::DeviceKind::cpu) options.worker_lanes = false;  // the lanes of a device are its queues
  return options;
}

Tensor to_host(const Tensor& t) {
  // These tensors are returned without use of their context. An undefined tensor has no context, and the context of a
  // contiguous host tensor may no longer exist.
  if (!t.defined() || (t.storage()->on_host() && t.contiguous())) return t;
  if (!t.storage()->on_host()) {
    Tensor dense = t;
    if (!t.contiguous()) {
      dense = Tensor::like(t);
      kernels::kernels(t.device()).pointwise.copy(t.device().context().compute(), dense, t);
    }
    const Tensor out = Tensor::empty(t.shape(), t.dtype(), t.device().host());
    dense.download(out.raw());
    return out;
  }
  const Tensor out = Tensor::empty(t.shape(), t.dtype(), t.device());
  const auto size = size_of(t.dtype());
  for (int64_t i = 0; i < t.numel(); ++i) {
    int64_t rest = i, from = 0;
    for (int d = t.rank() - 1; d >= 0; --d) {
      from += rest % t.dim(d) * t.strides()[d];
      rest /= t.dim(d);
    }
    std::memcpy(static_cast<std::byte*>(out.raw()) + i * size, static_cast<const std::byte*>(t.raw()) + from * size,
                size);
  }
  return out;
}

void fill_bytes(const Tensor& t, uint8_t byte) {
  Stream& stream = t.device().context().compute();
  t.fill_bytes(byte, stream);
  stream.synchronize();
}

}  // namespace hexad::tests
