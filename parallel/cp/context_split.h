// Tokens of a micro-batch that a rank of context parallelism holds, and their order: arithmetic alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hexad::cp {

/// Every sequence is cut into 2 `ranks` equal chunks; rank c holds chunks c and 2 ranks - 1 - c (zigzag), so that
/// causal attention costs every rank the same. Local rows are ordered (half, sequence, position in the chunk): half 0
/// is chunk c, half 1 the other, and one half is contiguous [sequences, chunk_length]. One rank holds one half: the
/// plain order.
///
/// A token is its index in the whole micro-batch, sequence * length + position. Every method but halves() throws
/// std::logic_error when the chunks would not be equal, or a rank or half is none.
struct ContextSplit {
  int64_t sequences = 1, length = 0;  // of the micro-batch; tokens a sequence
  int ranks = 1, rank = 0;

  int halves() const { return ranks == 1 ? 1 : 2; }
  /// Tokens a chunk.
  int64_t chunk_length() const;
  /// Rows of one half, and of a rank.
  int64_t half_rows() const { return sequences * chunk_length(); }
  int64_t rows() const { return halves() * half_rows(); }
  /// The chunk that is half `half` of rank `of`.
  int chunk(int of, int half) const;
  /// Its first position in the sequence.
  int64_t chunk_begin(int of, int half) const { return chunk(of, half) * chunk_length(); }

  /// chunk_length() rows of a rank, from `row` on, that hold the tokens from `token` on.
  struct Run {
    int64_t row, token;
  };
  /// The rows of rank `of`, in their order.
  std::vector<Run> runs(int of) const;
  /// Token of every local row of rank `of`.
  std::vector<int64_t> tokens(int of) const;
  std::vector<int64_t> tokens() const { return tokens(rank); }
  /// The entries of this rank's rows, from one entry for every token.
  std::vector<int32_t> cut(std::span<const int32_t> whole) const;
};

}  // namespace hexad::cp
