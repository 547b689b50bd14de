// Forward passes over new tokens of sequences whose earlier keys and values are cached. Supports all layouts with cp 1.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tools/train/model/model_instance.h"

namespace hexad::train {

using layers::KeyValueCache;
using tensor::Tensor;

/// Throws Error(usage) if `ranks`, the number of ranks that share a sequence (parallel.cp), is not 1. `purpose` is a
/// verb phrase for the message, such as "generate text".
void require_whole_sequences(int64_t ranks, std::string_view purpose);

/// Runs forward passes over tensor-parallel and pipeline ranks. The number of rows is padded to a multiple of the
/// number of tp ranks, because tp ranks may divide the rows. Data-parallel ranks may pass different ids, but must pass
/// the same number of ids.
class TokenPasses {
 public:
  /// Keeps a reference to `instance`, which must outlive this object. Throws Error(usage) if ranks share sequences
  /// (parallel.cp above 1).
  explicit TokenPasses(ModelInstance& instance);

  /// Appends the same number of ids to each sequence. `ids` has the ids of the first cache, then the ids of the next
  /// cache, and so on. On ranks that hold the last part of the model, returns the logits [V] of the last id of each
  /// sequence. On other ranks, returns an empty list. Collective: all ranks of a dp coordinate pass the same ids.
  std::vector<std::vector<float>> run(std::span<KeyValueCache* const> caches, std::span<const int32_t> ids);
  /// Appends ids like run(), but computes no logits. Used for every part of a prompt except its last part. A pipeline
  /// rank does not wait for later ranks, so the ranks compute different parts of the prompts at the same time.
  void append(std::span<KeyValueCache* const> caches, std::span<const int32_t> ids);

 private:
  MicroBatch batch_of(std::span<KeyValueCache* const> caches, std::span<const int32_t> ids) const;
  Tensor run_parts(std::span<KeyValueCache* const> caches, std::span<const int32_t> ids, std::span<const int64_t> rows);
  std::vector<std::vector<float>> whole_rows(const Tensor& own) const;

  ModelInstance& instance_;
  std::unique_ptr<autograd::SavePolicy> policy_;
};

}  // namespace hexad::train
