// Computes the held-out loss.
#pragma once

#include <span>

#include "framework/data/source.h"
#include "framework/telemetry/metrics.h"
#include "tools/train/model/model_instance.h"

namespace hexad::train {

struct Evaluation {
  int64_t tokens = 0;        // predicted tokens
  int64_t processed = 0;     // tokens in the forward passes, with and without a target, but not padding
  double loss = 0;           // nats per predicted token; NaN if no token is predicted
  double bits_per_byte = 0;  // bits per byte of the text of the predicted tokens; 0 without such bytes or a tokenizer
  double seconds = 0;
  int64_t sequences = 0, total_sequences = 0;  // number of evaluated sequences; number of sequences in the source
};

/// Runs forward passes over `sequences` sequences of `source` (0: all), or over all its sequences if `source` has
/// fewer. Calls with equal arguments use the same sequences: evenly spaced sequences or, if the source is endless, the
/// first sequences. Each sequence is computed once. `bytes_per_id` is empty if the tokens do not represent text.
/// Collective.
Evaluation evaluate(ModelInstance& instance, const Recipe& recipe, const data::Source& source, int64_t sequences,
                    std::span<const int32_t> bytes_per_id);

/// Returns the metrics of an evaluation after `step`.
telemetry::EvalMetrics metrics_of(const Evaluation& evaluation, int64_t step);

}  // namespace hexad::train
