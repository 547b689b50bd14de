#include "tools/train/model/generation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "framework/base/counted.h"
#include "framework/base/philox.h"
#include "tools/train/model/token_pass.h"

namespace hexad::train {

using namespace base;
using namespace layers;
namespace {

// A prompt and its continuation so far.
struct Sequence {
  size_t prompt;  // index of the prompt
  std::vector<int32_t> next;
  KeyValueCache cache;
  Continuation made{};
  bool done = false;
};

bool ends_with(std::span<const int32_t> ids, std::span<const int32_t> end) {
  return !end.empty() && ids.size() >= end.size() && std::ranges::equal(ids.last(end.size()), end);
}

// Returns the capacity of the cache in tokens: a prompt of `ids` tokens and its continuation, at most `context`.
int64_t cache_length(int64_t ids, const SamplingOptions& options, int64_t context) {
  const int64_t used = std::min(ids, longest_prompt(context));
  return used + std::clamp<int64_t>(options.max_tokens, 0, context - used);
}

// Prompts whose continuations are computed in the same forward passes. Before that, each prompt is computed in a
// separate pass.
class Group {
 public:
  Group(ModelInstance& instance, const SamplingOptions& options, const OnToken& on_token)
      : instance_(instance), options_(options), on_token_(on_token), passes_(instance) {}

  void add(size_t prompt, std::span<const int32_t> ids) {
    require(!ids.empty(), "[generate] prompt ", prompt, " has no ids; expected at least one");
    const int64_t context = instance_.model.config().context, length = cache_length(std::ssize(ids), options_, context);
    ids = ids.last(std::min(std::ssize(ids), longest_prompt(context)));
    sequences_.push_back({prompt, {ids.begin(), ids.end()}, instance_.model.make_cache(length, instance_.context)});
  }

  std::vector<Sequence> run() {
    for (Sequence& s : sequences_)
      if (Sequence* const one[] = {&s}; goes_on(s)) step(one);
    while (true) {
      std::vector<Sequence*> open;
      for (Sequence& s : sequences_)
        if (!s.done && goes_on(s)) open.push_back(&s);
      if (open.empty()) return std::move(sequences_);
      step(open);
    }
  }

 private:
  // True if the text can get another id. If the text has max_tokens ids, or if its sequence fills the context, sets
  // `done` and the reason, and returns false.
  bool goes_on(Sequence& s) const {
    const bool enough = std::ssize(s.made.ids) >= options_.max_tokens;
    const bool full = s.cache.length + std::ssize(s.next) > instance_.model.config().context;
    if (enough || full) s.done = true, s.made.stop = enough ? Stop::max_tokens : Stop::context;
    return !s.done;
  }

  void step(std::span<Sequence* const> of) {
    std::vector<KeyValueCache*> caches;
    std::vector<int32_t> ids;
    for (Sequence* s : of) {
      caches.push_back(&s->cache);
      ids.insert(ids.end(), s->next.begin(), s->next.end());
    }
    const std::vector<int32_t> chosen = agreed(of, passes_.run(caches, ids));
    for (size_t i = 0; i < of.size(); ++i) take(*of[i], chosen[i]);
  }

  // Returns on all ranks the ids chosen by the first rank that has logits. If each rank chose for itself, ranks that
  // round a matrix product differently could choose different ids. These ranks would then wait for each other forever
  // in the all-to-all of experts.
  std::vector<int32_t> agreed(std::span<Sequence* const> of, std::vector<std::vector<float>> logits) const {
    const int64_t vocabulary = options_.vocabulary;
    std::vector<int64_t> mine(of.size(), -1);
    for (size_t i = 0; i < logits.size(); ++i) {
      if (vocabulary > 0) logits[i].resize(std::min<int64_t>(std::ssize(logits[i]), vocabulary));
      mine[i] = sample(logits[i], options_, random_.uniform_double(of[i]->made.ids.size()));
    }
    const std::vector<int64_t> all = instance_.mesh.world().all_gather_values(mine, instance_.context);
    size_t first = 0;
    while (all[first] < 0) first += of.size();
    return {all.begin() + static_cast<std::ptrdiff_t>(first),
            all.begin() + static_cast<std::ptrdiff_t>(first + of.size())};
  }

  void take(Sequence& s, int32_t id) const {
    std::vector<int32_t>& ids = s.made.ids;
    ids.push_back(id);
    if (ends_with(ids, options_.end_of_turn)) {
      ids.resize(ids.size() - options_.end_of_turn.size());
      s.done = true, s.made.stop = Stop::end_of_turn;
      return;
    }
    if (std::ranges::find(options_.stop_ids, id) != options_.stop_ids.end()) {
      ids.pop_back();
      s.done = true, s.made.stop = Stop::end_of_document;
      return;
    }
    s.next = {id};
    if (on_token_) on_token_(s.prompt, id);
  }

