// Candidate layouts for the use of a trained model on several ranks.
#include "tools/train/checkpoint/open_on_ranks.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/training/training.h"

namespace hexad::tests {

using namespace train;
namespace {

// Returns the parallel section of the best candidate.
ParallelConfig best_of(int64_t world, TrainedUse use) {
  std::vector<std::string> keys{"model.heads=8", "model.hidden=32", "model.layers=8", "model.context=16"};
  const auto candidates = layout_candidates(small_recipe(), world, use);
  keys.insert(keys.end(), candidates.at(0).begin(), candidates.at(0).end());
  return small_recipe(keys).parallel;
}

TEST(LayoutCandidates, GenerationDividesTheWorkForATokenFirst) {
  const ParallelConfig best = best_of(4, TrainedUse::generation);
  EXPECT_EQ(best.tp, 4);
  EXPECT_EQ(best.pp, 1);
  EXPECT_EQ(best.ep, 4) << "the four experts are spread over the ranks";
  EXPECT_EQ(best.etp, 1);
}

TEST(LayoutCandidates, EvaluationGivesRanksDifferentSequencesFirst) {
  const ParallelConfig best = best_of(4, TrainedUse::evaluation);
  EXPECT_EQ(best.tp, 1);
  EXPECT_EQ(best.pp, 1);
  EXPECT_EQ(best.ep, 4);
}

TEST(LayoutCandidates, BestIsPossibleOnTheRanks) {
  for (const int world : {2, 3, 4, 5, 6, 8})
    EXPECT_NO_THROW(mesh::Layout(best_of(world, TrainedUse::evaluation).sizes(), world)) << world << " ranks";
  for (const int world : {2, 4})
    EXPECT_NO_THROW(mesh::Layout(best_of(world, TrainedUse::generation).sizes(), world)) << world << " ranks";
}

}  // namespace
}  // namespace hexad::tests
