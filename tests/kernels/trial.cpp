#include "tests/kernels/trial.h"

#include <cstring>

#include "framework/base/philox.h"
#include "framework/kernels/reference/array.h"
#include "tests/support/tolerance.h"

namespace hexad::tests {
namespace {

using hexad::kernels::reference::Array;
using hexad::kernels::reference::load;
using hexad::kernels::reference::store;

std::vector<std::byte> bytes_of(const Tensor& t) {
  const auto* p = static_cast<const std::byte*>(t.raw());
  return std::vector<std::byte>(p, p + t.bytes());
}

// "[3, 17]": where element `i` of a tensor lies.
std::string coordinate(const Shape& shape, int64_t i) {
  Shape c = shape;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    c[d] = i % shape[d];
    i /= shape[d];
  }
  return c.to_string();
}

// NaN in every float, -1 in every integer.
void poison(const Tensor& t) {
  if (t.bytes() > 0) std::memset(t.raw(), 0xff, static_cast<size_t>(t.bytes()));
}

// Marks the elements of `whole` that `t` looks at.
std::vector<bool> members(const Tensor& t, const Tensor& whole) {
  std::vector<bool> inside(static_cast<size_t>(whole.numel()));
  const int64_t first =
      (static_cast<const std::byte*>(t.raw()) - static_cast<const std::byte*>(whole.raw())) / size_of(t.dtype());
  for (int64_t i = 0; i < t.numel(); ++i) {
    int64_t offset = first, rest = i;
    for (int d = t.rank() - 1; d >= 0; --d) {
      offset += rest % t.dim(d) * t.strides()[d];
      rest /= t.dim(d);
    }
    inside[static_cast<size_t>(offset)] = true;
  }
  return inside;
}

// What errors are measured by where an element is small from cancellation. A handful of elements tells nothing: then
// one, since inputs are standard normal.
double magnitude(const Array& a) {
  constexpr int64_t handful = 16;
  double squares = 0, count = 0;
  for (double v : a.values)
    if (std::isfinite(v)) squares += v * v, ++count;
  const double typical = count > 0 ? std::sqrt(squares / count) : 0;
  return a.size() < handful ? std::max(1.0, typical) : typical;
}

}  // namespace

Tensor Trial::guarded(Shape shape, Dtype type, Layout layout, Tensor* whole) {
  if (layout == Layout::contiguous) {
    constexpr int64_t band = 64;
    *whole = Tensor::empty({shape.numel() + 2 * band}, type, device_);
    poison(*whole);
    return whole->slice(0, band, band + shape.numel()).reshape(shape);
  }
  Shape wide = shape;
  for (int d = 1; d < shape.rank(); ++d) wide[d] += 3;
  *whole = Tensor::empty(wide, type, device_);
  poison(*whole);
  Tensor t = *whole;
  for (int d = 1; d < shape.rank(); ++d) t = t.slice(d, 1, 1 + shape[d]);
  return t;
}

Tensor Trial::watch(const Tensor& t, const Tensor& whole, int64_t terms) {
  outputs_.push_back({t, terms, whole, bytes_of(whole)});
  return t;
}

Tensor Trial::normal(Shape shape, Dtype type, Layout layout) {
  Tensor whole;
  const Tensor t = guarded(shape, type, layout, &whole);
  const Philox random(seed_, Purpose::synthetic);
  Array a = kernels::reference::zeros(t);
  for (double& v : a.values) v = random.normal(drawn_++);
  store(t, a);
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

Tensor Trial::output(Shape shape, Dtype type, int64_t terms, Layout layout) {
  Tensor whole;
  const Tensor t = guarded(shape, type, layout, &whole);
  return watch(t, whole, terms);
}

Tensor Trial::update(Shape shape, Dtype type, int64_t terms) {
  Tensor whole;
  const Tensor t = guarded(shape, type, Layout::contiguous, &whole);
  store(t, load(normal(shape, type)));
  return watch(t, whole, terms);
}

void Trial::scalar(double value, int64_t terms) {
  const Tensor t = values<double>({value}, {1});
  watch(t, t, terms);
}

std::string Trial::written_outside() const {
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const Output& output = outputs_[o];
    const std::vector<std::byte> now = bytes_of(output.whole);
    const std::vector<bool> inside = members(output.tensor, output.whole);
    const auto bytes = static_cast<size_t>(size_of(output.tensor.dtype()));
    for (size_t i = 0; i < inside.size(); ++i)
      if (!inside[i] && std::memcmp(&now[i * bytes], &output.before[i * bytes], bytes) != 0)
        return cat("output ", o, ": wrote outside, at element ", i, " of the guarded buffer ", output.whole.shape());
  }
  return {};
}

std::string difference(const Trial& expected, const Trial& actual) {
  if (const std::string outside = actual.written_outside(); !outside.empty()) return outside;
  for (size_t o = 0; o < expected.outputs().size(); ++o) {
    const Tensor& tensor = expected.outputs()[o].tensor;
    const Array want = load(tensor), got = load(actual.outputs()[o].tensor);
    const double allowed = tolerance(tensor.dtype(), expected.outputs()[o].terms), typical = magnitude(want);
    int64_t wrong = 0, first = -1, zeros = 0;
    for (int64_t i = 0; i < want.size(); ++i) {
      zeros += want[i] == 0;
      const bool same = want[i] == got[i] || (std::isnan(want[i]) && std::isnan(got[i])) ||
                        std::abs(want[i] - got[i]) <= allowed * std::max(std::abs(want[i]), typical);
      if (!same && wrong++ == 0) first = i;
    }
    if (wrong)
      return cat("output ", o, " ", tensor.shape(), " ", tensor.dtype(), ": ", wrong, " of ", want.size(),
                 " elements differ; first at ", coordinate(tensor.shape(), first), ": expected ", want[first], ", got ",
                 got[first], " (tolerance ", allowed, " of ", std::max(std::abs(want[first]), typical), ")");
    if (is_floating(tensor.dtype()) && want.size() > 4 && 2 * zeros > want.size() && !expected.zeros_expected())
      return cat("output ", o, " ", tensor.shape(), " is mistrusted: ", zeros, " of ", want.size(),
                 " elements are zero");
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
