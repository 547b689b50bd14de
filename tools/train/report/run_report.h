// Writes report.html of a run.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/telemetry/report.h"
#include "tools/train/recipe/recipe.h"
#include "tools/train/report/run_history.h"

namespace hexad::train {

/// Returns the report's facts about this start: program, command, machine, layout and source of the peak for MFU.
std::vector<telemetry::ReportInputs::Fact> facts_of_start(const Recipe& recipe, int ranks);

/// Returns the peak memory in bytes of the steps after `step`, by category. Earlier steps may have had another layout.
std::map<std::string, int64_t> measured_memory(const std::filesystem::path& run_dir, int64_t step);

/// Writes the report of a run to `output` or, if `output` is empty, to the run directory's report.html. The report is
/// made from metrics.jsonl, history.json and the recipe of the newest start that trained a step. It shows `prediction`
/// if there is one. Throws Error(usage) if the folder is not a run directory, or if the program was built without
/// Chart.js. Throws Error(data) if no step was trained, and Error(resource) if the report cannot be written.
void write_run_report(const std::filesystem::path& run_dir, const std::filesystem::path& output = {},
                      std::optional<telemetry::ReportInputs::Prediction> prediction = {});

}  // namespace hexad::train
