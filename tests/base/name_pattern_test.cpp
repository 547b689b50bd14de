// Shell patterns on names of parameters.
#include "framework/base/name_pattern.h"

#include <gtest/gtest.h>

#include <vector>

namespace hexad::tests {
namespace {

using base::matches;
using base::matches_any;

TEST(NamePattern, StarMatchesDotsAndThePatternMatchesTheWholeName) {
  EXPECT_TRUE(matches("layers.0.*", "layers.0.moe.experts.down.weight"));
  EXPECT_TRUE(matches("*.bias", "layers.0.attention.q.bias"));
  EXPECT_FALSE(matches("layers.0.*", "layers.01"));
  EXPECT_FALSE(matches("layers.0", "layers.0.moe"));
  EXPECT_FALSE(matches("layers.1.*", "layers.11.norm"));
}

TEST(NamePattern, QuestionMarkAndSetMatchOneCharacter) {
  EXPECT_TRUE(matches("layers.?.norm", "layers.7.norm"));
  EXPECT_FALSE(matches("layers.?.norm", "layers.17.norm"));
  EXPECT_TRUE(matches("layers.[0-3].*", "layers.3.norm"));
  EXPECT_FALSE(matches("layers.[0-3].*", "layers.4.norm"));
}

TEST(NamePattern, EmptyListOfPatternsMatchesNothing) {
  EXPECT_FALSE(matches_any(std::vector<std::string>{}, "norm"));
  EXPECT_TRUE(matches_any(std::vector<std::string>{"head.*", "norm"}, "norm"));
}

}  // namespace
}  // namespace hexad::tests
