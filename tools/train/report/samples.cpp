#include "tools/train/report/samples.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "framework/base/units.h"
#include "framework/base/utf8.h"
#include "framework/config/words.h"
#include "layers/model_size.h"
#include "parallel/comm/self_group.h"
#include "tools/train/checkpoint/checkpointing.h"
#include "tools/train/model/generation.h"
#include "tools/train/process/machine_memory.h"

namespace hexad::train {

using namespace base;
using namespace layers;

namespace {

using Warn = std::function<void(const std::string&)>;

Samples continue_prompts(const Recipe& recipe, ModelInstance& instance, const data::TrainingData& data,
                         const std::function<void(const std::string&)>& warn) {
  Samples samples;
  if (!data.tokenizer || recipe.model.kind == ModelKind::encoder) return samples;
  const data::Tokenizer& tokenizer = *data.tokenizer;
  std::vector<std::string> prompts = recipe.run.prompts;
  if (data.heldout && recipe.run.heldout_prompts > 0)
    std::ranges::move(heldout_prompts(*data.heldout, tokenizer, recipe.run.heldout_prompts),
                      std::back_inserter(prompts));
  for (const std::string& prompt : prompts) {
    const std::vector<int32_t> ids = prompt_of(tokenizer, prompt, recipe.data.packing);
    if (const std::string cut = warn_of_cut(tokenizer, ids, recipe.model.context); !cut.empty())
      warn(fmt::format("sample '{}': {}", config::shown(prompt), cut));
    SamplingOptions options;
    options.seed = recipe.train.seed;
    options.stop_ids = {tokenizer.end_of_document()};
    options.vocabulary = tokenizer.vocab_size();
    samples.push_back({prompt, valid_utf8(tokenizer.decode_after(prompt, generate(instance, ids, options)))});
  }
  return samples;
}

// Returns a reason if the memory does not suffice for the whole model in addition to this run; otherwise an empty text.
// The whole model needs memory for its weights. Reading needs additional memory for two copies of the largest tensor in
// the checkpoint's dtype.
std::string exceeds_memory_limit(const Recipe& alone, const ModelInstance& instance) {
  const auto saved = static_cast<double>(size_of(accumulator_dtype(dtype_of(alone.train.precision))));
  const auto parameters = static_cast<double>(model_size(alone.model, instance.extensions).parameters);
  double largest = 0;
  for (const auto& p : instance.parameters) largest = std::max(largest, static_cast<double>(p->global_shape().numel()));
  const double needed =
      parameters * static_cast<double>(size_of(dtype_of(alone.train.precision))) + 2 * saved * largest;
  const auto short_of = [&](double room, std::string_view what) {
    return fmt::format("the whole model takes about {}, but only {} of {} is left", human_bytes(needed),
                       human_bytes(std::max(room, 0.0)), what);
  };
  const auto limit = static_cast<double>(alone.memory.limit());
  const double own_room = limit - static_cast<double>(instance.context.allocator()->stats().total);
  if (limit > 0 && needed > own_room) return short_of(own_room, "memory.limit_bytes");
  const auto room = static_cast<double>(available_memory_bytes());
  if (alone.device == device::DeviceKind::cpu && needed > room) return short_of(room, "the machine's memory");
  return {};
}

Samples samples_of_checkpoint(const Recipe& recipe, const ModelInstance& instance, const data::TrainingData& data,
                              int64_t step, const Warn& warn) {
  auto checkpoint = io::CheckpointStore(recipe.run.dir + "/checkpoints", {}).find(io::Resume{}, io::Check::quick);
  if (!checkpoint || checkpoint->step() != step) {
    warn(
        "no samples in the report: with cp above 1, samples need a checkpoint of the last step, but none was saved; "
        "set checkpoint.at_end: true");
    return {};
  }
  Recipe alone = recipe;
  alone.parallel = {};
  if (const std::string reason = exceeds_memory_limit(alone, instance); !reason.empty()) {
    warn("no samples in the report: " + reason + "; to make samples, run `hexad generate` with enough memory");
    return {};
  }
  const comm::SelfGroup self;
  ModelInstance whole(alone, instance.extensions, self);
  Checkpointer::load_weights(*checkpoint, whole);
  return continue_prompts(alone, whole, data, warn);
}

}  // namespace

Samples samples_of_run(const Recipe& recipe, ModelInstance& instance, const data::TrainingData& data, int64_t step,
                       const Warn& warn) {
  if (recipe.parallel.cp == 1) return continue_prompts(recipe, instance, data, warn);
  const bool wanted = !recipe.run.prompts.empty() || recipe.run.heldout_prompts > 0;
  if (instance.mesh.world().rank() != 0 || !wanted) return {};
  try {
    return samples_of_checkpoint(recipe, instance, data, step, warn);
  } catch (const Error& e) {  // the run is complete and must not fail now
    warn(cat("no samples in the report: ", e.what()));
    return {};
  }
}

}  // namespace hexad::train
