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
  isolated,  // documents of a sequence do not see each other; nothing is predicted after end-of-document
  joined,    // a sequence is one text; a document's first token is predicted from the end of the previous document
};

enum class Shuffle : uint8_t {
  sequences,  // ShuffledSequences
  documents,  // ShuffledDocuments
};

/// Cuts the endless stream epoch 0, epoch 1, ... into sequences and visits them in pseudo-random order. An epoch
/// contains every document once, in file order, starting at a document drawn from (seed, epoch) and wrapping around.
/// Piece i has tokens [i c, i c + c] of the stream; its last token is only a target.
///
/// Every token of an epoch is therefore in one piece and is predicted once; if documents are isolated, first tokens of
/// documents are not predicted. The end of an epoch shares a piece with the start of the next epoch. A document longer
/// than the context continues in the next piece, with positions from 0. Pieces have different boundaries in each epoch.
/// A dataset shorter than the context fills a piece with several epochs.
///
/// The pieces whose first token is in epoch e are shuffled among themselves. A Permutation of their indices, drawn from
/// (seed, e), maps global sequence i to a piece. The order is not stored. Making a sequence takes O(log documents) time
/// for each of its documents.
class ShuffledSequences final : public Source {
 public:
  /// Throws Error(data) if the dataset has no token. context >= 1.
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

/// Visits the endless stream epoch 0, epoch 1, ... from its beginning. The documents of each epoch are in an order
/// drawn from (seed, epoch). A document's sequences follow each other, so a long document fills consecutive batches.
/// Stores two numbers per document for each of two epochs.
class ShuffledDocuments final : public Source {
 public:
  /// Throws Error(data) if the dataset has no token. context >= 1.
  ShuffledDocuments(std::shared_ptr<const TokenDataset> dataset, int64_t context, Packing packing, uint64_t seed);

  int64_t context() const override { return context_; }
  int64_t size() const override { return endless; }
  int64_t epoch(int64_t index) const override;
  void fill(int64_t index, const Row& row) const override;

 private:
  // The documents of one epoch in their order, and their starts in the epoch.
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
  mutable std::array<std::shared_ptr<const Order>, 2> orders_{};  // orders of the last even and the last odd epoch
};

/// Visits the documents once, in file order: for held-out text. Every token that has a predecessor (if isolated: in its
/// document) is a target exactly once. The last sequence is padded with the last id of the vocabulary (the mask token,
/// which is not text). The padding is a separate document whose targets are ignored.
class SequentialSource final : public Source {
 public:
  /// Throws Error(data) if the dataset has fewer than 2 tokens, because nothing can be predicted.
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
