// Samples text from a decoder.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/data/packed_source.h"
#include "framework/data/tokenizer.h"
#include "tools/train/model/model_instance.h"

namespace hexad::train {

struct SamplingOptions {
  int64_t max_tokens = 200;
  double temperature = 0.8;  // 0: always the most probable token
  int64_t top_k = 0;         // 0: no limit
  double top_p = 1;  // samples from the smallest set of most probable tokens with at least this total probability
  uint64_t seed = 1;
  std::vector<int32_t> stop_ids{};     // each of these ids ends the text and is not part of the text
  int64_t vocabulary = 0;              // ids from this number on are padding and never chosen; 0: no padding
  std::vector<int32_t> end_of_turn{};  // this sequence of ids ends the text and is not part of the text
  int64_t together = 8;                // largest number of prompts in one forward pass
};

/// Reason why a generated text ended.
/// - end_of_turn: the text ended with the ids SamplingOptions::end_of_turn
/// - end_of_document: one of SamplingOptions::stop_ids was chosen, but does not complete end_of_turn
/// - max_tokens: the text has SamplingOptions::max_tokens ids
/// - context: the prompt and the text without its last id fill the model's context
enum class Stop : uint8_t { end_of_document, end_of_turn, max_tokens, context };
constexpr auto enum_names(Stop) {
  return std::to_array<std::pair<Stop, std::string_view>>({{Stop::end_of_document, "end_of_document"},
                                                           {Stop::end_of_turn, "end_of_turn"},
                                                           {Stop::max_tokens, "max_tokens"},
                                                           {Stop::context, "context"}});
}

struct Continuation {
  std::vector<int32_t> ids{};
  Stop stop = Stop::max_tokens;
};

/// Receives the index of a prompt and an id of its continuation.
using OnToken = std::function<void(size_t prompt, int32_t id)>;

/// Adds the id that precedes a text in training to the beginning of `ids`, the ids of a prompt's text. Returns the
/// result. The added id is the tokenizer's beginning-of-document or, if there is none, its end-of-document. The id is
/// not added if `ids` already begin with this id. Under Packing::isolated, end-of-document is added only if `ids` is
/// empty, because a prompt needs an id.
std::vector<int32_t> begin_prompt(const data::Tokenizer& tokenizer, std::vector<int32_t> ids, data::Packing packing);
/// Returns the ids of a prompt for generate(): begin_prompt() with the ids of `text`.
std::vector<int32_t> prompt_of(const data::Tokenizer& tokenizer, std::string_view text, data::Packing packing);
/// Returns the largest number of prompt ids that generate() uses with this context: one less than the context, but at
/// least 1. If the context is at least 2, two ids can follow such a prompt, because the last generated id is no input.
int64_t longest_prompt(int64_t context);
/// Returns a warning with the length of the text that is cut off because `prompt` is longer than longest_prompt().
/// Returns an empty text if no text is cut off. The id that begin_prompt() added may still be cut off, because this id
/// has no text. `prompt` is a result of prompt_of().
std::string warn_of_cut(const data::Tokenizer& tokenizer, std::span<const int32_t> prompt, int64_t context);

/// Continues each prompt until one of stop_ids, end_of_turn, max_tokens or the model's context ends its text. A prompt
/// has at least one id. If a prompt is longer than longest_prompt(), only its end is used. Keys and values of earlier
/// tokens are cached, so each token after the first costs a forward pass of one token. A forward pass may continue
/// several prompts, but the continuation of a prompt does not depend on the other prompts. Calls `on_token` (may be
/// empty) with each chosen id, except for stop_ids and the last id of end_of_turn. Collective: all ranks pass the same
/// arguments and get the same ids. Throws Error(usage) if ranks share sequences (parallel.cp above 1).
std::vector<Continuation> generate_each(ModelInstance& instance, std::span<const std::vector<int32_t>> prompts,
                                        const SamplingOptions& options, const OnToken& on_token = {});
/// Returns the largest number of tokens whose keys and values generate_each() caches at the same time.
int64_t cached_tokens(const layers::ModelConfig& model, std::span<const std::vector<int32_t>> prompts,
                      const SamplingOptions& options);
/// Continues one prompt like generate_each(). Returns the ids of the continuation.
std::vector<int32_t> generate(ModelInstance& instance, std::span<const int32_t> prompt, const SamplingOptions& options,
                              const std::function<void(int32_t)>& on_token = {});

/// Samples an id from logits[V] after applying temperature, top-k and top-p, in this order. `uniform` is a random
/// number in [0, 1).
int32_t sample(std::span<const float> logits, const SamplingOptions& options, double uniform);

}  // namespace hexad::train
