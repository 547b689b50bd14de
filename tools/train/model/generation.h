// Samples text from a decoder.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "framework/data/tokenizer.h"
#include "tools/train/model/model_instance.h"

namespace hexad::train {

struct SamplingOptions {
  int64_t max_tokens = 200;
  double temperature = 0.8;  // 0: always the most probable token
  int64_t top_k = 0;         // 0: no limit
  double top_p = 1;          // keeps the smallest set of most probable tokens whose probabilities reach this sum
  uint64_t seed = 1;
  int32_t stop_id = -1;    // this id ends the text and is not part of it
  int64_t vocabulary = 0;  // larger ids have no text and are never chosen (a padded vocabulary); 0: all ids have text
};

/// Returns the ids of a prompt for generate(): the id that precedes every text, and the tokens of `text`. The first is
/// the tokenizer's beginning-of-document or, if it has none, its end-of-document.
std::vector<int32_t> prompt_of(const data::Tokenizer& tokenizer, std::string_view text);
/// Returns the largest number of prompt ids that generate() uses with this context. It is one less than the context,
/// which leaves room for two generated ids.
int64_t longest_prompt(int64_t context);
/// Returns a warning if a prompt from prompt_of() is longer than longest_prompt(), with the length of the text that is
/// cut off; otherwise an empty text.
std::string warn_of_cut(const data::Tokenizer& tokenizer, std::span<const int32_t> prompt, int64_t context);

/// Continues `prompt` until stop_id, max_tokens or the model's context. `prompt` has at least one id; if it is longer
/// than longest_prompt(), only its end is used. Keys and values of earlier tokens are cached, so each token costs one
/// forward pass of one token. Calls `on_token` (may be empty) with each chosen id. Collective if experts are spread
/// over ranks: all ranks pass the same arguments and get the same ids.
std::vector<int32_t> generate(ModelInstance& instance, std::span<const int32_t> prompt, const SamplingOptions& options,
                              const std::function<void(int32_t)>& on_token = {});

/// Chooses an id from logits[V] with `uniform` in [0, 1): applies temperature, then top-k, then top-p.
int32_t sample(std::span<const float> logits, const SamplingOptions& options, double uniform);

}  // namespace hexad::train
