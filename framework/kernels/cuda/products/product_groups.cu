#include "framework/kernels/cuda/products/product_groups.h"

#include "framework/kernels/cuda/launch.cuh"

namespace hexad::kernels::cuda {

using namespace base;
using namespace tensor;
namespace {

constexpr int threads = 256;
constexpr int64_t blocks_per_group = 16;

__global__ void zero_kernel(uint4* out, const int64_t* offsets, int64_t wides_per_group) {
  const int64_t group = blockIdx.x / blocks_per_group, part = blockIdx.x % blocks_per_group;
  if (offsets[group] != offsets[group + 1]) return;
  uint4* slice = out + group * wides_per_group;
  for (int64_t i = part * threads + threadIdx.x; i < wides_per_group; i += blocks_per_group * threads)
    slice[i] = uint4{0, 0, 0, 0};
}

}  // namespace

void check_offsets(std::string_view op, const GroupOffsets& offsets, int64_t groups, int64_t rows) {
  require(offsets.groups == groups, "[", op, "] the number of groups of the offsets is ", offsets.groups, "; expected ",
          groups, ", the number of experts");
  require(offsets.device.defined() || !offsets.host.empty(), "[", op, "] neither host nor device has the offsets of ",
          groups, " groups; expected offsets on the host or on the device");
  if (offsets.device.defined()) require_flat(op, "offsets", offsets.device, groups + 1);
  if (!offsets.host.empty()) require_offsets(op, offsets.host, groups, rows);
}

Tensor offsets_on_device(Stream& stream, const GroupOffsets& offsets, Device device) {
  if (offsets.device.defined()) return offsets.device;
  const Tensor copy = Tensor::empty({offsets.groups + 1}, Dtype::i64, device);
  device.context().copy(stream, device_raw(copy), offsets.host.data(), copy.bytes());
  return copy;
}

void zero_empty_groups(Stream& stream, const Tensor& dw, const Tensor& offsets) {
  const int64_t groups = dw.dim(0);
  if (dw.numel() == 0) return;
  const int64_t bytes = dw.bytes() / groups;
  require(bytes % 16 == 0 && reinterpret_cast<uintptr_t>(device_raw(dw)) % 16 == 0, "[zero empty groups] dw begins at ",
          device_raw(dw), " and has slices of ", bytes, " bytes; expected both to be multiples of 16 bytes");
  launch("zero empty groups", zero_kernel, groups * blocks_per_group, threads, stream,
         static_cast<uint4*>(device_raw(dw)), device_data<int64_t>(offsets), bytes / 16);
}

}  // namespace hexad::kernels::cuda
