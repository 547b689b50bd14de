#include "framework/kernels/duel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "framework/base/clock.h"
#include "framework/base/tolerance.h"
#include "framework/device/host_wait.h"
#include "framework/kernels/kernel_table.h"
#include "framework/tensor/host_read.h"

namespace hexad::kernels {

using base::Dtype;

namespace {

constexpr int times = 3;                    // number of measured computations per implementation in a contest
constexpr int64_t piece = 128;              // maximum number of elements of a row that are compared together
constexpr int64_t fewest = 32;              // minimum number of elements of a piece; shorter pieces may have tiny norms
constexpr int64_t block = 4 * 1024 * 1024;  // number of elements that are compared at a time, to bound the memory

// Returns the mean time of one computation, in seconds.
double seconds_of(Stream& s, const Way& way) {
  s.synchronize();
  const double start = base::now();
  for (int i = 0; i < times; ++i) way(s);
  s.synchronize();
  return (base::now() - start) / times;
}

// Returns the squared norm of each row of `x` [N, W]. The norms are computed in the accumulator dtype of `x`.
std::vector<double> squared_norms(Stream& s, const Tensor& x) {
  const Dtype acc = base::accumulator_dtype(x.dtype());
  const Tensor dots = Tensor::empty({x.dim(0)}, acc, x.device());
  kernels(x.device()).permute.row_dots(s, dots, x, x);
  const tensor::HostRead read = tensor::read_to_host("duel: norms", dots, s);
  if (acc == Dtype::f64) {
    const std::span<const double> values = read.wait<double>();
    return {values.begin(), values.end()};
  }
  const std::span<const float> values = read.wait<float>();
  return {values.begin(), values.end()};
}

// Returns the largest relative difference of a row of `wrong` [N, W] from the same row of `right`. NaN counts as
// infinite.
double largest_difference(Stream& s, const Tensor& right, const Tensor& wrong) {
  const Tensor difference = Tensor::empty(right.shape(), base::accumulator_dtype(right.dtype()), right.device());
  const PointwiseKernels& k = kernels(right.device()).pointwise;
  k.copy(s, difference, wrong);
  k.axpy(s, difference, -1, right);
  const std::vector<double> errors = squared_norms(s, difference), sizes = squared_norms(s, right);
  double largest = 0;
  for (size_t i = 0; i < errors.size(); ++i) {
    if (errors[i] == 0) continue;
    const double relative = std::sqrt(errors[i] / sizes[i]);
    largest = std::max(largest, std::isnan(relative) ? std::numeric_limits<double>::infinity() : relative);
  }
  return largest;
}

// Returns the largest relative difference of two corresponding pieces of two vectors. A piece has `piece` elements, or
// all elements of a shorter vector. The last piece ends at the end of the vector, so it may overlap the piece before
// it.
double largest_difference_of_vectors(Stream& s, const Tensor& right, const Tensor& wrong) {
  const int64_t count = right.numel(), columns = std::min(count, piece), whole = count - count % columns;
  const auto between = [&](int64_t begin, int64_t end) {
    const auto pieces = [&](const Tensor& t) { return t.slice(0, begin, end).reshape({-1, columns}); };
    return largest_difference(s, pieces(right), pieces(wrong));
  };
  return std::max(between(0, whole), between(count - columns, count));
}

// Divides the given rows of two tensors [R, ...] into pieces of equal width. Returns the largest relative difference of
// two corresponding pieces. If the width of a row is not a multiple of 32, whole rows are compared. The pieces of
// vectors [R] are elements of adjacent rows.
double largest_difference(Stream& s, const Tensor& right, const Tensor& wrong, ContestRows rows) {
  base::require(right.shape() == wrong.shape() && right.dtype() == wrong.dtype(), "[duel] a result is ", right.dtype(),
                " ", right.shape(), " in the plain implementation and ", wrong.dtype(), " ", wrong.shape(),
                " in the candidate; expected equal dtypes and shapes");
  const int64_t width = right.dim(0) == 0 ? 0 : right.numel() / right.dim(0);
  if (width == 0) return 0;
  if (right.rank() == 1)
    return largest_difference_of_vectors(s, right.slice(0, rows.begin, rows.end), wrong.slice(0, rows.begin, rows.end));
  const int64_t divisor = std::gcd(width, piece), columns = divisor < fewest ? width : divisor;
  const int64_t step = std::max<int64_t>(1, block / width);
  double largest = 0;
  for (int64_t begin = rows.begin; begin < rows.end; begin += step) {
    const int64_t end = std::min(begin + step, rows.end);
    const auto pieces = [&](const Tensor& t) { return t.slice(0, begin, end).reshape({-1, columns}); };
    largest = std::max(largest, largest_difference(s, pieces(right), pieces(wrong)));
  }
  return largest;
}

}  // namespace

std::vector<Tensor> Duel::contest(Stream& s, const Way& plain, const Way& candidate, ContestRows rows, int64_t terms) {
  const device::HostWait wait("duel");
  std::vector<Tensor> right = plain(s);
  if (rows.begin == rows.end || score_.contests == most || !score_.failure.empty()) return right;
  try {
    run_candidate(s, right, plain, candidate, rows, terms);
  } catch (const std::exception& e) {  // the training run continues with the plain results
    score_.failure = e.what();
  }
  return right;
}

void Duel::run_candidate(Stream& s, const std::vector<Tensor>& right, const Way& plain, const Way& candidate,
                         ContestRows rows, int64_t terms) {
  {
    const std::vector<Tensor> results = candidate(s);
    base::require(results.size() == right.size(), "[duel] the candidate has ", results.size(),
                  " results, and the plain implementation has ", right.size(), "; expected equal numbers");
    double tolerance = 0;
    for (const Tensor& t : right) tolerance = std::max(tolerance, base::tolerance(t.dtype(), terms));
    for (size_t i = 0; i < right.size(); ++i)
      score_.error = std::max(score_.error, largest_difference(s, right[i], results[i], rows) / tolerance);
  }
  // The first computations also load kernels and allocate memory, so they are not measured.
  const double of_plain = seconds_of(s, plain), of_candidate = seconds_of(s, candidate);
  ++score_.contests;
  score_.plain_seconds += of_plain, score_.candidate_seconds += of_candidate;
}

}  // namespace hexad::kernels
