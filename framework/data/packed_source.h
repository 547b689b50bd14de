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

enum class Shuffle : uint8_t {
  sequences,  // ShuffledSequences
  documents,  // ShuffledDocuments
};

/// The endless stream epoch 0, epoch 1, ... cut into sequences, which are visited in pseudo-random order. An epoch is
/// every document once, in file order from a document drawn from (seed, epoch) on, and around; piece i is tokens
/// [i c, i c + c] of the stream, its last token being only a target. So every token of an epoch is in one piece and
/// predicted once (save documents' first ones, if isolated), an epoch's tail shares a piece with the head of the next
/// epoch, a document longer than the context goes on in the next piece (with positions from 0), pieces begin elsewhere
/// in every epoch, and a dataset shorter than the context fills a piece with several epochs.
///
/// The pieces whose first token is of epoch e are the sequences of the same indices, in an order drawn from (seed, e):
/// global sequence i is the piece that a Permutation of those numbers gives it. Nothing is stored of the order; a
/// sequence takes O(log documents) time for each document in it.
class ShuffledSequences final : public Source {
 public:
  /// Throws Error(data) when the dataset has no token. context >= 1.
  ShuffledSequences(std::shared_ptr<const TokenDataset> dataset, int64_t context, Packing packing, uint64_t seed);

  int64_t context() const override { return context_; }
  int64_t size() const override { return endless; }
  int64_t epoch(int64_t index) const override;
  void fill(int64_t index, const Row& row) const override;

 private:
  int64_t first_sequence(int64_t epoch) const;
  int64_t first_token(int64_t epoch) const;
  int64_t piece(int64_t index) const;

  std::shared_ptr<const TokenDataset> dataset_;
  int64_t context_;
  Packing packing_;
  uint64_t seed_;
};

/// The same stream visited from its beginning on, but with the documents of an epoch in an order drawn from
/// (seed, epoch): a document's sequences follow each other, so a long one fills consecutive batches. Keeps two numbers
/// a document for each of two epochs.
class ShuffledDocuments final : public Source {
 public:
  /// Throws Error(data) when the dataset has no token. context >= 1.
  ShuffledDocuments(std::shared_ptr<const TokenDataset> dataset, int64_t context, Packing packing, uint64_t seed);

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
