#include "framework/kernels/kernel_table.h"

#include <algorithm>

#include "framework/device/meta/meta_run.h"
#include "framework/kernels/meta/meta_table.h"
#include "framework/tensor/device_access.h"

namespace hexad::kernels {

using namespace base;

GroupOffsets GroupOffsets::on_host(std::span<const int64_t> offsets) {
  GroupOffsets out{.groups = static_cast<int64_t>(offsets.size()) - 1, .max_rows = 0, .host = offsets, .device = {}};
  for (size_t e = 0; e + 1 < offsets.size(); ++e) out.max_rows = std::max(out.max_rows, offsets[e + 1] - offsets[e]);
  return out;
}

bool has_rests(const AdamwSlice& slice) {
  if (slice.main.dtype() != Dtype::bf16) return false;
  const bool apart = slice.main.numel() == 0 || tensor::device_raw(slice.weights) != tensor::device_raw(slice.main);
  require(slice.weights.dtype() == Dtype::bf16,
          "[adamw] main is bf16 and therefore contains the rests of f32 main weights, but weights are ",
          slice.weights.dtype(), "; expected weights in bf16");
  require(apart,
          "[adamw] main is bf16 and therefore contains the rests of f32 main weights, but main and weights share "
          "memory; expected separate memory");
  return true;
}

bool has_bf16_moments(const AdamwSlice& slice) {
  const Dtype main = has_rests(slice) ? Dtype::f32 : slice.main.dtype(), m = slice.m.dtype(), v = slice.v.dtype();
  const bool rounded = m == Dtype::bf16 && v == m && main == Dtype::f32;
  require(rounded || (m == main && v == main), "[adamw] m is ", m, " and v is ", v, " for main weights in ", main,
          "; expected both in ", main, ", or both in bf16 with f32 main weights");
  return rounded;
}

const KernelTable& kernels(const Device& device) {
  switch (device.kind()) {
    case device::DeviceKind::cpu:
      return cpu_table;
    case device::DeviceKind::cuda:
      return cuda_kernels();
    case device::DeviceKind::emulated:
      return emulated_table;
    case device::DeviceKind::meta:
      return meta_kernels(device.context().meta()->stands_for());
  }
  fail_invariant(cat("[kernels] device kind ", static_cast<int>(device.kind()),
                     " has no kernel table; expected cpu, cuda, emulated or meta"));
}

}  // namespace hexad::kernels
