// Embedding with the vocabulary split over ranks.
#include "parallel/tp/split_vocabulary.h"
#include "tests/tp/tp_lab.h"

namespace hexad::tests {

using namespace autograd;
namespace {

constexpr int64_t rows = 12, hidden = 5;

Tensor some_ids(TpLab& lab, int64_t vocabulary) {
  std::vector<int32_t> ids;
  for (const double id : values_of(lab.integers({rows}, 0, vocabulary))) ids.push_back(static_cast<int32_t>(id));
  // The ids contain the first id, the last id, and one id twice.
  ids[0] = 0, ids[1] = static_cast<int32_t>(vocabulary - 1), ids[2] = ids[3];
  return lab.values(ids);
}

class VocabEmbedding : public testing::TestWithParam<std::tuple<int, int64_t, bool>> {};

TEST_P(VocabEmbedding, RowsAndGradientsEqualOneRankBitwise) {
  const auto [ranks, vocabulary, sequence] = GetParam();
  comm::with_ranks(ranks, [vocabulary = vocabulary, sequence = sequence](const ProcessGroup& group) {
    TpLab lab(group);
    const auto held = [&](const Tensor& x) { return sequence ? lab.own_rows(x) : x; };
    Parameter& whole = lab.parameter({vocabulary, hidden});
    Parameter &piece = lab.piece(whole, 0), &later = lab.piece(whole, 0);
    const Tensor ids = some_ids(lab, vocabulary), dy = lab.randn({rows, hidden});
    const auto look_up = [&](Parameter& table, Replay::Weights weights) {
      Trial trial(lab);
      const Value y = tp::vocab_embedding(trial.tape, table, ids, {&group, sequence});
      trial.gradient_of({}, {{y, held(dy)}}, weights);
      return y.data;
    };

    Trial alone(lab);
    const Value y = embedding(alone.tape, whole, ids);
    backward(alone.tape, y, dy);
    expect_bitwise(held(y.data), look_up(piece, Replay::Weights::at_once));
    // Most rows of the table have no id in the batch, so their gradients are zero.
    expect_bitwise(TpLab::part_of(whole.gradient(), piece), piece.gradient(), Zeros::expected);
    look_up(later, Replay::Weights::delayed);
    expect_bitwise(piece.gradient(), later.gradient(), Zeros::expected);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, VocabEmbedding,
                         testing::Combine(testing::Values(2, 3, 4), testing::Values(31, 509), testing::Bool()),
                         [](const auto& test) {
                           return cat(std::get<0>(test.param), "_of_", std::get<1>(test.param),
                                      std::get<2>(test.param) ? "_by_rows" : "");
                         });

TEST(VocabEmbeddingOfOneRank, EqualsThePlainEmbedding) {
  const comm::SelfGroup self;
  TpLab lab(self);
  Parameter& table = lab.parameter({31, hidden});
  Trial one(lab), other(lab);
  const Tensor ids = some_ids(lab, 31);
  expect_bitwise(embedding(one.tape, table, ids).data, tp::vocab_embedding(other.tape, table, ids, {&self, true}).data);
  EXPECT_EQ(one.tape.size(), other.tape.size());
}

TEST(VocabEmbeddingErrors, NameTheIdTheTableAndTheRanks) {
  if (test_device() != device::DeviceKind::cpu) GTEST_SKIP() << "ids on a device are not checked";
  comm::with_ranks(2, [](const ProcessGroup& group) {
    TpLab lab(group);
    Parameter &whole = lab.parameter({31, hidden}), &row = lab.parameter({1, hidden});
    Parameter& piece = lab.piece(whole, 0);
    Trial trial(lab);
    const auto message = [&](Parameter& table, int32_t id) {
      return error_of([&] { tp::vocab_embedding(trial.tape, table, lab.values<int32_t>({3, id}), {&group}); });
    };
    EXPECT_EQ(message(piece, 31), "[vocab_embedding] ids[1] is 31; expected 0 .. 30");
    EXPECT_EQ(message(piece, -1), "[vocab_embedding] ids[1] is -1; expected 0 .. 30");
    EXPECT_EQ(message(row, 0),
              "[vocab_embedding] p1 has 1 row for the 2 ranks of world; expected at least one row per rank");
    EXPECT_EQ(message(whole, 0),
              cat("[vocab_embedding] rank ", group.rank(), " of 2 holds rows 0 .. 30 of p0; expected ",
                  group.rank() == 0 ? "0 .. 14" : "15 .. 30"));
  });
}

}  // namespace
}  // namespace hexad::tests
