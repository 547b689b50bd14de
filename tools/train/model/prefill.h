// Prefill: the forward passes over prompts that compute the first token of each answer.
#pragma once

#include <vector>

#include "tools/train/model/token_pass.h"

namespace hexad::train {

/// Prompts that are computed together.
struct PromptBatch {
  int64_t prompts = 1;  // prompts of each data-parallel rank
  int64_t length = 1;   // tokens of each prompt
  int64_t chunk = 0;  // largest number of tokens of a prompt in one forward pass (chunked prefill); 0: the whole prompt

  /// Returns the number of tokens of a prompt in the largest forward pass.
  int64_t pass_length() const { return chunk > 0 && chunk < length ? chunk : length; }
  /// Returns the number of forward passes.
  int64_t passes() const { return (length + pass_length() - 1) / pass_length(); }
};

/// Computes the first answer token of each prompt of a batch. The prompts have random ids. The ids do not depend on the
/// layout: prompt p of dp coordinate d is prompt `d * batch.prompts + p` of a run on one rank.
class Prefill {
 public:
  /// Keeps a reference to `instance`, which must outlive this object. Prompts have at most model.context tokens. Throws
  /// Error(usage) if ranks share sequences (cp > 1).
  Prefill(ModelInstance& instance, const PromptBatch& batch, uint64_t seed);

  struct Result {
    /// Time to first token: seconds from a barrier until the slowest rank has the first token of each of its prompts.
    double seconds = 0;
    /// The most probable first token of each prompt of this dp coordinate; empty on ranks that lack the last part of
    /// the model.
    std::vector<int32_t> first{};
  };
  /// Computes all prompts, starting with empty caches. Collective.
  Result run();

 private:
  std::vector<int32_t> ids_of(int64_t begin, int64_t end) const;

  ModelInstance& instance_;
  const PromptBatch batch_;
  TokenPasses passes_;
  std::vector<int32_t> ids_;  // ids of the prompts, [prompts, length]
};

}  // namespace hexad::train