  ModelInstance& instance_;
  const SamplingOptions& options_;
  const OnToken& on_token_;
  TokenPasses passes_;
  const Philox random_{options_.seed, Purpose::sample};
  std::vector<Sequence> sequences_;
};

// Returns the id that may precede the text of a prompt.
int32_t first_of_prompt(const data::Tokenizer& tokenizer) {
  return tokenizer.beginning_of_document().value_or(tokenizer.end_of_document());
}

// Returns the largest number of prompts in one forward pass. The number is 1 if experts have a capacity, or if the
// model's own router does not choose the experts (model.moe.routing). In these cases, a prompt's text would depend on
// other prompts in the same pass.
size_t prompts_together(const ModelConfig& model, const SamplingOptions& options) {
  const moe::MoeConfig& moe = model.moe;
  const bool apart = moe.experts > 0 && (moe.capacity_factor || moe.routing != moe::Routing::model);
  return apart ? 1 : static_cast<size_t>(std::max<int64_t>(1, options.together));
}

}  // namespace

int32_t sample(std::span<const float> logits, const SamplingOptions& options, double uniform) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](int32_t id) {
    const float l = logits[id];
    return std::isnan(l) ? -std::numeric_limits<float>::infinity() : l;  // a NaN would make the order undefined
  };
  // The sort is stable, so the lower id wins a tie on every machine.
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

std::vector<int32_t> begin_prompt(const data::Tokenizer& tokenizer, std::vector<int32_t> ids, data::Packing packing) {
  const bool begins = tokenizer.beginning_of_document() || packing == data::Packing::joined || ids.empty();
  const int32_t first = first_of_prompt(tokenizer);
  if (begins && (ids.empty() || ids.front() != first)) ids.insert(ids.begin(), first);
  return ids;
}

std::vector<int32_t> prompt_of(const data::Tokenizer& tokenizer, std::string_view text, data::Packing packing) {
  return begin_prompt(tokenizer, tokenizer.encode(text), packing);
}

int64_t longest_prompt(int64_t context) { return std::max<int64_t>(1, context - 1); }

std::string warn_of_cut(const data::Tokenizer& tokenizer, std::span<const int32_t> prompt, int64_t context) {
  const bool begins = !prompt.empty() && prompt.front() == first_of_prompt(tokenizer);
  const std::span<const int32_t> text = prompt.subspan(begins ? 1 : 0);
  const int64_t tokens = std::ssize(text), cut = tokens - longest_prompt(context);
  if (cut <= 0) return {};
  const size_t bytes = tokenizer.decode(text.first(cut)).size();
  return cat("the prompt has ", counted(tokens, "token"), ", but the model's context (model.context: ", context,
             ") takes ", tokens - cut, ": the first ", cut, " (", counted(bytes, "byte"), " of text) ",
             cut == 1 ? "is" : "are", " cut off");
}

std::vector<Continuation> generate_each(ModelInstance& instance, std::span<const std::vector<int32_t>> prompts,
                                        const SamplingOptions& options, const OnToken& on_token) {
  std::vector<Continuation> out;
  const size_t together = prompts_together(instance.model.config(), options);
  for (size_t begin = 0; begin < prompts.size(); begin += together) {
    Group group(instance, options, on_token);
    for (size_t p = begin; p < std::min(prompts.size(), begin + together); ++p) group.add(p, prompts[p]);
    for (Sequence& s : group.run()) out.push_back(std::move(s.made));
  }
  return out;
}

int64_t cached_tokens(const ModelConfig& model, std::span<const std::vector<int32_t>> prompts,
                      const SamplingOptions& options) {
  const size_t together = prompts_together(model, options);
  int64_t most = 0;
  for (size_t begin = 0; begin < prompts.size(); begin += together) {
    int64_t tokens = 0;
    for (size_t p = begin; p < std::min(prompts.size(), begin + together); ++p)
      tokens += cache_length(std::ssize(prompts[p]), options, model.context);
    most = std::max(most, tokens);
  }
  return most;
}

std::vector<int32_t> generate(ModelInstance& instance, std::span<const int32_t> prompt, const SamplingOptions& options,
                              const std::function<void(int32_t)>& on_token) {
  const std::vector<std::vector<int32_t>> prompts{{prompt.begin(), prompt.end()}};
  const OnToken take = on_token ? OnToken([&](size_t, int32_t id) { on_token(id); }) : OnToken();
  return generate_each(instance, prompts, options, take).front().ids;
}

}  // namespace hexad::train
