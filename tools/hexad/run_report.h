// report.html of a run.
#pragma once

#include <string>
#include <vector>

#include "framework/data/tokenizer.h"
#include "framework/telemetry/report.h"
#include "tools/hexad/model_instance.h"

namespace hexad::app {

/// The model's continuations of run.prompts; none without a tokenizer or for an encoder. Collective.
std::vector<telemetry::ReportInputs::Sample> continue_prompts(const Recipe& recipe, ModelInstance& instance,
                                                              const data::Tokenizer* tokenizer);

/// Writes run.dir/report.html. `schedule`: of the MoE layers, as it was chosen. `timelines`: SVG of the recorded
/// schedule. `peak_flops` is that of all ranks.
void write_run_report(const Recipe& recipe, const moe::MoeSchedule& schedule, const telemetry::RunInfo& info,
                      const std::vector<telemetry::ReportInputs::Sample>& samples,
                      const std::vector<std::string>& timelines, double peak_flops);

}  // namespace hexad::app
