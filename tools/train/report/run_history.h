// history.json of a run directory: how the run was started, each time, and how it ended. With metrics.jsonl and
// recipe.yaml it is all that report.html is made from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "framework/telemetry/report.h"

namespace hexad::train {

struct RunStart {
  telemetry::RunInfo run;  // first_step: after which step
  std::string date, layout;
  std::vector<telemetry::ReportInputs::Fact> facts;  // version, host, command, ...
  std::vector<std::string> changes;                  // "optim.lr: 0.01 -> 0.02", since the start before
};

struct RunEnd {
  int64_t step = 0;
  std::string date;
  std::string trouble;  // why it ended before its last step; empty: it did not
  std::vector<telemetry::ReportInputs::Fact> facts;
  std::vector<telemetry::ReportInputs::Sample> samples;
  std::vector<std::string> timelines;
};

struct RunHistory {
  std::vector<RunStart> starts;  // starts[i] describes the steps after it, up to the next start
  std::optional<RunEnd> end;     // absent: the run goes on, or was killed
};

/// Empty for the directory of an older program. Throws Error(data) when the file cannot be understood.
RunHistory read_history(const std::filesystem::path& dir);

/// Adds a start that is about to train its first step, and writes `recipe` to recipe_of_start(). Removes the records of
/// later steps, which run again: metrics.jsonl is cut likewise. Throws Error(resource).
void record_start(const std::filesystem::path& dir, const RunStart& start, const std::string& recipe);
/// A start that trained no step since the end before adds its samples, and that the trouble is over; how the steps ran,
/// it cannot say. Throws Error(resource).
void record_end(const std::filesystem::path& dir, const RunEnd& end);

/// Path of a start's recipe: "recipe-00000040.yaml" for one after step 40.
std::filesystem::path recipe_of_start(const std::filesystem::path& dir, const RunStart& start);

/// "2026-11-24 03:05 UTC".
std::string utc_now();

}  // namespace hexad::train
