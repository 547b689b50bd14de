// Log-likelihoods of the ends of token sequences.
#pragma once

#include <span>
#include <vector>

#include "tools/train/model/model_instance.h"

namespace hexad::train {

/// A sequence whose last `predicted` ids are predicted from the ids before them. It has at least one id more than
/// `predicted`, and at most one more than the model's context.
struct LikelihoodRequest {
  std::vector<int32_t> ids{};
  int64_t predicted = 0;
};

/// Returns the sum of the log-probabilities of the predicted ids, in nats, for each request. A sum does not depend on
/// the other requests. The model must be a decoder. Data-parallel ranks compute different requests. Collective: all
/// ranks pass the same requests and get the same sums.
std::vector<double> log_likelihoods(ModelInstance& instance, const Recipe& recipe,
                                    std::span<const LikelihoodRequest> requests);

}  // namespace hexad::train
