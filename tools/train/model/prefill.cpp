#include "tools/train/model/prefill.h"

#include <algorithm>

#include "framework/base/clock.h"
#include "framework/base/philox.h"

namespace hexad::train {

using namespace base;

Prefill::Prefill(ModelInstance& instance, const PromptBatch& batch, uint64_t seed)
    : instance_(instance), batch_(batch), passes_(instance) {
  const layers::ModelConfig& model = instance.model.config();
  require(batch.prompts > 0 && batch.length > 0 && batch.length <= model.context, "[prefill] the batch has ",
          batch.prompts, " prompts of ", batch.length, " tokens; expected at least one prompt of 1 to ", model.context,
          " tokens (model.context)");
  const Philox random(seed, Purpose::synthetic, "prompts");
  const int64_t first = instance.mesh.coordinate(Axis::dp) * batch.prompts;
  for (int64_t p = 0; p < batch.prompts; ++p)
    for (int64_t t = 0; t < batch.length; ++t)
      ids_.push_back(static_cast<int32_t>(
          random.below(static_cast<uint64_t>((first + p) * model.context + t), static_cast<uint64_t>(model.vocab))));
}

// Returns the ids [begin, end) of all prompts.
std::vector<int32_t> Prefill::ids_of(int64_t begin, int64_t end) const {
  std::vector<int32_t> out;
  for (int64_t p = 0; p < batch_.prompts; ++p)
    out.insert(out.end(), ids_.begin() + p * batch_.length + begin, ids_.begin() + p * batch_.length + end);
  return out;
}

Prefill::Result Prefill::run() {
  std::vector<KeyValueCache> owned;  // new caches, because a delta net begins with the state in its cache
  for (int64_t p = 0; p < batch_.prompts; ++p)
    owned.push_back(instance_.model.make_cache(batch_.length, instance_.context));
  std::vector<KeyValueCache*> caches;
  for (KeyValueCache& cache : owned) caches.push_back(&cache);
  const comm::ProcessGroup& world = instance_.mesh.world();
  device::Stream& stream = instance_.context.compute();
  world.barrier(stream).wait();
  const double start = now();
  const int64_t step = batch_.pass_length();
  int64_t begin = 0;
  for (; batch_.length - begin > step; begin += step) passes_.append(caches, ids_of(begin, begin + step));
  Result result;
  for (const std::vector<float>& logits : passes_.run(caches, ids_of(begin, batch_.length)))
    result.first.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
  stream.synchronize();
  result.seconds = world.all_reduce_value(now() - start, comm::Reduce::max, instance_.device());
  return result;
}

}  // namespace hexad::train
