#include "tests/kernels/trial.h"

#include <algorithm>
#include <cstring>

#include "framework/base/philox.h"
#include "framework/base/tolerance.h"

namespace hexad::tests {

using namespace base;
namespace {

using hexad::kernels::reference::Array;
using hexad::kernels::reference::load;
using hexad::kernels::reference::store;

std::vector<std::byte> bytes_of(const Tensor& t) {
  std::vector<std::byte> bytes(t.bytes());
  t.download(bytes.data());
  return bytes;
}

// Returns the coordinate of element `i` of a tensor, like "[3, 17]".
std::string coordinate(const Shape& shape, int64_t i) {
  Shape c = shape;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    c[d] = i % shape[d];
    i /= shape[d];
  }
  return c.to_string();
}

// Sets every float to NaN and every byte of an integer to 0x7f. No kernel computes an i32 or i64 of these bytes, but
// many kernels compute -1.
void poison(const Tensor& t) { t.fill_bytes(is_floating(t.dtype()) ? 0xff : 0x7f, t.device().context().compute()); }

// `from` and `to` are copies of the bytes of `whole`. Copies the elements of `t` from `from` to `to`.
void copy_members(std::byte* to, const std::byte* from, const Tensor& t, const Tensor& whole) {
  const auto first = static_cast<int64_t>(t.address() - whole.address());
  const int64_t row_bytes = t.dim(-1) * size_of(t.dtype()), rows = t.numel() ? t.numel() / t.dim(-1) : 0;
  for (int64_t r = 0; r < rows; ++r) {
    int64_t offset = 0, rest = r;
    for (int d = t.rank() - 2; d >= 0; --d) {
      offset += rest % t.dim(d) * t.strides()[d];
      rest /= t.dim(d);
    }
    const int64_t begin = first + offset * size_of(t.dtype());
    std::memcpy(to + begin, from + begin, row_bytes);
  }
}

double root_mean_square(std::span<const double> values) {
  double squares = 0, count = 0;
  for (double v : values)
    if (std::isfinite(v)) squares += v * v, ++count;
  return count > 0 ? std::sqrt(squares / count) : 0;
}

// Returns the least magnitude that `yardstick` defines for every row. In tensors of fewer than 16 elements, the
// magnitude is at least one. Inputs are standard normal, so all of these few elements may be small by chance.
std::vector<double> magnitudes(const Array& a, Yardstick yardstick) {
  constexpr int64_t handful = 16;
  const double typical = root_mean_square(a.values);
  std::vector<double> all(a.rows, a.size() < handful ? std::max(1.0, typical) : typical);
  if (yardstick == Yardstick::row)
    for (size_t r = 0; r < all.size(); ++r)
      all[r] = std::max(all[r],
                        root_mean_square(std::span(a.values).subspan(r * static_cast<size_t>(a.columns), a.columns)));
  return all;
}

}  // namespace

Tensor Trial::guarded(Shape shape, Dtype type, Layout layout, Tensor* whole) {
  if (layout == Layout::contiguous) {
    constexpr int64_t band = 64;
    *whole = Tensor::empty({shape.numel() + 2 * band}, type, device_);
    poison(*whole);
    return whole->slice(0, band, band + shape.numel()).reshape(shape);
  }
  Shape wide = shape, before = shape;
  for (int d = 1; d < shape.rank(); ++d) {
    const bool aligned = layout == Layout::aligned_rows && d == shape.rank() - 1;
    wide[d] += aligned ? 16 : 3;
    before[d] = aligned ? 8 : 1;
  }
  *whole = Tensor::empty(wide, type, device_);
  poison(*whole);
  Tensor t = *whole;
  for (int d = 1; d < shape.rank(); ++d) t = t.slice(d, before[d], before[d] + shape[d]);
  return t;
}

Tensor Trial::watch(const Tensor& t, const Tensor& whole, int64_t terms, Yardstick yardstick) {
  outputs_.push_back({t, terms, whole, bytes_of(whole), yardstick});
  return t;
}

