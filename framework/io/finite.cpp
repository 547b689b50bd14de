#include "framework/io/finite.h"

#include <cmath>
#include <string>

#include "framework/io/region.h"
#include "framework/kernels/kernel_table.h"
#include "framework/tensor/host_read.h"

namespace hexad::io {

using namespace base;
using namespace tensor;

namespace {

struct Found {
  int64_t index;
  double value;
};

template <class T>
std::optional<Found> search(const Tensor& tensor) {
  std::optional<Found> found;
  const T* data = tensor.numel() > 0 ? tensor.data<T>() : nullptr;
  for_each_run(tensor.shape(), tensor.shape().row_major_strides(), tensor.strides(),
               [&](int64_t index, int64_t from, int64_t count) {
                 for (int64_t i = 0; i < count && !found; ++i) {
                   const auto value = static_cast<double>(data[from + i]);
                   // fabs() removes the sign of a NaN, because the sign has no meaning.
                   if (std::isnan(value)) found = Found{index + i, std::fabs(value)};
                   if (std::isinf(value)) found = Found{index + i, value};
                 }
               });
  return found;
}

// True if the sum of squares, which the device computes, is finite. All elements are then finite.
bool clearly_finite(const Tensor& tensor) {
  Stream& stream = tensor.device().context().compute();
  const Tensor sum = Tensor::empty({1}, Dtype::f64, tensor.device());
  kernels::kernels(tensor.device()).optimizer.squared_norm(stream, sum, tensor, kernels::Write::replace);
  return std::isfinite(read_to_host("finite", sum, stream).scalar());
}

std::optional<Found> search_any(const Tensor& given) {
  std::optional<Found> found;
  if (!is_floating(given.dtype())) return found;
  const bool here = given.device().on_host();
  if (!here && clearly_finite(given)) return found;
  const Tensor tensor = here ? given : copy_to_host("not finite", given, given.device().context().compute());
  with_dtype<float, bf16, double>("finite", tensor.dtype(), [&]<class T>() { found = search<T>(tensor); });
  return found;
}

}  // namespace

std::optional<int64_t> first_non_finite(const Tensor& tensor) {
  const auto found = search_any(tensor);
  return found ? std::optional(found->index) : std::nullopt;
}

void require_finite(const Tensor& tensor, std::string_view where, std::string_view name) {
  if (const auto found = search_any(tensor)) {
    fail(ExitCode::numeric, where, ": '", name, "' ", tensor.shape(), " holds ", found->value, " at element ",
         found->index, "; expected finite values");
  }
}

}  // namespace hexad::io
