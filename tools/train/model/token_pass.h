// Forward passes over new tokens of sequences whose earlier keys and values are cached. All layouts with cp 1 work.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tools/train/model/model_instance.h"

namespace hexad::train {

using layers::KeyValueCache;
using tensor::Tensor;

/// Throws Error(usage) unless `ranks`, the number of ranks that share a sequence (parallel.cp), is 1.
void require_whole_sequences(int64_t ranks);

/// Runs forward passes over tensor-parallel and pipeline ranks. The number of rows is padded to a multiple of the tp
/// ranks, because tp ranks divide the rows.
class TokenPasses {
 public:
  /// `instance` must outlive this object. Throws Error(usage) if ranks share sequences (cp > 1).
  explicit TokenPasses(ModelInstance& instance);

  /// Appends ids to sequences: one id for each cache, or any number of ids for a single cache. On ranks that hold the
  /// last part of the model, returns the logits [V] of the last id of each sequence. On other ranks, returns an empty
  /// list. Collective: all ranks pass the same ids.
  std::vector<std::vector<float>> run(std::span<KeyValueCache* const> caches, std::span<const int32_t> ids);

 private:
  MicroBatch batch_of(std::span<KeyValueCache* const> caches, std::span<const int32_t> ids) const;
  Tensor run_parts(const MicroBatch& batch, std::span<KeyValueCache* const> caches, int64_t first_row, int64_t end_row);
  std::vector<std::vector<float>> whole_rows(const Tensor& own) const;

  ModelInstance& instance_;
  std::unique_ptr<autograd::SavePolicy> policy_;
};

}  // namespace hexad::train
