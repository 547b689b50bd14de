// Byte-level byte-pair encoding (Sennrich et al., "Neural machine translation of rare words with subword units", ACL
// 2016; on bytes, like GPT-2). The vocabulary is learned by repeatedly merging the most frequent pair of adjacent
// tokens.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "framework/data/pretokenize.h"
#include "framework/data/tokenizer.h"
#include "framework/data/workers.h"

namespace hexad::data {

/// Makes a tokenizer. Throws std::logic_error if a merge refers to an id that is neither a byte nor made by an earlier
/// merge. read_tokenizer_file() rejects such merges.
std::unique_ptr<Tokenizer> make_bpe_tokenizer(std::vector<Merge> merges);

/// Learns merges from text. The result is deterministic and does not depend on the order of the documents or on the
/// number of threads. Of several equally frequent pairs, the pair with the smallest left id (then the smallest right
/// id) is merged first.
class BpeTrainer {
 public:
  /// Counts the pieces of a document. Thread-safe.
  void add(std::string_view document);
  /// Returns a tokenizer of at most `vocab_size` ids, including the bytes and the two special ids. The tokenizer has
  /// fewer ids if no pair of adjacent tokens occurs more than once. Pairs that occur in many pieces are merged on all
  /// threads of `workers`. Throws Error(usage) if vocab_size < 258 or > 1,000,000. Must not be called while another
  /// thread adds documents.
  std::unique_ptr<Tokenizer> train(int32_t vocab_size, Workers& workers) const;

 private:
  // Counts of the pieces whose hash selects this stripe. Threads that add documents rarely need the same stripe.
  struct Stripe {
    std::mutex mutex;
    PieceMap<int64_t> counts;
  };

  std::array<Stripe, 64> stripes_;
};

}  // namespace hexad::data
