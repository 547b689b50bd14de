#include "parallel/cp/context_split.h"

#include "framework/base/error.h"

namespace hexad::cp {

using base::require;

int64_t ContextSplit::chunk_length() const {
  require(ranks >= 1 && 0 <= rank && rank < ranks, "[cp] rank ", rank, " of ", ranks);
  const int64_t chunks = ranks == 1 ? 1 : 2 * ranks;
  require(length % chunks == 0, "[cp] sequences of ", length, " tokens do not cut into 2 x ", ranks,
          " equal chunks; expected a multiple of ", chunks);
  return length / chunks;
}

int ContextSplit::chunk(int of, int half) const {
  require(0 <= of && of < ranks && 0 <= half && half < halves(), "[cp] half ", half, " of rank ", of, " of ", ranks);
  return half == 0 ? of : 2 * ranks - 1 - of;
}

std::vector<int64_t> ContextSplit::tokens(int of) const {
  const int64_t chunk_tokens = chunk_length();
  std::vector<int64_t> tokens;
  tokens.reserve(static_cast<size_t>(rows()));
  for (int half = 0; half < halves(); ++half)
    for (int64_t s = 0; s < sequences; ++s)
      for (int64_t i = 0; i < chunk_tokens; ++i) tokens.push_back(s * length + chunk(of, half) * chunk_tokens + i);
  return tokens;
}

std::vector<int32_t> ContextSplit::cut(std::span<const int32_t> whole) const {
  require(static_cast<int64_t>(whole.size()) == sequences * length, "[cp] ", whole.size(), " entries for ", sequences,
          " sequences of ", length, " tokens");
  std::vector<int32_t> mine;
  for (int64_t token : tokens()) mine.push_back(whole[static_cast<size_t>(token)]);
  return mine;
}

std::vector<int64_t> ContextSplit::gathered_tokens() const {
  std::vector<int64_t> all;
  for (int r = 0; r < ranks; ++r) {
    const std::vector<int64_t> one = tokens(r);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

std::vector<int64_t> ContextSplit::gathered_rows() const {
  const std::vector<int64_t> all = gathered_tokens();
  std::vector<int64_t> rows(all.size());
  for (size_t r = 0; r < all.size(); ++r) rows[static_cast<size_t>(all[r])] = static_cast<int64_t>(r);
  return rows;
}

}  // namespace hexad::cp
