#include "tools/train/model/generation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "framework/base/counted.h"
#include "framework/base/philox.h"
#include "framework/tensor/host_read.h"

namespace hexad::train {

using namespace autograd;
using namespace base;
using namespace layers;
using namespace tensor;
namespace {

// Returns the next `ids` of one sequence as a micro-batch, at positions from `cached` on.
MicroBatch next_tokens(std::span<const int32_t> ids, int64_t cached, Device device) {
  const auto n = static_cast<int64_t>(ids.size());
  std::vector<int32_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(cached));
  MicroBatch batch;
  batch.sequences = 1, batch.length = n;
  batch.ids = Tensor::from<int32_t>(ids, {n}, device);
  batch.positions = Tensor::from<int32_t>(positions, {n}, device);
  batch.first_token = cached;
  return batch;
}

}  // namespace

int32_t sample(std::span<const float> logits, const SamplingOptions& options, double uniform) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](int32_t id) {
    const float l = logits[id];
    return std::isnan(l) ? -std::numeric_limits<float>::infinity() : l;  // a NaN would make the order undefined
  };
  // Ties select the lower id, because the choice must be the same on every machine.
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logit(a) > logit(b); });
  if (options.temperature <= 0) return order.front();
  if (options.top_k > 0 && options.top_k < static_cast<int64_t>(order.size())) order.resize(options.top_k);

  std::vector<double> weights;
  for (int32_t id : order)
    weights.push_back(
        std::exp((static_cast<double>(logit(id)) - static_cast<double>(logit(order.front()))) / options.temperature));
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double reached = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    reached += weights[i];
    if (reached >= options.top_p * total) {
      weights.resize(i + 1);
      total = reached;
      break;
    }
  }
  double point = uniform * total;
  for (size_t i = 0; i + 1 < weights.size(); ++i) {
    if (point < weights[i]) return order[i];
    point -= weights[i];
  }
  return order[weights.size() - 1];
}

std::vector<int32_t> prompt_of(const data::Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids{tokenizer.beginning_of_document().value_or(tokenizer.end_of_document())};
  const std::vector<int32_t> tokens = tokenizer.encode(text);
  ids.insert(ids.end(), tokens.begin(), tokens.end());
  return ids;
}

int64_t longest_prompt(int64_t context) { return std::max<int64_t>(1, context - 1); }

std::string warn_of_cut(const data::Tokenizer& tokenizer, std::span<const int32_t> prompt, int64_t context) {
  const std::span<const int32_t> text = prompt.subspan(1);
  const int64_t tokens = std::ssize(text), cut = tokens - longest_prompt(context);
  if (cut <= 0) return {};
  const size_t bytes = tokenizer.decode(text.first(cut)).size();
  return cat("the prompt has ", counted(tokens, "token"), ", but the model's context (model.context: ", context,
             ") takes ", tokens - cut, ": the first ", cut, " (", counted(bytes, "byte"), " of text) ",
             cut == 1 ? "is" : "are", " cut off");
}

std::vector<int32_t> generate(ModelInstance& instance, std::span<const int32_t> prompt, const SamplingOptions& options,
                              const std::function<void(int32_t)>& on_token) {
  const int64_t context = instance.model.config().context;
  require(!prompt.empty(), "[generate] the prompt is empty");
  prompt = prompt.last(std::min(std::ssize(prompt), longest_prompt(context)));
  KeyValueCache cache = instance.model.make_cache(context, instance.context);
  const Philox random(options.seed, Purpose::sample);
  const auto policy = keep_policy();
  std::vector<int32_t> out, next(prompt.begin(), prompt.end());
  while (static_cast<int64_t>(out.size()) < options.max_tokens &&
         cache.length + static_cast<int64_t>(next.size()) <= context) {
    const MicroBatch batch = next_tokens(next, cache.length, instance.context);
    Tape tape(instance.context.compute(), *policy, Tape::Mode::forget);
    const Tensor logits = instance.model.logits(tape, {.batch = batch, .cache = &cache});
    cache.length += batch.length;
    const Tensor last = logits.slice(0, batch.length - 1, batch.length);
    std::vector<float> row(last.dim(1));
    with_dtype<float, double>("generate", last.dtype(), [&]<class T>() {
      const HostRead read = read_to_host("generation: logits", last, instance.context.compute());
      const auto values = read.wait<T>();
      std::transform(values.begin(), values.end(), row.begin(), [](T x) { return static_cast<float>(x); });
    });
    // The first rank chooses the id for all ranks. Other ranks may round the same matrix product differently. Ranks
    // with different choices would wait for each other forever in the experts' exchange.
    if (options.vocabulary > 0) row.resize(std::min<int64_t>(row.size(), options.vocabulary));
    const int64_t choice[] = {sample(row, options, random.uniform_double(out.size()))};
    const auto id = static_cast<int32_t>(instance.mesh.world().all_gather_values(choice, instance.context).front());
    if (id == options.stop_id) break;
    out.push_back(id);
    if (on_token) on_token(id);
    next = {id};
  }
  return out;
}

}  // namespace hexad::train
