#include "parallel/cp/context_split.h"

#include "framework/base/error.h"

namespace hexad::cp {

using base::require;

int64_t ContextSplit::piece_length() const {
  require(ranks >= 1 && 0 <= rank && rank < ranks, "[cp] the rank is ", rank, ", expected at least 0 and less than ",
          ranks);
  const int64_t pieces = ranks == 1 ? 1 : 2 * ranks;
  require(length % pieces == 0, "[cp] sequences of ", length, " tokens cannot be divided into 2 x ", ranks,
          " equal pieces; expected a multiple of ", pieces);
  return length / pieces;
}

int ContextSplit::piece(int of, int half) const {
  require(0 <= of && of < ranks && 0 <= half && half < halves(), "[cp] half ", half, " of rank ", of,
          " does not exist; expected a half from 0 to ", halves() - 1, " and a rank from 0 to ", ranks - 1);
  return half == 0 ? of : 2 * ranks - 1 - of;
}

std::vector<ContextSplit::Run> ContextSplit::runs(int of) const {
  std::vector<Run> runs;
  int64_t row = 0;
  for (int half = 0; half < halves(); ++half)
    for (int64_t s = 0; s < sequences; ++s, row += piece_length())
      runs.push_back({row, s * length + piece_begin(of, half)});
  return runs;
}

std::vector<int64_t> ContextSplit::tokens(int of) const {
  std::vector<int64_t> tokens;
  tokens.reserve(rows());
  const int64_t length_of_run = piece_length();
  for (const Run& run : runs(of))
    for (int64_t i = 0; i < length_of_run; ++i) tokens.push_back(run.token + i);
  return tokens;
}

std::vector<int32_t> ContextSplit::cut(std::span<const int32_t> whole) const {
  require(static_cast<int64_t>(whole.size()) == sequences * length, "[cp] there are ", whole.size(), " entries for ",
          sequences, " x ", length, " tokens; expected one entry for each token");
  std::vector<int32_t> mine;
  mine.reserve(rows());
  for (int64_t token : tokens()) mine.push_back(whole[token]);
  return mine;
}

}  // namespace hexad::cp
