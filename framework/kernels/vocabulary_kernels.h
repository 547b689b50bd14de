// Kernels of layers that depend on the vocabulary: embeddings and cross-entropy. The legend of shapes is in
// kernel_operands.h.
#pragma once

#include <cstdint>
#include <tuple>

#include "framework/kernels/kernel.h"
#include "framework/kernels/kernel_operands.h"

namespace hexad::kernels {

struct EmbeddingKernels {
  /// Computes out[T, D] = table[ids[t], :]. ids are i32; the caller must check that they are in range.
  Kernel<void(Stream&, Out<Tensor> out, const Tensor& table, const Tensor& ids)> forward;
  /// Adds row t of dout to row ids[t] of dtable[V, D] (acc), for all tokens t in order. A token with id -1 is skipped,
  /// and its row is not read.
  Kernel<void(Stream&, Out<Tensor> dtable, const Tensor& dout, const Tensor& ids)> backward;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &EmbeddingKernels::forward}, Named{"backward", &EmbeddingKernels::backward}};
  }
  static const EmbeddingKernels of_reference, of_cpu, of_cuda;
};

/// Softmax cross-entropy over rows of logits [T, V] (acc, or bf16 if acc is f32). Tokens with target -1 are ignored.
struct CrossEntropyKernels {
  /// Computes losses[T] (acc; 0 for ignored tokens) and dlogits[T, V] = scale * (softmax - onehot) from targets[T]
  /// (i32). dlogits is zero for ignored tokens, and zero if scale is 0. dlogits may be the same tensor as logits.
  /// dlogits has any floating dtype if the logits are acc, and is bf16 if the logits are bf16. An undefined dlogits is
  /// not computed.
  Kernel<void(Stream&, Out<Tensor> losses, Out<Tensor> dlogits, const Tensor& logits, const Tensor& targets,
              double scale)>
      forward;
  /// Returns the preferred number of rows of logits that a caller computes at a time, at least one.
  Kernel<int64_t(int64_t rows, int64_t vocabulary)> block_rows;

  static constexpr auto entries() {
    return std::tuple{Named{"forward", &CrossEntropyKernels::forward},
                      Named{"block_rows", &CrossEntropyKernels::block_rows}};
  }
  static const CrossEntropyKernels of_reference, of_cpu, of_cuda;
};

/// Softmax cross-entropy over columns that are divided among ranks, in two steps, `start` and `finish`. In between, the
/// ranks exchange statistics. Exponentials of bf16 logits are computed in both steps, because bf16 cannot store them
/// precisely. targets[T] (i32; -1: ignored) refer to the whole vocabulary, of which this rank holds columns [first,
/// first + W).
struct SplitSoftmaxKernels {
  /// Statistics of the columns that a rank holds. The rank sends them to the other ranks. Each statistic is a row of
  /// the tensor `statistics` [statistics_count, T], which has one column for each token.
  enum Statistic : int64_t {
    largest,    // m, the maximum of the logits, but at least the lowest finite number
    total,      // the sum of e^(logit - m)
    at_target,  // logit of the target; 0 on ranks that do not hold the target's column
    statistics_count,
  };
  /// Computes statistics [3, T] (acc) from logits[T, W] (acc or bf16). Replaces logits in acc by e^(logit - m).
  Kernel<void(Stream&, Out<Tensor> statistics, Out<Tensor> logits, const Tensor& targets, int64_t first)> start;
  /// Computes losses[T] (acc; 0 for ignored tokens) from the statistics [ranks, 3, T] of all ranks. `rank` is the index
  /// of this rank. Replaces the values that `start` has left in `logits` by scale * (softmax - onehot). For ignored
  /// tokens, or if scale is 0, replaces them by zero.
  Kernel<void(Stream&, Out<Tensor> losses, Out<Tensor> logits, const Tensor& statistics, int64_t rank,
              const Tensor& targets, int64_t first, double scale)>
      finish;

  static constexpr auto entries() {
    return std::tuple{Named{"start", &SplitSoftmaxKernels::start}, Named{"finish", &SplitSoftmaxKernels::finish}};
  }
  static const SplitSoftmaxKernels of_reference, of_cpu, of_cuda;
};

/// Families of this header.
struct VocabularyFamilies {
  EmbeddingKernels embedding;
  CrossEntropyKernels cross_entropy;
  SplitSoftmaxKernels split_softmax;

  static constexpr auto families() {
    return std::tuple{Named{"embedding", &VocabularyFamilies::embedding},
                      Named{"cross_entropy", &VocabularyFamilies::cross_entropy},
                      Named{"split_softmax", &VocabularyFamilies::split_softmax}};
  }
};

}  // namespace hexad::kernels
