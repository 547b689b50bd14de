// Held-out loss.
#pragma once

#include <span>

#include "framework/data/source.h"
#include "framework/telemetry/metrics.h"
#include "tools/train/model/model_instance.h"

namespace hexad::train {

struct Evaluation {
  int64_t tokens = 0;        // predicted
  int64_t processed = 0;     // what a forward pass went over: all tokens of the sequences
  double loss = 0;           // nats per predicted token; NaN without any
  double bits_per_byte = 0;  // of the text behind them; 0 without a tokenizer
  double seconds = 0;
  int64_t sequences = 0, of_sequences = 0;  // evaluated, in the source
};

/// Forward passes over `sequences` sequences of `source` (0: all), always the same ones, spread evenly over it (of an
/// endless source the first ones). Collective; every sequence is computed by one rank. `bytes_per_id` is empty when the
/// tokens stand for no text.
Evaluation evaluate(ModelInstance& instance, const Recipe& recipe, const data::Source& source, int64_t sequences,
                    std::span<const int32_t> bytes_per_id);

/// For metrics, of an evaluation after `step`.
telemetry::EvalMetrics metrics_of(const Evaluation& evaluation, int64_t step);

}  // namespace hexad::train
