// Computes the log-likelihoods of the last tokens of sequences.
#pragma once

#include <span>
#include <vector>

#include "tools/train/model/model_instance.h"

namespace hexad::train {

/// A sequence whose last `predicted` ids are each predicted from all ids before it. The sequence has at least
/// `predicted` + 1 ids, and at most one id more than the model's context.
struct LikelihoodRequest {
  std::vector<int32_t> ids{};
  int64_t predicted = 0;
};

/// Returns for each request the sum of the log-probabilities of its predicted ids, in nats. A sum does not depend on
/// other requests. The model must be a decoder. The requests are divided among data-parallel ranks. Collective: all
/// ranks pass the same requests and get the same sums.
std::vector<double> log_likelihoods(ModelInstance& instance, const Recipe& recipe,
                                    std::span<const LikelihoodRequest> requests);

}  // namespace hexad::train
