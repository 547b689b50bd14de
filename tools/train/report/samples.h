// Sample texts of a trained model for its report.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/data/training_data.h"
#include "framework/telemetry/report.h"
#include "tools/train/model/model_instance.h"

namespace hexad::train {

using Samples = std::vector<telemetry::ReportInputs::Sample>;

/// Returns the continuations of run.prompts and run.heldout_prompts by the model of a run that ended after `step`.
/// Returns no samples without a tokenizer or for an encoder. The ranks generate the texts together in the run's layout.
/// Ranks that share sequences (parallel.cp above 1) cannot, so rank 0 then loads the whole model from that step's
/// checkpoint. `warn` receives warnings about cut prompts, and the reasons for missing samples. Collective.
Samples samples_of_run(const Recipe& recipe, ModelInstance& instance, const data::TrainingData& data, int64_t step,
                       const std::function<void(const std::string&)>& warn);

}  // namespace hexad::train
