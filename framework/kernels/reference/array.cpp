#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {

using namespace base;
namespace {

// Returns the offset of row `r` from the first element, in elements.
int64_t row_offset(const Tensor& t, int64_t r) {
  int64_t offset = 0;
  for (int d = t.rank() - 2; d >= 0; --d) {
    offset += r % t.dim(d) * t.strides()[d];
    r /= t.dim(d);
  }
  return offset;
}

// Calls f(i, offset) for each element in row-major order. i is the index of the element, and `offset` is its distance
// from the first element, in elements.
template <class F>
void for_each_element(const Tensor& t, F f) {
  const int64_t columns = t.rank() ? t.dim(-1) : 1, step = t.rank() ? t.strides()[t.rank() - 1] : 1;
  for (int64_t i = 0, r = 0; i < t.numel(); ++r)
    for (int64_t c = 0, offset = row_offset(t, r); c < columns; ++c, offset += step) f(i++, offset);
}

template <class F>
void with_any_dtype(const Tensor& t, F&& f) {
  with_dtype<float, bf16, double, int32_t, int64_t, uint8_t>("reference", t.dtype(), f);
}

}  // namespace

HostMemory::HostMemory(const Tensor& t) : tensor_(t) {
  if (t.device().on_host() || t.numel() == 0) return;
  int64_t last = 0;
  for (int d = 0; d < t.rank(); ++d) last += (t.dim(d) - 1) * t.strides()[d];
  copy_.resize((last + 1) * size_of(t.dtype()));
  move(copy_.data(), device_raw(t));
}

void HostMemory::put_back() {
  if (!copy_.empty()) move(device_raw(tensor_), copy_.data());
}

void HostMemory::move(void* to, const void* from) {
  device::DeviceContext& context = tensor_.device().context();
  context.copy(context.compute(), to, from, static_cast<int64_t>(copy_.size()));
  context.compute().synchronize();
}

Array zeros(const Tensor& t) {
  Array a{1, t.rank() ? t.dim(-1) : 1, {}};
  for (int d = 0; d + 1 < t.rank(); ++d) a.rows *= t.dim(d);
  a.values.resize(a.size());
  return a;
}

Array load(const Tensor& t) {
  Array a = zeros(t);
  HostMemory memory(t);
  with_any_dtype(t, [&]<class T>() {
    const T* data = memory.data<T>();
    for_each_element(t, [&](int64_t i, int64_t offset) { a[i] = static_cast<double>(data[offset]); });
  });
  return a;
}

Array load_or_zeros(const Tensor& t, const Tensor& like) { return t.defined() ? load(t) : zeros(like); }

void store(const Tensor& t, const Array& a) {
  require(t.numel() == a.size(), "[reference] the number of results for a tensor of shape ", t.shape(), " is ",
          a.size(), "; expected ", t.numel(), ", one for each element");
  HostMemory memory(t);
  with_any_dtype(t, [&]<class T>() {
    T* data = memory.data<T>();
    for_each_element(t, [&](int64_t i, int64_t offset) {
      if constexpr (std::is_same_v<T, bf16>)
        data[offset] = bf16(static_cast<float>(a[i]));
      else
        data[offset] = static_cast<T>(a[i]);
    });
  });
  memory.put_back();
}

std::vector<int64_t> StoredOffsets::offsets() const {
  if (!host_.empty()) return host_;
  const Array o = load(device_);
  std::vector<int64_t> offsets;
  for (int64_t e = 0; e < o.size(); ++e) offsets.push_back(index_at(o, e));
  return offsets;
}

}  // namespace hexad::kernels::reference
