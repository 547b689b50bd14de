#include "framework/data/tokenizers/bpe_model.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "framework/base/philox.h"
#include "framework/data/tokenizers/piece_cache.h"

namespace hexad::data {
namespace {

using base::Philox;
using base::Purpose;

struct Merges {
  std::map<std::pair<int32_t, int32_t>, PairTable::Value> naive;
  PairTable table;
};

// Returns `count` merges of random symbols. Each merge creates a new symbol.
Merges random_merges(uint64_t seed, int32_t symbols, int32_t count) {
  const Philox random(seed, Purpose::synthetic);
  Merges merges;
  for (int32_t i = 0; i < count; ++i) {
    const auto left = static_cast<int32_t>(random.below(2 * i, static_cast<uint64_t>(symbols + i)));
    const auto right = static_cast<int32_t>(random.below(2 * i + 1, static_cast<uint64_t>(symbols + i)));
    const PairTable::Value value{i, symbols + i};
    merges.naive[{left, right}] = value;
    merges.table.set(left, right, value);
  }
  return merges;
}

// Merges `symbols` by the definition, which searches all pairs before each merge.
std::vector<int32_t> merged_naively(const Merges& merges, std::vector<int32_t> symbols) {
  while (true) {
    PairTable::Value best{std::numeric_limits<int32_t>::max(), -1};
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = merges.naive.find({symbols[i], symbols[i + 1]});
      if (found != merges.naive.end() && found->second.rank < best.rank) best = found->second, at = i;
    }
    if (best.id < 0) return symbols;
    symbols[at] = best.id;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(BpeMerges, EqualTheNaiveAlgorithmForShortAndLongPieces) {
  size_t merged = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Merges merges = random_merges(seed, 4, 60);
    const Philox random(seed, Purpose::sample);
    for (const size_t length : {0, 1, 2, 3, 20, 31, 32, 33, 34, 100, 400}) {
      std::vector<int32_t> symbols;
      for (size_t i = 0; i < length; ++i) symbols.push_back(static_cast<int32_t>(random.below(1000 * length + i, 4)));
      const std::vector<int32_t> expected = merged_naively(merges, symbols);
      merged += symbols.size() - expected.size();
      merge_symbols(merges.table, symbols);
      EXPECT_EQ(symbols, expected) << "seed " << seed << ", " << length << " symbols";
    }
  }
  EXPECT_GT(merged, 1000u);
}

TEST(BpeMerges, LeftmostOfEqualRanksIsMergedFirst) {
  PairTable merges;
  merges.set(1, 1, {0, 2});
  for (const size_t length : {5, 101}) {
    std::vector<int32_t> symbols(length, 1), expected(length / 2, 2);
    expected.push_back(1);
    merge_symbols(merges, symbols);
    EXPECT_EQ(symbols, expected);
  }
}

TEST(PairTable, KeepsEveryPairAndReplacesValues) {
  PairTable table;
  for (int32_t i = 0; i < 5000; ++i) table.set(i % 71, i, {i, i + 1});
  table.set(3, 3, {-7, 8});
  EXPECT_EQ(table.size(), 5000u);
  for (int32_t i = 0; i < 5000; ++i) {
    ASSERT_NE(table.find(i % 71, i), nullptr);
    EXPECT_EQ(table.find(i % 71, i)->rank, i == 3 ? -7 : i);
  }
  EXPECT_EQ(table.find(70, 3), nullptr);
}

TEST(PieceCache, ReturnsEncodedPiecesEvenAfterItWasFull) {
  PieceCache cache;
  int64_t encoded = 0;
  const auto ids_of = [&](int32_t i) {
    std::vector<int32_t> ids{-1};
    cache.append("piece " + std::to_string(i), ids, [&] {
      ++encoded;
      ids.insert(ids.end(), {i, i + 1});
    });
    return ids;
  };
  constexpr int32_t pieces = 300'000;  // more than the cache holds
  for (int32_t i = 0; i < pieces; ++i) ASSERT_EQ(ids_of(i), (std::vector<int32_t>{-1, i, i + 1}));
  EXPECT_EQ(encoded, pieces);
  EXPECT_EQ(ids_of(pieces - 1), (std::vector<int32_t>{-1, pieces - 1, pieces}));
  EXPECT_EQ(encoded, pieces) << "the last piece is in the cache";
  EXPECT_EQ(ids_of(0), (std::vector<int32_t>{-1, 0, 1}));
}

TEST(PieceCache, LongPiecesAreNotKept) {
  PieceCache cache;
  std::vector<int32_t> ids;
  const std::string piece(1000, 'a');
  int calls = 0;
  for (int i = 0; i < 2; ++i) cache.append(piece, ids, [&] { ids.push_back(++calls); });
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 2}));
}

}  // namespace
}  // namespace hexad::data
