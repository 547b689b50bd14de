// Masked-LM objective (Devlin et al., "BERT", 2019, section 3.1) over the sequences of another source.
#pragma once

#include <cstdint>
#include <memory>

#include "framework/data/source.h"

namespace hexad::data {

struct MaskingOptions {
  double probability = 0.15;  // probability that a token is chosen
  int32_t mask_id = 0;
  int32_t text_ids = 0;  // ids at or above this (end-of-document, ...) are never chosen or inserted
  uint64_t seed = 0;
};

/// Replaces the targets with masked-LM targets. A chosen token becomes the target at its own position. Its input
/// becomes `mask_id` (8 of 10), a random text id (1 of 10) or is unchanged (1 of 10). All other targets are `ignored`.
/// The choice depends on the global token index (sequence * context + t), so it is independent of batch and layout.
void mask_for_mlm(const Row& row, int64_t sequence, const MaskingOptions& options);

class MaskedSource final : public Source {
 public:
  MaskedSource(std::shared_ptr<const Source> text, MaskingOptions options);

  int64_t context() const override { return text_->context(); }
  int64_t size() const override { return text_->size(); }
  int64_t epoch(int64_t index) const override { return text_->epoch(index); }
  void fill(int64_t index, const Row& row) const override;

 private:
  std::shared_ptr<const Source> text_;
  MaskingOptions options_;
};

}  // namespace hexad::data
