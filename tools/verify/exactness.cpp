#include "tools/verify/exactness.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "framework/base/fp8.h"
#include "framework/base/tolerance.h"

namespace hexad::verify {
namespace {

using train::Precision;
using train::Recipe;

int64_t tokens_of(const Recipe& r) { return r.batch.global * r.model.context; }

// Returns the tolerance for rows with float scales. If the exact scale is about halfway between two floats, rounding
// errors determine which float a run uses.
double with_float_scales(const Recipe& r) {
  return base::step_tolerance(base::Dtype::f64, tokens_of(r), r.model.blocks()) + base::tolerance(base::Dtype::f32, 1);
}

// Returns the tolerance for rows that the oracle does not round. Every MoE layer rounds four times: rows, results, and
// the gradients of both. Each error is at most the relative error of an e4m3 value. The roundings are independent, so
// the root mean square of a tensor's errors grows with the square root of the number of roundings.
double of_other_rows(const Recipe& r) {
  const double roundings = 4 * static_cast<double>(std::max<int64_t>(1, r.model.moe_layers()));
  return std::min(0.75, 2 * std::sqrt(roundings) * double{base::e4m3::relative_error});
}

// Least unit of a tensor's differences with fp8 rows, as a share of Whole::typical. base::rounded_share() has the same
// factor of 16.
constexpr double share_of_codes = 16 * double{base::e4m3::relative_error};

}  // namespace

bool sends_fp8(const Recipe& r) { return r.model.moe.experts > 0 && r.schedule.moe.wire == kernels::WireFormat::fp8; }

bool may_differ_by_rounding(const Recipe& r) { return r.train.precision != Precision::f64 || sends_fp8(r); }

std::string_view rounds_other_rows(const Recipe& r) {
  const moe::MoeSchedule s = r.schedule.moe.settled();
  const int64_t tp = r.parallel.tp, etp = r.parallel.etp.value_or(tp);
  if (s.rows == ep::RowOf::token) return "rows";
  if (etp > 1 && s.esp_exchange_used() == ep::EspExchange::direct) return "esp_exchange";
  if (s.memory_reuse != moe::ReuseStrategy::none) return "memory_reuse";
  if (!s.divides() && !std::has_single_bit(static_cast<uint64_t>(tp))) return "duplicates";
  return {};
}

Exactness exactness_of(const Recipe& r) {
  const base::Dtype dtype = train::dtype_of(r.train.precision);
  const bool fp8 = sends_fp8(r), exact = r.train.precision == Precision::f64;
  if (exact && !fp8) return {"f64", base::step_tolerance(dtype, tokens_of(r), r.model.blocks())};
  if (exact && rounds_other_rows(r).empty()) return {"scales of fp8 rows", with_float_scales(r)};
  const double of_precision = exact ? 0 : base::rounded_step_tolerance(dtype, tokens_of(r), r.model.blocks());
  return {fp8 ? "other rows in fp8" : base::name_of(dtype), std::max(of_precision, fp8 ? of_other_rows(r) : 0.0),
          Measure::root_mean_square, fp8 ? share_of_codes : base::rounded_share(dtype)};
}

}  // namespace hexad::verify
