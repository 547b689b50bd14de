// Byte-level byte-pair encoding (Sennrich et al., "Neural machine translation of rare words with subword units", ACL
// 2016; on bytes as in GPT-2). The vocabulary is learned by repeatedly merging the most frequent pair of neighbours.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/pretokenize.h"
#include "framework/data/tokenizer.h"

namespace hexad::data {

/// Makes a tokenizer. Every merge must refer to earlier ids only, which read_tokenizer_file() has checked; otherwise
/// throws std::logic_error.
std::unique_ptr<Tokenizer> make_bpe_tokenizer(std::vector<Merge> merges);

/// Learns merges from text. Deterministic: the order of documents does not matter. Among equally frequent pairs, the
/// pair with the smallest ids is merged first.
class BpeTrainer {
 public:
  /// Counts the pieces of one document.
  void add(std::string_view document);
  /// Returns a tokenizer of at most `vocab_size` ids, including bytes and the two special ids. It has fewer ids if no
  /// pair of neighbours occurs twice any more. Throws Error(usage) if vocab_size < 258 or > 1,000,000.
  std::unique_ptr<Tokenizer> train(int32_t vocab_size) const;

 private:
  PieceMap<int64_t> piece_counts_;
};

}  // namespace hexad::data
