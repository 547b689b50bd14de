// Reads and writes history.json of a run directory. The file records every start and the end of the run. report.html is
// made from history.json, metrics.jsonl and the recipes.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/telemetry/report.h"

namespace hexad::train {

struct RunStart {
  telemetry::RunInfo run;  // run.first_step is the last step before this start
  std::string date, layout;
  std::vector<telemetry::ReportInputs::Fact> facts;  // version, host, command, ...
  // The stage of training, if there are stages, and changes since the checkpoint: "optim.lr: 0.01 -> 0.02".
  std::vector<std::string> changes;
};

struct RunEnd {
  int64_t step = 0;
  std::string date;
  std::string trouble;  // reason why the run ended before its last step; empty if the run trained all steps
  std::vector<telemetry::ReportInputs::Fact> facts;
  std::vector<telemetry::ReportInputs::Sample> samples;
  std::vector<std::string> timelines;
};

struct RunHistory {
  std::vector<RunStart> starts;  // starts[i] describes the steps between start i and the next start
  std::optional<RunEnd> end;     // none: the run continues, or was killed
};

/// Outcome of a run, according to its history.
///   - unknown: no start is recorded, because an older program trained, or because no step has begun
///   - no_end: the run is still training, or was killed
///   - failed, preempted, finished: as recorded
enum class Outcome : uint8_t { unknown, no_end, failed, preempted, finished };

constexpr auto enum_names(Outcome) {
  return std::to_array<std::pair<Outcome, std::string_view>>({{Outcome::unknown, "unknown"},
                                                              {Outcome::no_end, "no end recorded"},
                                                              {Outcome::failed, "failed"},
                                                              {Outcome::preempted, "preempted"},
                                                              {Outcome::finished, "finished"}});
}
std::string_view name_of(Outcome outcome);

struct RunEnding {
  Outcome outcome = Outcome::unknown;
  std::string trouble = {};  // sentence with the reason why the run did not finish; empty: finished, or unknown
};

RunEnding ending_of(const RunHistory& history);

/// First words of RunEnd::trouble. ending_of() derives the outcome from them.
inline constexpr std::string_view trouble_of_failure = "The run failed",
                                  trouble_of_preemption = "The run was preempted";

/// Reads the history. Returns an empty history if there is no history.json, which older programs did not write. Throws
/// Error(data) if the file cannot be parsed.
RunHistory read_history(const std::filesystem::path& dir);

/// Adds `start` to the history, and writes `recipe` to recipe_of_start(). Called before the first step of the start.
/// Removes starts that are not earlier than the new start, because their steps will run again. Also removes the
/// recorded end. Throws Error(data) like read_history(), and Error(resource) if a file cannot be written.
void record_start(const std::filesystem::path& dir, const RunStart& start, const std::string& recipe);
/// Records the end of a run. If an end after the same step is already recorded, keeps the recorded end. In this case,
/// replaces the recorded samples if `end` has samples, and clears the recorded trouble if `end` has no trouble. Throws
/// like record_start().
void record_end(const std::filesystem::path& dir, const RunEnd& end);

/// Returns the path of a start's recipe: DIR/recipe-00000040.yaml for a start after step 40.
std::filesystem::path recipe_of_start(const std::filesystem::path& dir, const RunStart& start);

/// Returns the current time as "2026-11-24 03:05 UTC".
std::string utc_now();

}  // namespace hexad::train
