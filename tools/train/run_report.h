// report.html of a run.
#pragma once

#include <string>
#include <vector>

#include "framework/data/tokenizer.h"
#include "framework/telemetry/report.h"
#include "tools/train/model_instance.h"
#include "tools/train/schedule_adviser.h"

namespace hexad::train {

/// The model's continuations of run.prompts; none without a tokenizer or for an encoder. Collective.
std::vector<telemetry::ReportInputs::Sample> continue_prompts(const Recipe& recipe, ModelInstance& instance,
                                                              const data::Tokenizer* tokenizer);

/// Writes run.dir/report.html. `peak_flops` is that of all ranks; the adviser may be null.
void write_run_report(const Recipe& recipe, const telemetry::RunInfo& info,
                      const std::vector<telemetry::ReportInputs::Sample>& samples, double peak_flops,
                      const ScheduleAdviser* adviser);

}  // namespace hexad::train
