// Tokens of a micro-batch that a rank of context parallelism holds, and their order. Only arithmetic.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hexad::cp {

/// Split of sequences over ranks. Every sequence is cut into 2 `ranks` equal chunks. Rank c holds chunk c and, counted
/// from the end, chunk c (zigzag: 2 ranks - 1 - c), so that causal attention costs every rank the same. Local rows are
/// ordered (half, sequence, position in the chunk). Half 0 is chunk c, half 1 is the second chunk; one half is
/// contiguous [sequences, chunk_length]. A single rank has one half, in plain order.
///
/// A token is its index in the whole micro-batch, sequence * length + position. Every method but halves() throws
/// std::logic_error if the chunks would not be equal, or if a rank or half does not exist.
struct ContextSplit {
  int64_t sequences = 1, length = 0;  // sequences of the micro-batch; tokens per sequence
  int ranks = 1, rank = 0;

  int halves() const { return ranks == 1 ? 1 : 2; }
  /// Returns the number of tokens per chunk.
  int64_t chunk_length() const;
  /// Return the number of rows of one half, and of a rank.
  int64_t half_rows() const { return sequences * chunk_length(); }
  int64_t rows() const { return halves() * half_rows(); }
  /// Returns the chunk that is half `half` of rank `of`.
  int chunk(int of, int half) const;
  /// Returns the chunk's first position in the sequence.
  int64_t chunk_begin(int of, int half) const { return chunk(of, half) * chunk_length(); }

  /// A run of chunk_length() rows of a rank, from `row` on, that hold the tokens from `token` on.
  struct Run {
    int64_t row, token;
  };
  /// Returns the runs of rank `of`, in the order of its rows.
  std::vector<Run> runs(int of) const;
  /// Returns the token of every local row of rank `of`.
  std::vector<int64_t> tokens(int of) const;
  std::vector<int64_t> tokens() const { return tokens(rank); }
  /// Returns the entries of this rank's rows, selected from one entry per token.
  std::vector<int32_t> cut(std::span<const int32_t> whole) const;
};

}  // namespace hexad::cp
