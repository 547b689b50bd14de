// Documents packed into sequences: shuffled for training, in order for evaluation.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "framework/data/source.h"
#include "framework/data/token_dataset.h"

namespace hexad::data {

enum class Packing : uint8_t {
  isolated,  // documents in a sequence do not see each other; after end-of-document nothing is predicted
  joined,    // a sequence is one run of text; the next document's first token is predicted from the previous one's end
};

/// The endless stream epoch 0, epoch 1, ... cut into sequences. An epoch is every document once, in an order drawn from
/// (seed, epoch); sequence i is tokens [i c, i c + c] of the stream, its last token being only a target. So every token
/// is predicted once an epoch (save documents' first ones, if isolated), an epoch's tail goes on into the next epoch,
/// a document longer than the context goes on in the next sequence (with positions from 0), and a dataset shorter than
/// the context fills a sequence with several epochs.
class ShuffledSource final : public Source {
 public:
  /// Throws Error(data) when the dataset has no token. context >= 1.
  ShuffledSource(std::shared_ptr<const TokenDataset> dataset, int64_t context, Packing packing, uint64_t seed);

  int64_t context() const override { return context_; }
  int64_t size() const override { return endless; }
  int64_t epoch(int64_t index) const override;
  void fill(int64_t index, const Row& row) const override;

 private:
  // The documents of one epoch in their order, and where each starts in the epoch.
  struct Order {
    int64_t epoch;
    std::vector<int64_t> documents;
    std::vector<int64_t> starts;
  };
  std::shared_ptr<const Order> order(int64_t epoch) const;
  Order draw(int64_t epoch) const;

  std::shared_ptr<const TokenDataset> dataset_;
  int64_t context_;
  Packing packing_;
  uint64_t seed_;
  mutable std::mutex mutex_;                                      // guards orders_
  mutable std::array<std::shared_ptr<const Order>, 2> orders_{};  // of the last even and the last odd epoch
};

/// The documents in file order, once: for held-out text. Every token that has a predecessor (isolated: in its document)
/// is a target exactly once. The last sequence is filled up with the last id of the vocabulary (the mask
/// token, which is no text) in a document of its own, its targets ignored.
class SequentialSource final : public Source {
 public:
  /// Throws Error(data) when the dataset has fewer than 2 tokens: nothing to predict.
  SequentialSource(std::shared_ptr<const TokenDataset> dataset, int64_t context, Packing packing);

  int64_t context() const override { return context_; }
  int64_t size() const override { return (dataset_->tokens() - 1 + context_ - 1) / context_; }
  int64_t epoch(int64_t) const override { return 0; }
  void fill(int64_t index, const Row& row) const override;

 private:
  std::shared_ptr<const TokenDataset> dataset_;
  int64_t context_;
  Packing packing_;
};

}  // namespace hexad::data
