// Documents packed into sequences: in shuffled order for training, in file order for evaluation.
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
  isolated,  // tokens attend only to their own document; the last token of a document predicts nothing
  joined,    // a sequence is one text; the last token of a document predicts the first of the next document
};

enum class Shuffle : uint8_t {
  sequences,  // see ShuffledSequences
  documents,  // see ShuffledDocuments
};

/// Divides the endless stream of epochs 0, 1, ... into sequences and visits them in pseudo-random order. An epoch
/// contains every document once, in file order. It begins with a document drawn from (seed, epoch) and wraps around at
/// the end of the file. Piece i consists of the tokens i * c to (i + 1) * c of the stream, both included; c is the
/// context. The last token of a piece is only a target.
///
/// Every token is predicted once. Exceptions are the first token of the stream, the first tokens of isolated documents,
/// and tokens that a loss mask excludes. The end of an epoch may share a piece with the beginning of the next epoch. A
/// document that is cut at the end of a piece continues in the next piece, with positions from 0. The boundaries of
/// pieces usually differ between epochs. A piece contains several epochs if the dataset is shorter than the context.
///
/// The pieces whose first token is in epoch e are shuffled among themselves. A Permutation of their indices, drawn from
/// (seed, e), maps the index of a global sequence to a piece. The order is not stored. Making a sequence takes O(log
/// documents) time for each document in it.
class ShuffledSequences final : public Source {
 public:
  /// Throws Error(data) if the dataset has no tokens. `context` must be at least 1.
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

/// Visits the endless stream of epochs 0, 1, ... from its beginning. In each epoch, the documents are in an order drawn
/// from (seed, epoch). The sequences of a document are consecutive, so a long document fills consecutive batches. The
/// memory needed is four numbers per document: two for each of two epochs.
class ShuffledDocuments final : public Source {
 public:
  /// Throws Error(data) if the dataset has no tokens. `context` must be at least 1.
  ShuffledDocuments(std::shared_ptr<const TokenDataset> dataset, int64_t context, Packing packing, uint64_t seed);

  int64_t context() const override { return context_; }
  int64_t size() const override { return endless; }
  int64_t epoch(int64_t index) const override;
  void fill(int64_t index, const Row& row) const override;

 private:
  // The documents of one epoch in their order. starts[i] is the position in the epoch, in tokens, at which documents[i]
  // begins.
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
  mutable std::array<std::shared_ptr<const Order>, 2> orders_{};  // orders of the latest even and the latest odd epoch
};

/// Visits the documents once, in file order, for held-out text. Every token that has a predecessor, and that no loss
/// mask excludes, is a target exactly once. The predecessor must be in the same document if documents are isolated. If
/// necessary, the last sequence is padded with the last id of the vocabulary. In a tokenizer that Hexad has trained,
/// this is the mask token, which is not text. The padding is a separate document whose targets are ignored.
class SequentialSource final : public Source {
 public:
  /// Throws Error(data) if the dataset has fewer than 2 tokens, because then nothing can be predicted.
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
