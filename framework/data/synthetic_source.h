// Random tokens, for benchmarks without text.
#pragma once

#include <cstdint>

#include "framework/data/source.h"

namespace hexad::data {

/// An endless source of ids drawn uniformly from [0, vocab_size). Every sequence is one document. No model can achieve
/// an expected loss below ln(vocab_size).
class SyntheticSource final : public Source {
 public:
  SyntheticSource(int64_t vocab_size, int64_t context, uint64_t seed);

  int64_t context() const override { return context_; }
  int64_t size() const override { return endless; }
  int64_t epoch(int64_t) const override { return 0; }
  void fill(int64_t index, const Row& row) const override;

 private:
  int64_t vocab_size_;
  int64_t context_;
  uint64_t seed_;
};

}  // namespace hexad::data
