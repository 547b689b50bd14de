// Held-out loss.
#pragma once

#include <span>

#include "framework/data/source.h"
#include "tools/train/model_instance.h"

namespace hexad::train {

struct Evaluation {
  int64_t tokens = 0;        // predicted
  int64_t processed = 0;     // what a forward pass went over: all tokens of the sequences
  double loss = 0;           // nats per predicted token
  double bits_per_byte = 0;  // of the text behind them; 0 without a tokenizer
  double seconds = 0;
};

/// Forward passes over the first `sequences` sequences of `source` (0: all). Collective; every sequence is computed by
/// one rank. `bytes_per_id` is empty when the tokens stand for no text.
Evaluation evaluate(ModelInstance& instance, const Recipe& recipe, const data::Source& source, int64_t sequences,
                    std::span<const int32_t> bytes_per_id);

}  // namespace hexad::train
