// Byte-level byte-pair encoding (Sennrich et al., "Neural machine translation of rare words with subword units", ACL
// 2016; on bytes as in GPT-2). The vocabulary is learned by repeatedly merging the most frequent pair of adjacent
// tokens.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/pretokenize.h"
#include "framework/data/tokenizer.h"

namespace hexad::data {

/// Makes a tokenizer. Throws std::logic_error unless every merge refers only to earlier ids, as read_tokenizer_file()
/// has checked.
std::unique_ptr<Tokenizer> make_bpe_tokenizer(std::vector<Merge> merges);

/// Learns merges from text. The result is deterministic and does not depend on the order of the documents. Of equally
/// frequent pairs, the pair with the smallest left id (then the smallest right id) is merged first.
class BpeTrainer {
 public:
  /// Counts the pieces of a document.
  void add(std::string_view document);
  /// Returns a tokenizer of at most `vocab_size` ids, including the bytes and the two special ids. If no pair of
  /// adjacent tokens occurs more than once, it has fewer ids. Throws Error(usage) if vocab_size < 258 or > 1,000,000.
  std::unique_ptr<Tokenizer> train(int32_t vocab_size) const;

 private:
  PieceMap<int64_t> piece_counts_;
};

}  // namespace hexad::data
