// Training sequences addressed by a global index. A sequence is a pure function of (seed, index). The position in the
// data is therefore one number for any parallel layout, and a resumed run continues from this number.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace hexad::data {

/// A target that is not predicted.
inline constexpr int32_t ignored = -1;

/// One sequence, with `context` entries in each span. Token t may attend only to tokens [first[t], last[t]), which are
/// those of its document (and, in causal models, only up to t).
struct Row {
  std::span<int32_t> ids;      // inputs
  std::span<int32_t> targets;  // token to predict at t, or `ignored`
  std::span<int32_t> first;    // index of the first token of t's document within this sequence
  std::span<int32_t> last;     // one past the index of the last token of this document
};

/// Sequences [begin, begin + count), row-major [count, context]. Token t of sequence s is at s * context + t.
struct Batch {
  Batch(int64_t count, int64_t context);

  int64_t count;
  int64_t context;
  std::vector<int32_t> ids, targets, first, last;
  std::vector<int32_t> positions;  // t - first[t]: below context; 0 at the start of a document or of its continuation

  Row row(int64_t sequence);
  /// Number of targets that are not ignored.
  int64_t target_count() const;
  /// Number of documents in all sequences; 0 if `first` and `last` do not divide the sequences into documents.
  int64_t document_count() const;
  /// Returns the bytes of text of the targets, given data::bytes_per_id(). Bits per byte = sum of nats / ln 2 /
  /// target_bytes.
  int64_t target_bytes(std::span<const int32_t> bytes_per_id) const;
};

class Source {
 public:
  static constexpr int64_t endless = std::numeric_limits<int64_t>::max();

  virtual ~Source() = default;

  /// Number of tokens in a sequence.
  virtual int64_t context() const = 0;
  /// Number of sequences, or `endless`.
  virtual int64_t size() const = 0;
  /// Returns the number of earlier passes over the data of sequence `index`.
  virtual int64_t epoch(int64_t index) const = 0;
  /// Writes sequence `index` in [0, size()). Thread-safe. Throws Error(data) if a file cannot be read.
  virtual void fill(int64_t index, const Row& row) const = 0;

  /// Returns sequences [begin, begin + count). Throws std::logic_error if they are not all in [0, size()).
  Batch batch(int64_t begin, int64_t count) const;
};

}  // namespace hexad::data
