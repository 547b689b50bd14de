// Training sequences addressed by a global index. A sequence is a pure function of (seed, index): the position in the
// data is one number, whatever the parallel layout, and resuming is continuing from that number.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace hexad::data {

/// A target that is not to be predicted.
inline constexpr int32_t ignored = -1;

/// One sequence, `context` entries each. Token t may attend to tokens [first[t], last[t]) only: those of its own
/// document (and, in causal models, those up to t).
struct Row {
  std::span<int32_t> ids;      // inputs
  std::span<int32_t> targets;  // what to predict at t, or `ignored`
  std::span<int32_t> first;    // index of the first token of t's document within this sequence
  std::span<int32_t> last;     // one past its last token
};

/// Sequences [begin, begin + count), row-major [count, context]; token t of sequence s is at s * context + t.
struct Batch {
  Batch(int64_t count, int64_t context);

  int64_t count;
  int64_t context;
  std::vector<int32_t> ids, targets, first, last;
  std::vector<int32_t> positions;  // t - first[t]: below context, and 0 where a document, or its rest, starts

  Row row(int64_t sequence);
  /// Number of targets that are not ignored.
  int64_t target_count() const;
  /// Number of documents in all sequences; 0 where first and last do not divide these into documents.
  int64_t document_count() const;
  /// Bytes of text behind the targets, given data::bytes_per_id: bits per byte = sum of nats / ln 2 / target_bytes.
  int64_t target_bytes(std::span<const int32_t> bytes_per_id) const;
};

class Source {
 public:
  static constexpr int64_t endless = std::numeric_limits<int64_t>::max();

  virtual ~Source() = default;

  /// Tokens in a sequence.
  virtual int64_t context() const = 0;
  /// Number of sequences, or `endless`.
  virtual int64_t size() const = 0;
  /// Returns how often the data behind sequence `index` have been seen before.
  virtual int64_t epoch(int64_t index) const = 0;
  /// Writes sequence `index` in [0, size()). Thread-safe. Throws Error(data) when the files fail.
  virtual void fill(int64_t index, const Row& row) const = 0;

  /// Sequences [begin, begin + count); throws std::logic_error outside [0, size()).
  Batch batch(int64_t begin, int64_t count) const;
};

}  // namespace hexad::data
