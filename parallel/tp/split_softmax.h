// Softmax cross-entropy over columns that are split over ranks, in two steps with an exchange between them. The same
// formula as CrossEntropyKernels; each rank reads its logits once.
#pragma once

#include "parallel/tp/vocabulary.h"

namespace hexad::tp {

/// What a rank tells the others about each row of its columns: statistics [3, rows] (acc).
enum SplitSoftmaxRow : int64_t {
  largest,    // m = max of the logits
  sum,        // of e^(logit - m)
  at_target,  // the target's logit, 0 on ranks that do not hold it
  statistics_count,
};

/// logits[rows, columns here] (acc) become e^(logit - m). `targets` (i32) are of the whole vocabulary; -1: ignored.
void start_softmax(Stream& stream, const Tensor& statistics, const Tensor& logits, const Tensor& targets,
                   const VocabularyPart& part);

/// losses[rows] (acc, 0 where ignored) from the statistics of all ranks [ranks, 3, rows]. What start_softmax left in
/// `logits` becomes scale * (softmax - onehot); zero where ignored or when scale is 0.
void finish_softmax(Stream& stream, const Tensor& losses, const Tensor& logits, const Tensor& statistics, int rank,
                    const Tensor& targets, const VocabularyPart& part, double scale);

}  // namespace hexad::tp
