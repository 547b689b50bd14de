// Prompts from held-out text, and texts that a trained model generates for its report.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/data/source.h"
#include "framework/data/tokenizer.h"
#include "framework/data/training_data.h"
#include "framework/telemetry/report.h"
#include "tools/train/model/model_instance.h"

namespace hexad::train {

/// Returns at most `count` different prompts from evenly spaced positions in `heldout`. A prompt has at most forty
/// bytes. The prompt is the beginning of a document near the position or, if no document begins there, the text at the
/// position. Equal arguments give equal prompts.
std::vector<std::string> heldout_prompts(const data::Source& heldout, const data::Tokenizer& tokenizer, int64_t count);

using Samples = std::vector<telemetry::ReportInputs::Sample>;

/// Continues run.prompts, and heldout_prompts() if run.heldout_prompts is above 0, with the model of a run that ended
/// after `step`. Returns the resulting texts, or none for an encoder or without a tokenizer. The ranks generate the
/// texts together in the run's layout. Ranks that share sequences (parallel.cp above 1) cannot generate text. In this
/// case, rank 0 loads the whole model from the checkpoint of `step`, and the other ranks return none. `warn` receives
/// warnings about cut prompts and reasons for missing samples. Collective.
Samples samples_of_run(const Recipe& recipe, ModelInstance& instance, const data::TrainingData& data, int64_t step,
                       const std::function<void(const std::string&)>& warn);

}  // namespace hexad::train
