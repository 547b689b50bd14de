// Masked-LM objective (Devlin et al., "BERT", 2019, section 3.1) over the sequences of another source.
#pragma once

#include <cstdint>
#include <memory>

#include "framework/data/source.h"

namespace hexad::data {

struct MaskingOptions {
  double probability = 0.15;  // probability with which a token is chosen
  int32_t mask_id = 0;
  // Number of text ids. The ids from this number on (end-of-document, mask) are never chosen or used as random ids.
  int32_t text_ids = 0;
  uint64_t seed = 0;
};

/// Replaces the targets of `row` by masked-LM targets. Each chosen token is the target at its own position. Its input
/// becomes `mask_id` (probability 0.8) or a random text id (0.1), or does not change (0.1). All other targets are set
/// to `ignored`. The choice depends only on the seed and on the global index of the token (sequence * context + t). It
/// does not depend on the batch or the parallel layout.
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
