// Tests of gathers of rows, run by mpirun, with delayed messages. The tests compare overlapped products bitwise with
// unfused compositions, and the vocabulary loss and its gradients with one rank's results.
#include "parallel/tp/overlap.h"

#include "parallel/comm/world.h"
#include "parallel/tp/parallel_linear.h"
#include "parallel/tp/regions.h"
#include "parallel/tp/split_vocabulary.h"
#include "tests/tp/tp_lab.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
namespace {

const comm::World* world = nullptr;  // set by main(): MPI is initialised once per process

// Sizes whose messages have several rounds.
constexpr int64_t share = 16, inputs = 1100, outputs = 30;

std::unique_ptr<ProcessGroup> tensor_group() {
  return world->group().split(0, world->rank(), comm::TrafficClass::tp, "tp");
}

TEST(MpiOverlap, RowsArriveCompletely) {
  const auto group = tensor_group();
  TpLab lab(*group);
  const Tensor all = lab.randn({share * group->size(), inputs}), mine = copy_of(lab.own_rows(all));
  const tp::RowGather gather(mine, *group, lab.stream());
  int64_t visited = 0;
  gather.for_each_part(lab.stream(), [&](const Tensor& rows, int64_t begin, int64_t end) {
    expect_bitwise(all.slice(0, begin, end), rows);
    visited += end - begin;
  });
  EXPECT_EQ(visited, all.dim(0));
  expect_bitwise(all, gather.all(lab.stream()));
}

TEST(MpiOverlap, SplitProductsEqualTheirCompositionsDuringOtherTraffic) {
  const auto group = tensor_group(), other = world->group().split(0, world->rank(), comm::TrafficClass::dp, "dp");
  for (const bool sequence : {false, true}) {
    SCOPED_TRACE(sequence ? "by rows" : "all rows");
    TpLab lab(*group);
    const TensorParallel tp{group.get(), sequence};
    Parameter &up = lab.parameter({outputs, inputs}), &down = lab.parameter({inputs, outputs});
    const auto held = [&](const Tensor& x) { return sequence ? copy_of(lab.own_rows(x)) : x; };
    const Tensor x = held(lab.randn({share * group->size(), inputs})),
                 dy = held(lab.randn({share * group->size(), inputs}));
    const Tensor bucket = Tensor::zeros({1 << 18}, Dtype::f32, lab.context);

    struct Outcome {
      Tensor y, dx;
      Parameter &up, &down;
    };
    const auto run = [&](bool fused) {
      Parameter &u = lab.piece(up, 0), &d = lab.piece(down, 1);
      const device::Event busy = other->all_reduce(bucket, comm::Reduce::sum, lab.stream());
      Trial trial(lab);
      Tape& t = trial.tape;
      const Value leaf = t.leaf(x);
      Value y;
      if (fused) {
        const tp::Projection projection[] = {{&u}};
        y = tp::row_linear(t, tp::column_linear(t, leaf, projection, tp)[0], d, nullptr, tp);
      } else {
        const Value in = sequence ? tp::gather_rows(t, leaf, *group) : tp::enter(t, leaf, *group);
        const Value sum = linear(t, linear(t, in, u), d);
        y = sequence ? tp::scatter_rows(t, sum, *group) : tp::leave(t, sum, *group);
      }
      const Tensor dx = trial.gradient_of(leaf, {{y, dy}}, Replay::Weights::delayed);
      busy.wait();
      return Outcome{y.data, dx, u, d};
    };
    const Outcome expected = run(false), actual = run(true);
    expect_bitwise(expected.y, actual.y);
    expect_bitwise(expected.dx, actual.dx);
    expect_bitwise(expected.up.gradient(), actual.up.gradient());
    expect_bitwise(expected.down.gradient(), actual.down.gradient());
  }
}

TEST(MpiOverlap, VocabularyLossMatchesOneRank) {
  const auto group = tensor_group();
  TpLab lab(*group);
  constexpr int64_t rows = 50, hidden = 33, vocabulary = 509;
  Parameter& whole = lab.parameter({vocabulary, hidden});
  Parameter& piece = lab.piece(whole, 0);
  const Tensor x = lab.randn({rows, hidden});
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < rows; ++i) ids.push_back(i * 10);
  const Tensor targets = lab.values(ids);
  const auto run = [&](auto&& loss_of) {
    Trial trial(lab);
    const Value leaf = trial.tape.leaf(x), loss = loss_of(trial.tape, leaf);
    return std::pair{loss.data, trial.gradient_of(leaf, {{loss, lab.values<double>({0.5})}})};
  };
  const CrossEntropyOptions options{.gradient_scale = 0.5, .block_rows = 8};
  const auto expected =
      run([&](Tape& t, const Value& in) { return linear_cross_entropy(t, in, whole, targets, options); });
  const auto actual =
      run([&](Tape& t, const Value& in) { return tp::vocab_cross_entropy(t, in, piece, targets, *group, options); });
  const double allowed = tolerance(Dtype::f64, vocabulary * hidden);
  expect_close(expected.first, actual.first, allowed);
  expect_close(expected.second, actual.second, allowed);
  expect_close(TpLab::part_of(whole.gradient(), piece), piece.gradient(), allowed);
}

}  // namespace
}  // namespace hexad::tests

int main(int argc, char** argv) {
  hexad::comm::World world(
      {.limits = {.round_bytes = 32 << 10}, .jitter = {.seed = 7, .max_delay = std::chrono::milliseconds(2)}});
  hexad::tests::world = &world;
  if (world.rank() != 0) GTEST_FLAG_SET(brief, 1);  // other ranks report only failures
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  // Peers of a failed rank may wait for it forever, so the job is aborted.
  if (failed) world.abort_job(hexad::base::ExitCode::communication);
  return 0;
}
