// Least squares: fits of terms and lines to samples, with their residuals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "framework/config/curve.h"

namespace hexad::plan {

/// One term of a sum, given by its values at all samples. The fit determines the coefficient of the term.
struct FitTerm {
  std::string_view name;
  std::vector<double> values;
};

struct TermsFit {
  std::vector<double> coefficients;  // one for each term
  std::vector<double> residuals;     // one for each sample: y minus the fitted sum
};

/// Returns the coefficients that minimize the sum of the squared residuals of `y`. Uses a QR decomposition with column
/// pivoting, which, unlike normal equations, does not square the condition number of the terms. Throws std::logic_error
/// if a number is not finite, or if a term does not have a value for each sample. Also throws std::logic_error, naming
/// the terms, if the samples do not determine all coefficients.
TermsFit least_squares(std::span<const FitTerm> terms, std::span<const double> y);

/// The alpha-beta model of a collective or kernel. Alpha is the startup time in seconds. Beta is the time per unit (an
/// element, a byte or a chunk) in seconds.
struct AlphaBeta {
  double alpha = 0, beta = 0;

  double operator()(double x) const { return alpha + beta * x; }
};

struct Fit {
  AlphaBeta line;
  std::vector<double> residuals{};  // seconds, by sample: measured minus predicted by the line
  /// Largest ratio of |residual| to the measured seconds, and the index of its sample. Ignores samples of zero seconds.
  double worst_relative_error = 0;
  size_t worst = 0;
};

/// Quantity whose sum of squares the fit minimizes.
///   - residuals: the longest samples dominate
///   - relative_residuals: residuals divided by the measured seconds; all sizes have equal weight
enum class Least : uint8_t { residuals, relative_residuals };

/// Fits a line through `samples` (x and seconds, in any order). The default minimizes residuals, like Parm for its
/// collectives (section V-A). Throws std::logic_error if all samples have the same x. Also throws std::logic_error
/// under relative_residuals if the time of a sample is not above zero.
Fit fit_alpha_beta(std::span<const config::Curve::Point> samples, Least least = Least::residuals);

}  // namespace hexad::plan
