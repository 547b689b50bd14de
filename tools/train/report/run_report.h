// report.html of a run.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "framework/data/training_data.h"
#include "framework/telemetry/report.h"
#include "tools/train/model/model_instance.h"
#include "tools/train/report/run_history.h"

namespace hexad::train {

/// The model's continuations of run.prompts and run.heldout_prompts; none without a tokenizer or for an encoder. `warn`
/// is told of a prompt that is cut. Collective.
std::vector<telemetry::ReportInputs::Sample> continue_prompts(const Recipe& recipe, ModelInstance& instance,
                                                              const data::TrainingData& data,
                                                              const std::function<void(const std::string&)>& warn);

/// Facts of a report about the program, the machine and the layout of a start.
std::vector<telemetry::ReportInputs::Fact> facts_of_start(const Recipe& recipe, int ranks);

/// The highest bytes of the steps after `step`, by category: those before may have run in another layout.
std::map<std::string, int64_t> measured_memory(const std::filesystem::path& run_dir, int64_t step);

/// Writes the report of a run directory from what lies there: metrics.jsonl, history.json and the recipe of the newest
/// start that trained a step. An empty `output` is its report.html. Throws Error(usage) when it is no run directory,
/// Error(data) when no step was trained.
void write_run_report(const std::filesystem::path& run_dir, const std::filesystem::path& output = {});

}  // namespace hexad::train
