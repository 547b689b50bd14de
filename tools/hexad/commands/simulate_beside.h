// `hexad simulate --beside RUN`: compares a predicted step with the measured steps of a run.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "framework/telemetry/report.h"
#include "tools/plan/measured_step.h"
#include "tools/plan/step_comparison.h"

namespace hexad::app {

/// The node of each rank, and its domain of the fast link, on the cluster of a prediction (plan::StepPrices).
struct PredictedPlaces {
  std::vector<int> node_of_rank, domain_of_rank;
};

struct StepBesideRun {
  plan::MeasuredStep run;
  std::vector<plan::ComparedRow> rows;
};

/// Prints the comparison as a table. Also prints which step of the run was traced, or why there is no trace.
void print_text(const StepBesideRun& beside);
nlohmann::ordered_json json_of(const StepBesideRun& beside);

/// Returns the comparison for a report. If the run has a trace, adds pictures of both timelines for the first and the
/// last simulated rank. `about` describes the prediction.
telemetry::ReportInputs::Prediction prediction_of(const StepBesideRun& beside, const plan::StepForecast& forecast,
                                                  const PredictedPlaces& places, const std::string& about);

/// Writes the simulated timeline to `path`. If the run has a trace, writes the measured timeline to the same file.
/// Measured ranks are named without their nodes, because a run does not record them.
void write_both_traces(const std::string& path, const StepBesideRun& beside, const plan::StepForecast& forecast,
                       const PredictedPlaces& places);

}  // namespace hexad::app
