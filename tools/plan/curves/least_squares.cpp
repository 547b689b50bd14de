#include "tools/plan/curves/least_squares.h"

#include <Eigen/QR>
#include <cmath>
#include <string>

#include "framework/base/error.h"
#include "framework/base/tolerance.h"

namespace hexad::plan {
namespace {

using Eigen::Index;
using Qr = Eigen::ColPivHouseholderQR<Eigen::MatrixXd>;

Qr decompose(const Eigen::MatrixXd& matrix) {
  Qr qr(matrix.rows(), matrix.cols());
  qr.setThreshold(base::tolerance(base::Dtype::f64, matrix.rows()));
  return qr.compute(matrix);
}

// Returns "'c' from 'a', 'b'" if column c depends linearly on columns a and b.
std::string undetermined_terms(const Eigen::MatrixXd& matrix, std::span<const FitTerm> terms) {
  std::string told, dependent;
  Index rank = 0;
  for (Index j = 0; j < matrix.cols(); ++j) {
    const Index now = decompose(matrix.leftCols(j + 1)).rank();
    std::string& list = now > rank ? told : dependent;
    list += base::cat(list.empty() ? "'" : ", '", terms[j].name, "'");
    rank = now;
  }
  return base::cat(dependent, " from ", told.empty() ? "zero" : told);
}

}  // namespace

TermsFit least_squares(std::span<const FitTerm> terms, std::span<const double> y) {
  const auto rows = static_cast<Index>(y.size()), columns = static_cast<Index>(terms.size());
  const Eigen::Map<const Eigen::VectorXd> seen(y.data(), rows);
  Eigen::MatrixXd matrix(rows, columns);
  for (Index j = 0; j < columns; ++j) {
    const FitTerm& term = terms[j];
    base::require(term.values.size() == y.size(), "[least_squares] '", term.name, "' has ", term.values.size(),
                  " values; expected ", y.size(), ", one for each sample");
    matrix.col(j) = Eigen::Map<const Eigen::VectorXd>(term.values.data(), rows);
    base::require(matrix.col(j).allFinite(), "[least_squares] '", term.name,
                  "' has infinite or NaN values; expected finite values");
  }
  base::require(seen.allFinite(), "[least_squares] a sample is infinite or NaN; expected finite samples");

  // Scales columns to length one. Otherwise, a column could seem dependent on other columns because of its unit.
  Eigen::VectorXd length = matrix.colwise().norm();
  for (Index j = 0; j < columns; ++j)
    if (length[j] == 0) length[j] = 1;
  const Eigen::MatrixXd scaled = matrix * length.cwiseInverse().asDiagonal();
  const Qr qr = decompose(scaled);
  if (qr.rank() < columns)
    base::fail_invariant(base::cat("[least_squares] ", rows, " samples do not distinguish ",
                                   undetermined_terms(scaled, terms),
                                   "; expected samples with linearly independent terms"));

  const Eigen::VectorXd coefficients = qr.solve(seen).cwiseQuotient(length);
  const Eigen::VectorXd residuals = seen - matrix * coefficients;
  return {{coefficients.begin(), coefficients.end()}, {residuals.begin(), residuals.end()}};
}

Fit fit_alpha_beta(std::span<const config::Curve::Point> samples, Least least) {
  FitTerm terms[] = {{"seconds to start", {}}, {"seconds per unit", {}}};
  std::vector<double> weighted;
  for (const auto& [x, y] : samples) {
    base::require(least == Least::residuals || y > 0, "[fit_alpha_beta] the time for size ", x, " is ", y,
                  " seconds, expected more than 0");
    const double weight = least == Least::residuals ? 1 : 1 / y;
    terms[0].values.push_back(weight), terms[1].values.push_back(weight * x), weighted.push_back(weight * y);
  }
  const std::vector<double> found = least_squares(terms, weighted).coefficients;
  Fit fit{.line = {found[0], found[1]}};
  for (const auto& [x, y] : samples) {
    fit.residuals.push_back(y - fit.line(x));
    const double error = y == 0 ? 0 : std::fabs(fit.residuals.back() / y);
    if (error > fit.worst_relative_error) fit.worst_relative_error = error, fit.worst = fit.residuals.size() - 1;
  }
  return fit;
}

}  // namespace hexad::plan
