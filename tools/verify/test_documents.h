// Test sequences with features that layouts may handle wrongly: packed documents, masked targets, sequences without
// targets.
#pragma once

#include "framework/data/source.h"
#include "tools/train/recipe/recipe.h"
#include "tools/verify/verify_names.h"

namespace hexad::verify {

/// Source that repeats given sequences without end.
class FixedSource final : public data::Source {
 public:
  explicit FixedSource(data::Batch rows) : rows_(std::move(rows)) {}
  int64_t context() const override { return rows_.context; }
  int64_t size() const override { return endless; }
  int64_t epoch(int64_t index) const override { return index / rows_.count; }
  void fill(int64_t index, const data::Row& row) const override;

 private:
  data::Batch rows_;
};

/// Returns random sequences cut into documents of 1 to `context` tokens. Tokens attend only to their own document. The
/// last token of a document has no target. Every fifth sequence, from the second on, has no targets at all. If
/// vocab >= 2 * context, sequences 2 * i and 2 * i + 1 together contain no id twice. Equal tokens would have equal
/// scores, and rounding would decide which of them a full expert drops.
FixedSource documents(int64_t sequences, int64_t context, int64_t vocab, uint64_t seed = 5);
/// Returns documents() of the recipe's context and vocabulary, enough for three global batches.
FixedSource documents_of(const Recipe& recipe);

/// Returns the first `sequences` sequences of `source`, or all if `source` has fewer. Splits their documents further.
/// The last token of a document loses its target. Sequences that have no targets in documents() lose all targets.
FixedSource cut_further(const data::Source& source, int64_t sequences, uint64_t seed = 5);

}  // namespace hexad::verify
