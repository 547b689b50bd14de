// Known errors of predicted steps, shown as intervals around a prediction.
#pragma once

#include <string>
#include <string_view>

#include "tools/plan/cluster.h"

namespace hexad::plan {

/// Error of predictions: the quantiles 0.05 and 0.95 of the ratio of measured to predicted seconds. 90% of new cases
/// are expected between these quantiles. If n ratios are known, ratio number k in ascending order is the quantile
/// k/(n+1). The reason is that k/(n+1) is the expected share of new cases with a smaller ratio. Between two ratios, the
/// quantile is interpolated linearly.
struct PredictionError {
  double low, high;  // the quantiles 0.05 and 0.95
  int cases;         // number of known ratios
  // Number of cases that are inside an interval computed from the other sources' cases. An interval computed from all
  // cases contains too many of them, because each case helps to determine the interval.
  int covered;
  std::string_view what;     // description of the cases
  std::string_view sources;  // plural noun for the sources of the cases
  std::string_view source;   // report that lists the cases

  /// Return the limits, in seconds, between which about 90% of measured times are expected for a prediction.
  double least(double seconds) const { return low * seconds; }
  double most(double seconds) const { return high * seconds; }
  /// Returns a prediction with its interval: "412 ms (190 to 618)". The text repeats the unit if the units differ.
  std::string text(double seconds) const;
  /// Returns a line that explains the interval, with the number of cases, their report, and `covered`.
  std::string explanation() const;
};

/// Returns the error of steps that are predicted on a cluster. This is the error on published steps if the cluster has
/// a description. Otherwise, this is the error on whole steps that were measured on CPU ranks.
/// tools/bench/predicted_steps.sh counts how many new steps are inside the interval.
const PredictionError& prediction_error(const Cluster& cluster);

}  // namespace hexad::plan
