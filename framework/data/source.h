// Training sequences, identified by a global index. A sequence depends only on (seed, index). A resumed run with any
// parallel layout can therefore continue from a single number, the next index.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace hexad::data {

/// Target of a position at which nothing is predicted.
inline constexpr int32_t ignored = -1;

/// One sequence, with `context` entries in each span. Token t may attend only to the tokens of its document, [first[t],
/// last[t]). In causal models, token t may attend only to tokens up to t.
struct Row {
  std::span<int32_t> ids;      // input token ids
  std::span<int32_t> targets;  // token to predict at t; `ignored` if there is none
  std::span<int32_t> first;    // index in this sequence of the first token of t's document
  std::span<int32_t> last;     // 1 + the index in this sequence of the last token of t's document
};

/// Sequences [begin, begin + count) as arrays [count, context] in row-major order: token t of sequence s is at s *
/// context + t.
struct Batch {
  Batch(int64_t count, int64_t context);

  int64_t count;
  int64_t context;
  std::vector<int32_t> ids, targets, first, last;
  std::vector<int32_t> positions;  // t - first[t], less than context; 0 at the start of a document or of its
                                   // continuation

  Row row(int64_t sequence);
  /// Returns the number of documents in all sequences; 0 if `first` and `last` do not divide the sequences into
  /// documents.
  int64_t document_count() const;
  /// Ids and targets of later tokens: one entry for each token of the batch, in the order of `ids`.
  struct Further {
    std::vector<int32_t> ids;      // id of the document's last token if the document ends before the later token
    std::vector<int32_t> targets;  // `ignored` if the document ends before the later token
  };
  /// Returns the ids and targets of the tokens `distance` positions later. `distance` must be at least 0.
  Further further(int64_t distance) const;
};

class Source {
 public:
  static constexpr int64_t endless = std::numeric_limits<int64_t>::max();

  virtual ~Source() = default;

  /// Returns the number of tokens in a sequence.
  virtual int64_t context() const = 0;
  /// Returns the number of sequences, or `endless`.
  virtual int64_t size() const = 0;
  /// Returns the number of complete passes over the data before sequence `index`; in a mixture, over the dataset of
  /// this sequence.
  virtual int64_t epoch(int64_t index) const = 0;
  /// True if all sequences are equal, so that their sizes and documents need to be found only once.
  virtual bool has_equal_sequences() const { return false; }
  /// Writes sequence `index`, which must be in [0, size()), to `row`. Thread-safe. Throws Error(data) if a file cannot
  /// be read.
  virtual void fill(int64_t index, const Row& row) const = 0;

  /// Returns sequences [begin, begin + count). Throws std::logic_error if one of them is not in [0, size()).
  Batch batch(int64_t begin, int64_t count) const;
};

}  // namespace hexad::data
