// Least squares: terms and lines fitted to samples, with what the fit leaves over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "framework/config/curve.h"

namespace hexad::plan {

/// One term of a sum: its value at every sample. Its coefficient is what is sought.
struct FitTerm {
  std::string_view name;
  std::vector<double> values;
};

struct TermsFit {
  std::vector<double> coefficients;  // by term
  std::vector<double> residuals;     // by sample: y minus the fitted sum
};

/// The coefficients that make the sum of squared residuals of `y` least, by a QR decomposition with column pivoting:
/// unlike normal equations it does not square the condition of the terms. Throws std::logic_error for numbers that are
/// not finite, and, naming them, for terms that these samples do not tell from the others (a rank below the number of
/// terms).
TermsFit least_squares(std::span<const FitTerm> terms, std::span<const double> y);

/// The alpha-beta model of a collective or kernel: startup seconds and seconds a unit (an element, a byte, a chunk).
struct AlphaBeta {
  double alpha = 0, beta = 0;

  double operator()(double x) const { return alpha + beta * x; }
};

struct Fit {
  AlphaBeta line;
  std::vector<double> residuals{};  // seconds, by sample: measured minus the line's
  /// The largest |residual| over the measured seconds, and the sample that has it; measured zeros do not count.
  double worst_relative_error = 0;
  size_t worst = 0;
};

/// Numbers whose sum of squares a fit minimizes: residuals, so that the longest samples decide, or residuals over the
/// measured seconds, so that all sizes count alike.
enum class Least : uint8_t { residuals, relative_residuals };

/// The line through `samples` (x and seconds, in any order); by residuals, as Parm fits its collectives (section V-A).
/// Throws std::logic_error for samples of fewer than two x, and for seconds that are not above zero where they are
/// divided by.
Fit fit_alpha_beta(std::span<const config::Curve::Point> samples, Least least = Least::residuals);

}  // namespace hexad::plan
