// Chunks of documents. A token attends only to tokens of its chunk (model.attention_chunk).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace hexad::layers {

/// Positions [first, last) of each token's chunk, counted from the beginning of the token's sequence.
struct AttentionChunks {
  std::vector<int32_t> first, last;
  int64_t count = 0;  // number of chunks in all sequences
};

/// Divides each document into chunks of `size` tokens. The last chunk of a document may be shorter. `first` and `last`
/// are the bounds of each token's document, for whole sequences of `length` tokens.
inline AttentionChunks attention_chunks(std::span<const int32_t> first, std::span<const int32_t> last, int64_t length,
                                        int64_t size) {
  AttentionChunks chunks;
  for (size_t t = 0; t < first.size(); ++t) {
    const int64_t position = static_cast<int64_t>(t) % length;
    const int64_t begin = first[t] + (position - first[t]) / size * size;
    chunks.first.push_back(static_cast<int32_t>(begin));
    chunks.last.push_back(static_cast<int32_t>(std::min<int64_t>(last[t], begin + size)));
    chunks.count += position == begin;
  }
  return chunks;
}

}  // namespace hexad::layers
