// Assignment of tokens to ranks, and their order.
#include "parallel/cp/context_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

namespace hexad::cp {
namespace {

using Tokens = std::vector<int64_t>;

TEST(ContextSplit, KeepsThePlainOrderOnOneRank) {
  const ContextSplit split{.sequences = 2, .length = 3};
  EXPECT_EQ(split.halves(), 1);
  EXPECT_EQ(split.piece_length(), 3);
  EXPECT_EQ(split.rows(), 6);
  EXPECT_EQ(split.tokens(), (Tokens{0, 1, 2, 3, 4, 5}));
}

TEST(ContextSplit, GivesEveryRankAPieceFromTheHeadAndOneFromTheTail) {
  const ContextSplit split{.sequences = 2, .length = 8, .ranks = 2, .rank = 1};
  EXPECT_EQ(split.halves(), 2);
  EXPECT_EQ(split.piece_length(), 2);
  EXPECT_EQ(split.rows(), 8);
  EXPECT_EQ(split.tokens(0), (Tokens{0, 1, 8, 9, 6, 7, 14, 15}));
  EXPECT_EQ(split.tokens(1), (Tokens{2, 3, 10, 11, 4, 5, 12, 13}));
  EXPECT_EQ(split.tokens(), split.tokens(1));
}

TEST(ContextSplit, GivesEveryTokenToOneRank) {
  for (int ranks : {1, 2, 3, 4, 5})
    for (int64_t sequences : {1, 3}) {
      const ContextSplit split{.sequences = sequences, .length = 2 * ranks * 3, .ranks = ranks};
      Tokens tokens;
      for (int r = 0; r < ranks; ++r)
        for (int64_t token : split.tokens(r)) tokens.push_back(token);
      std::sort(tokens.begin(), tokens.end());
      Tokens all(sequences * split.length);
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(tokens, all);
    }
}

TEST(ContextSplit, SelectsTheEntriesOfItsRows) {
  const ContextSplit split{.sequences = 1, .length = 8, .ranks = 2, .rank = 1};
  EXPECT_EQ(split.cut(std::vector<int32_t>{10, 11, 12, 13, 14, 15, 16, 17}), (std::vector<int32_t>{12, 13, 14, 15}));
}

std::string message(auto&& f) {
  try {
    f();
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "no error";
}

TEST(ContextSplit, RefusesSequencesThatDoNotDivideEvenly) {
  EXPECT_EQ(message([] { return ContextSplit{.length = 10, .ranks = 2}.tokens(); }),
            "[cp] sequences of 10 tokens cannot be divided into 2 x 2 equal pieces; expected a multiple of 4");
  EXPECT_EQ(message([] { return ContextSplit{.length = 7}.rows(); }), "no error")
      << "a single rank does not divide sequences";
  EXPECT_EQ(message([] { return ContextSplit{.length = 8, .ranks = 2, .rank = 2}.rows(); }),
            "[cp] the rank is 2, expected at least 0 and less than 2");
  EXPECT_EQ(message([] { return ContextSplit{.length = 8, .ranks = 2}.tokens(2); }),
            "[cp] half 0 of rank 2 does not exist; expected a half from 0 to 1 and a rank from 0 to 1");
  EXPECT_EQ(message([] { return ContextSplit{.length = 8, .ranks = 2}.cut(std::vector<int32_t>(7)); }),
            "[cp] there are 7 entries for 1 x 8 tokens; expected one entry for each token");
}

}  // namespace
}  // namespace hexad::cp
