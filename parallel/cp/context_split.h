// Division of a micro-batch's tokens among the ranks of context parallelism, and the order of the tokens on each rank.
// Contains only arithmetic.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hexad::cp {

/// Division of sequences among ranks. Every sequence is divided into 2 x ranks equal pieces. Half 0 of rank c is piece
/// c, and half 1 is piece 2 x ranks - 1 - c. This zigzag order gives every rank the same work in causal attention. The
/// rows of a rank are ordered by half, sequence and position in the piece. A half is contiguous: [sequences,
/// piece_length]. A single rank has one half, whose rows are in the order of the tokens.
///
/// A token is identified by its index in the whole micro-batch: sequence * length + position. All methods except
/// halves() throw std::logic_error if a rank or half does not exist. All methods except halves() and piece() also throw
/// std::logic_error if sequences cannot be divided into equal pieces.
struct ContextSplit {
  int64_t sequences = 1, length = 0;  // sequences in the micro-batch; tokens in each sequence
  int ranks = 1, rank = 0;

  int halves() const { return ranks == 1 ? 1 : 2; }
  /// Returns the number of tokens of a piece.
  int64_t piece_length() const;
  /// The next two functions return the number of rows of one half, and of one rank.
  int64_t half_rows() const { return sequences * piece_length(); }
  int64_t rows() const { return halves() * half_rows(); }
  /// Returns the index of the piece that is half `half` of rank `of`.
  int piece(int of, int half) const;
  /// Returns the position in the sequence at which half `half` of rank `of` begins.
  int64_t piece_begin(int of, int half) const { return piece(of, half) * piece_length(); }

  /// Run of piece_length() consecutive rows of a rank, from `row` on, that contain consecutive tokens, from `token` on.
  struct Run {
    int64_t row, token;
  };
  /// Returns the runs of rank `of`, in the order of its rows.
  std::vector<Run> runs(int of) const;
  /// Returns the token in each row of rank `of`.
  std::vector<int64_t> tokens(int of) const;
  std::vector<int64_t> tokens() const { return tokens(rank); }
  /// Returns the entries of `whole` for the tokens of this rank's rows. `whole` has one entry for each token.
  std::vector<int32_t> cut(std::span<const int32_t> whole) const;
};

}  // namespace hexad::cp
