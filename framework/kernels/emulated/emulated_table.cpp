#include "framework/device/emulated/heap.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/emulated/queued.h"
#include "framework/kernels/entries.h"
#include "framework/tensor/device_access.h"

namespace hexad::kernels {

using namespace base;
using namespace tensor;
namespace emulated {

Tensor Launch::hold(const Tensor& t) {
  if (!t.defined()) return t;
  std::byte* begin = DeviceAccess::begin(*t.storage());
  if (!begin) return t.borrowed_at(nullptr, t.device().host());  // the tensor has no elements
  const auto& memory = stream_.heap().memory();
  require(memory.contains(begin), "[emulated device] an operand of a kernel, ", t.dtype(), " ", t.shape(),
          ", is in memory of device ", device::name_of(t.device().kind()),
          t.storage()->on_host() ? " that the host can access" : "", "; expected memory of this emulated device");
  blocks_.push_back(begin);
  return t.borrowed_at(memory.device(begin), t.device().host());
}

std::vector<Tensor> Launch::hold(std::span<const Tensor> tensors) {
  std::vector<Tensor> held;
  for (const Tensor& t : tensors) held.push_back(hold(t));
  return held;
}

std::vector<AdamwSlice> Launch::hold(std::span<const AdamwSlice> slices) {
  std::vector<AdamwSlice> held;
  for (const AdamwSlice& s : slices)
    held.push_back({hold(s.main), hold(s.m), hold(s.v), hold(s.weights), hold(s.gradient), s.weight_decay, s.place,
                    s.rounding_key});
  return held;
}

Launch::HeldOffsets Launch::hold(const GroupOffsets& o) {
  return {{o.host.begin(), o.host.end()},
          {.groups = o.groups, .max_rows = o.max_rows, .host = {}, .device = hold(o.device)}};
}

void Launch::run(std::function<void(Stream&)> kernel) {
  stream_.launch(blocks_, [kernel = std::move(kernel), threads = cpu::thread_count()] {
    cpu::set_thread_count(threads);
    device::InlineStream here;
    kernel(here);
  });
}

}  // namespace emulated

constinit const KernelTable emulated_table = wrapped_table<emulated::Queued>();

}  // namespace hexad::kernels
