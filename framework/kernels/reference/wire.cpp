#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "framework/base/fp8.h"
#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {

using namespace base;
namespace {

/// Access to the bytes of the elements of a matrix, for copies that must be bitwise identical.
class Elements {
 public:
  explicit Elements(const Tensor& t)
      : memory_(t), row_(t.strides()[0] * size_of(t.dtype())), column_(t.strides()[1] * size_of(t.dtype())) {}
  std::byte* operator()(int64_t r, int64_t d) { return memory_.bytes() + r * row_ + d * column_; }
  void put_back() { memory_.put_back(); }

 private:
  HostMemory memory_;
  int64_t row_, column_;  // distances between adjacent rows and columns, in bytes
};

std::optional<Elements> elements_if_defined(const Tensor& t) {
  return t.defined() ? std::optional<Elements>(t) : std::nullopt;
}

void copy_element(std::byte* to, const std::byte* from, Dtype dtype) { std::copy_n(from, size_of(dtype), to); }

void store_element(std::byte* to, double value, Dtype dtype) {
  with_dtype<float, bf16, double>("reference", dtype, [&]<class T>() {
    const auto rounded = static_cast<T>(static_cast<accumulator_t<T>>(value));
    std::memcpy(to, &rounded, sizeof(T));
  });
}

/// Returns the value rounded to f32; infinity if it exceeds the range of f32.
double single(double v) { return static_cast<float>(v); }

/// Returns the scale of a row: its largest magnitude divided by 448, but at least 2^-126; 0 for a row of zeros; NaN if
/// an element is not finite in f32.
double scale_of(const Array& x, int64_t r) {
  double largest = 0;
  for (int64_t d = 0; d < x.columns; ++d) {
    if (!std::isfinite(single(x(r, d)))) return std::numeric_limits<double>::quiet_NaN();
    largest = std::max(largest, std::abs(single(x(r, d))));
  }
  return largest > 0 ? single(std::max(largest / 448, 0x1p-126)) : 0;
}

e4m3 code_of(double x, double scale) {
  if (std::isnan(scale)) return e4m3::from_bits(e4m3::nan);
  return e4m3(static_cast<float>(scale > 0 ? single(x) / scale : x));
}

void pack(Stream& stream, const Tensor& bytes, const Tensor& x, const Tensor& index, const Tensor& row_weights,
          WireFormat format) {
  stream.run([=] {
    const Array X = load(x), Index = index.defined() ? load(index) : Array{};
    const int64_t count = row_weights.defined() ? row_weights.dim(1) : 0;
    const WireLayout layout = wire_layout(format, x.dtype(), X.columns, count);
    Elements to(bytes), from(x);
    std::optional<Elements> weights = elements_if_defined(row_weights);
    for (int64_t r = 0; r < bytes.dim(0); ++r) {
      const int64_t source = index.defined() ? index_at(Index, r) : r;
      std::byte* row = to(r, 0);
      std::fill_n(row, layout.bytes, std::byte{0});
      if (source < 0) continue;
      if (format == WireFormat::fp8) {
        const double scale = scale_of(X, source);
        for (int64_t d = 0; d < X.columns; ++d) row[d] = std::byte{code_of(X(source, d), scale).bits};
        store_element(row + layout.scale, scale, Dtype::f32);
      } else {
        for (int64_t d = 0; d < X.columns; ++d) copy_element(row + d * size_of(x.dtype()), from(source, d), x.dtype());
      }
      for (int64_t i = 0; i < count; ++i)
        copy_element(row + layout.row_weights + i * size_of(row_weights.dtype()), (*weights)(r, i),
                     row_weights.dtype());
    }
    to.put_back();
  });
}

void unpack(Stream& stream, const Tensor& out, const Tensor& row_weights_out, const Tensor& bytes, const Tensor& index,
            WireFormat format) {
  stream.run([=] {
    const Array Index = index.defined() ? load(index) : Array{};
    const int64_t width = out.dim(1), count = row_weights_out.defined() ? row_weights_out.dim(1) : 0;
    const WireLayout layout = wire_layout(format, out.dtype(), width, count);
    Elements to(out), from(bytes);
    std::optional<Elements> weights = elements_if_defined(row_weights_out);
    for (int64_t r = 0; r < bytes.dim(0); ++r) {
      const int64_t target = index.defined() ? index_at(Index, r) : r;
      const std::byte* row = from(r, 0);
      float scale = 0;
      if (format == WireFormat::fp8) std::memcpy(&scale, row + layout.scale, sizeof(scale));
      for (int64_t d = 0; target >= 0 && d < width; ++d) {
        const auto code = e4m3::from_bits(std::to_integer<uint8_t>(row[d]));
        if (format == WireFormat::fp8)
          store_element(to(target, d), double{scale} * static_cast<float>(code), out.dtype());
        else
          copy_element(to(target, d), row + d * size_of(out.dtype()), out.dtype());
      }
      for (int64_t i = 0; i < count; ++i)
        copy_element((*weights)(r, i), row + layout.row_weights + i * size_of(row_weights_out.dtype()),
                     row_weights_out.dtype());
    }
    to.put_back();
    if (weights) weights->put_back();
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const WireKernels WireKernels::of_reference{.pack = reference::pack, .unpack = reference::unpack};

}  // namespace hexad::kernels
