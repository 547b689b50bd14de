#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

int64_t offset_of(const Tensor& t, bool contiguous, int64_t i) {
  if (contiguous) return i;
  int64_t offset = 0;
  for (int d = t.rank() - 1; d >= 0; --d) {
    offset += i % t.dim(d) * t.strides()[d];
    i /= t.dim(d);
  }
  return offset;
}

template <class F>
void with_any_dtype(const Tensor& t, F&& f) {
  with_dtype<float, bf16, double, int32_t, int64_t, uint8_t>("reference", t.dtype(), f);
}

}  // namespace

Array zeros(const Tensor& t) {
  Array a{1, t.rank() ? t.dim(-1) : 1, {}};
  for (int d = 0; d + 1 < t.rank(); ++d) a.rows *= t.dim(d);
  a.values.resize(static_cast<size_t>(a.size()));
  return a;
}

Array load(const Tensor& t) {
  Array a = zeros(t);
  with_any_dtype(t, [&]<class T>() {
    const T* data = t.data<T>();
    const bool contiguous = t.contiguous();
    for (int64_t i = 0; i < a.size(); ++i) a[i] = static_cast<double>(data[offset_of(t, contiguous, i)]);
  });
  return a;
}

void store(const Tensor& t, const Array& a) {
  require(t.numel() == a.size(), "[reference] ", a.size(), " results for a tensor of shape ", t.shape());
  with_any_dtype(t, [&]<class T>() {
    T* data = t.data<T>();
    const bool contiguous = t.contiguous();
    for (int64_t i = 0; i < a.size(); ++i) {
      T& element = data[offset_of(t, contiguous, i)];
      if constexpr (std::is_same_v<T, bf16>)
        element = bf16(static_cast<float>(a[i]));
      else
        element = static_cast<T>(a[i]);
    }
  });
}

}  // namespace hexad::kernels::reference