Array Trial::drawn(const Tensor& t) {
  Array a = kernels::reference::zeros(t);
  std::vector<float> values(a.values.size());
  Philox(seed_, Purpose::synthetic).normals(values, drawn_);
  drawn_ += values.size();
  std::ranges::copy(values, a.values.begin());
  return a;
}

Tensor Trial::normal(Shape shape, Dtype type, Layout layout) {
  Tensor whole;
  const Tensor t = guarded(shape, type, layout, &whole);
  store(t, drawn(t));
  return t;
}

Tensor Trial::integers(Shape shape, Dtype type, int64_t bound) {
  Tensor whole;
  const Tensor t = guarded(shape, type, Layout::contiguous, &whole);
  const Philox random(seed_, Purpose::synthetic);
  Array a = kernels::reference::zeros(t);
  for (double& v : a.values) v = static_cast<double>(random.below(drawn_++, static_cast<uint64_t>(bound)));
  store(t, a);
  return t;
}

Tensor Trial::output(Shape shape, Dtype type, int64_t terms, Layout layout, Yardstick yardstick) {
  Tensor whole;
  const Tensor t = guarded(shape, type, layout, &whole);
  return watch(t, whole, terms, yardstick);
}

Tensor Trial::update(Shape shape, Dtype type, int64_t terms) {
  Tensor whole;
  const Tensor t = guarded(shape, type, Layout::contiguous, &whole);
  store(t, drawn(t));
  return watch(t, whole, terms);
}

std::string Trial::written_outside() const {
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const Output& output = outputs_[o];
    std::vector<std::byte> now = bytes_of(output.whole);
    copy_members(now.data(), output.before.data(), output.tensor, output.whole);
    const auto outside = std::ranges::mismatch(now, output.before).in1;
    if (outside != now.end())
      return cat("output ", o, ": the kernel wrote outside the output, at element ",
                 (outside - now.begin()) / size_of(output.tensor.dtype()), " of the guarded buffer ",
                 output.whole.shape());
  }
  return {};
}

std::string difference(const Trial& expected, const Trial& actual) {
  if (const std::string outside = actual.written_outside(); !outside.empty()) return outside;
  for (size_t o = 0; o < expected.outputs().size(); ++o) {
    const Tensor& tensor = expected.outputs()[o].tensor;
    const Array want = load(tensor), got = load(actual.outputs()[o].tensor);
    const double allowed = tolerance(tensor.dtype(), expected.outputs()[o].terms);
    const std::vector<double> typical = magnitudes(want, expected.outputs()[o].yardstick);
    const auto scale = [&](int64_t i) { return std::max(std::abs(want[i]), typical[i / want.columns]); };
    int64_t wrong = 0, first = -1, zeros = 0;
    for (int64_t i = 0; i < want.size(); ++i) {
      zeros += want[i] == 0;
      const bool same = want[i] == got[i] || (std::isnan(want[i]) && std::isnan(got[i])) ||
                        std::abs(want[i] - got[i]) <= allowed * scale(i);
      if (!same && wrong++ == 0) first = i;
    }
    if (wrong)
      return cat("output ", o, " ", tensor.shape(), " ", tensor.dtype(), ": ", wrong, " of ", want.size(),
                 " elements differ; first at ", coordinate(tensor.shape(), first), ": expected ", want[first], ", got ",
                 got[first], " (tolerance ", allowed, " of ", scale(first), ")");
    if (is_floating(tensor.dtype()) && want.size() > 4 && 2 * zeros > want.size() && !expected.zeros_expected())
      return cat("output ", o, " ", tensor.shape(), " is mistrusted: ", zeros, " of ", want.size(),
                 " elements are zero; expected at most half, or a call of expect_zeros()");
  }
  return {};
}

std::string bitwise_difference(const Trial& expected, const Trial& actual) {
  for (size_t o = 0; o < expected.outputs().size(); ++o) {
    const auto want = bytes_of(expected.outputs()[o].whole), got = bytes_of(actual.outputs()[o].whole);
    for (size_t i = 0; i < want.size(); ++i)
      if (want[i] != got[i])
        return cat("output ", o, " ", expected.outputs()[o].tensor.shape(), ": byte ", i, " differs");
  }
  return {};
}

}  // namespace hexad::tests
