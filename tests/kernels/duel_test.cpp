// Duels between two implementations that compute the same tensors.
#include "framework/kernels/duel.h"

#include <gtest/gtest.h>

#include <limits>

#include "framework/kernels/kernel_table.h"

namespace hexad::tests {

using namespace base;
using namespace kernels;
using tensor::Tensor;
namespace {

constexpr int64_t rows = 6, width = 256;

std::vector<float> numbers() {
  std::vector<float> all;
  for (int64_t i = 0; i < rows * width; ++i) all.push_back(static_cast<float>(i * 37 % 101) / 50 - 1);
  return all;
}

class DuelOn : public ::testing::TestWithParam<device::DeviceKind> {
 protected:
  device::DeviceContext context_{{.kind = GetParam()}};
  Duel duel_;

  // Returns an implementation that gives numbers(), with `by` added to element `at`. Adds nothing if `at` is -1.
  Way copy(int64_t at = -1, float by = 0) {
    std::vector<float> values = numbers();
    if (at >= 0) values[static_cast<size_t>(at)] += by;
    return [this, source = Tensor::from<float>(values, {rows, width}, context_)](Stream& s) {
      ++calls_;
      const Tensor out = Tensor::like(source);
      kernels::kernels(context_).pointwise.copy(s, out, source);
      return std::vector<Tensor>{out};
    };
  }
  std::vector<Tensor> contest(const Way& candidate, ContestRows of = {0, rows}) {
    return duel_.contest(context_.compute(), copy(), candidate, of, 1);
  }
  int calls_ = 0;
};

TEST_P(DuelOn, EqualResultsAgree) {
  contest(copy());
  const auto made = contest(copy());
  EXPECT_TRUE(duel_.score().agrees());
  EXPECT_EQ(duel_.score().contests, 2);
  EXPECT_EQ(duel_.score().error, 0);
  EXPECT_GT(duel_.score().plain_seconds, 0);
  EXPECT_GT(duel_.score().candidate_seconds, 0);
  EXPECT_EQ(made.at(0).to_vector<float>(), numbers());
}

TEST_P(DuelOn, RoundingErrorsAgree) {
  contest(copy(3 * width + 5, 1e-7f));
  EXPECT_TRUE(duel_.score().agrees()) << duel_.score().error;
  EXPECT_GT(duel_.score().error, 0);
}

TEST_P(DuelOn, OneWrongElementIsFoundAndThePlainResultsAreReturned) {
  const auto made = contest(copy(4 * width + 200, 0.01f));
  EXPECT_FALSE(duel_.score().agrees());
  EXPECT_GT(duel_.score().error, 1);
  EXPECT_EQ(made.at(0).to_vector<float>(), numbers());
}

TEST_P(DuelOn, ElementThatIsNotANumberIsFound) {
  contest(copy(0, std::numeric_limits<float>::quiet_NaN()));
  EXPECT_FALSE(duel_.score().agrees());
}

// A sum of one row may be almost zero because its addends cancel, so that its own relative error means nothing.
TEST_P(DuelOn, ElementsOfVectorsAreComparedTogether) {
  const auto vector = [&](float small, float large) {
    std::vector<float> values(300, 1.0f);
    values[17] = small, values[299] = large;
    return [t = Tensor::from<float>(values, {300}, context_)](Stream&) { return std::vector<Tensor>{t}; };
  };
  const auto contest_with = [&](const Way& candidate) {
    Duel duel;
    duel.contest(context_.compute(), vector(1e-9f, 1), candidate, {0, 300}, 1);
    return duel.score();
  };
  EXPECT_TRUE(contest_with(vector(3e-9f, 1)).agrees());
  EXPECT_FALSE(contest_with(vector(1e-3f, 1)).agrees());
  EXPECT_FALSE(contest_with(vector(1e-9f, 1.001f)).agrees()) << "the last element";
}

// Sums in f32 of values that are rounded to bf16 have the errors of bf16.
TEST_P(DuelOn, ToleranceIsThatOfTheLeastPreciseResult) {
  const auto results = [&](float sum, bool rounded) {
    std::vector<Tensor> all{Tensor::from<float>(std::vector<float>(40, sum), {40}, context_)};
    if (rounded) all.push_back(Tensor::from<bf16>(std::vector<bf16>(40, bf16(1.0f)), {40}, context_));
    return [all](Stream&) { return all; };
  };
  for (const bool rounded : {false, true}) {
    Duel duel;
    duel.contest(context_.compute(), results(1, rounded), results(1.001f, rounded), {0, 40}, 1);
    EXPECT_EQ(duel.score().agrees(), rounded) << duel.score().error;
  }
}

TEST_P(DuelOn, RowsOutsideOfTheContestAreNotCompared) {
  contest(copy(0, 1), {1, rows});
  contest(copy(5 * width, 1), {0, 5});
  EXPECT_TRUE(duel_.score().agrees()) << duel_.score().error;
}

TEST_P(DuelOn, NoRowsMeanNoContest) {
  contest(copy(0, 1), {2, 2});
  EXPECT_EQ(duel_.score().contests, 0);
  EXPECT_FALSE(duel_.score().agrees()) << "a candidate without a contest does not agree";
}

TEST_P(DuelOn, ThrowingCandidateRunsOnceAndThePlainResultsAreReturned) {
  int tried = 0;
  const Way broken = [&](Stream&) -> std::vector<Tensor> {
    ++tried;
    fail(ExitCode::resource, "no such kernel");
  };
  contest(broken);
  const auto made = contest(broken);
  EXPECT_EQ(tried, 1);
  EXPECT_EQ(duel_.score().failure, "no such kernel");
  EXPECT_FALSE(duel_.score().agrees());
  EXPECT_EQ(made.at(0).to_vector<float>(), numbers());
}

TEST_P(DuelOn, NumberOfContestsIsBounded) {
  const Way candidate = copy();
  for (int64_t i = 0; i < Duel::most; ++i) contest(candidate);
  calls_ = 0;
  contest(candidate);
  EXPECT_EQ(calls_, 1) << "only the plain implementation runs";
  EXPECT_EQ(duel_.score().contests, Duel::most);
}

INSTANTIATE_TEST_SUITE_P(Devices, DuelOn, ::testing::Values(device::DeviceKind::cpu, device::DeviceKind::emulated),
                         [](const auto& p) { return std::string(name_of(p.param)); });

TEST(DuelScore, OnlyARightAndClearlyFasterCandidateIsFavoured) {
  const DuelScore right{.contests = 3, .plain_seconds = 1, .candidate_seconds = 0.9, .error = 0.5};
  EXPECT_TRUE(right.favours_candidate());
  DuelScore equal = right, wrong = right, failed = right, none = right;
  equal.candidate_seconds = 0.995;
  wrong.error = 1.5;
  failed.failure = "no such kernel";
  none.contests = 0;
  for (const DuelScore& score : {equal, wrong, failed, none}) EXPECT_FALSE(score.favours_candidate());
}

TEST(Duel, HasNoWinnerUntilItIsDecided) {
  Duel duel;
  EXPECT_FALSE(duel.winner().has_value());
  duel.decide(Duel::Winner::candidate);
  EXPECT_EQ(duel.winner(), Duel::Winner::candidate);
}

}  // namespace
}  // namespace hexad::tests
