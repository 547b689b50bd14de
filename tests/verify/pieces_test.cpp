// Assembly of whole tensors from the pieces of all ranks. A piece is a range of consecutive elements of a rectangular
// region of the tensor.
#include "tools/verify/tensor_pieces.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "tests/training/training.h"
#include "tools/verify/ownership.h"
#include "tools/verify/rank_message.h"

namespace hexad::tests {

using namespace base;
using namespace tensor;
using namespace verify;
namespace {

// Returns elements [begin, begin + count) of a region of the [5, 7] tensor whose elements are their own indices.
Piece piece_of_35(const std::string& name, Placement::Region region, int64_t begin, int64_t count, bool owned,
                  Device device) {
  std::vector<double> values;
  for (int64_t i = begin; i < begin + count; ++i)
    values.push_back(
        static_cast<double>((region.begin[0] + i / region.size[1]) * 7 + region.begin[1] + i % region.size[1]));
  return {name, {5, 7}, std::move(region), begin, Tensor::from<double>(values, {count}, device), owned};
}

std::vector<double> indices(int64_t n) {
  std::vector<double> out(n);
  std::iota(out.begin(), out.end(), 0.0);
  return out;
}

void expect_gathered(int ranks, const std::function<std::vector<Piece>(int rank, Device)>& held) {
  on_ranks(ranks, [&](const comm::ProcessGroup& world) {
    device::DeviceContext context;
    const TensorMap whole = gather(held(world.rank(), context), world, context);
    ASSERT_EQ(whole.size(), 1u);
    EXPECT_EQ(whole.at("w").shape(), (Shape{5, 7}));
    EXPECT_EQ(whole.at("w").to_vector<double>(), indices(35));
  });
}

// Returns the runs of a piece of a [4, 5, 7] tensor. A run has its first index in the tensor, its first index in the
// piece, and its number of elements.
std::vector<std::array<int64_t, 3>> runs_of(Placement::Region region, int64_t begin, int64_t count) {
  device::DeviceContext context;
  const Piece piece{"w", {4, 5, 7}, std::move(region), begin, Tensor::empty({count}, Dtype::f64, context), true};
  std::vector<std::array<int64_t, 3>> runs;
  for_each_run(piece, [&](int64_t global, int64_t local, int64_t n) { runs.push_back({global, local, n}); });
  return runs;
}

TEST(Runs, AreAsLongAsTheRegionAllows) {
  using Runs = std::vector<std::array<int64_t, 3>>;
  EXPECT_EQ(runs_of({{0, 0, 0}, {4, 5, 7}}, 0, 140), (Runs{{0, 0, 140}})) << "whole tensor";
  EXPECT_EQ(runs_of({{0, 0, 0}, {4, 5, 7}}, 33, 50), (Runs{{33, 0, 50}})) << "elements of a whole tensor";
  EXPECT_EQ(runs_of({{1, 0, 0}, {2, 5, 7}}, 0, 70), (Runs{{35, 0, 70}})) << "shard of the first dimension";
  EXPECT_EQ(runs_of({{0, 1, 0}, {2, 3, 7}}, 20, 22), (Runs{{27, 0, 1}, {42, 1, 21}}))
      << "shard of the second dimension";
  EXPECT_EQ(runs_of({{3, 1, 2}, {1, 2, 4}}, 1, 6), (Runs{{115, 0, 3}, {121, 3, 3}})) << "shard of all dimensions";
  EXPECT_EQ(runs_of({{0, 0, 0}, {0, 5, 7}}, 0, 0), Runs{}) << "no elements";
}

TEST(RankMessage, IsReadInTheOrderInWhichItWasWritten) {
  MessageWriter out;
  out.value(int64_t{3}), out.text("w"), out.shape({5, 7}), out.text("");
  const std::string message = out.take();
  EXPECT_EQ(out.take(), "");
  MessageReader in("gather", message, 2);
  EXPECT_EQ(in.value<int64_t>(), 3);
  EXPECT_EQ(in.text(), "w");
  EXPECT_EQ(in.shape(), (Shape{5, 7}));
  EXPECT_FALSE(in.done());
  EXPECT_EQ(in.text(), "");
  EXPECT_TRUE(in.done());
}

TEST(RankMessage, ErrorNamesTheRankOfAShortMessage) {
  MessageWriter out;
  out.value(size_t{3});
  const std::string message = out.take();
  try {
    MessageReader("gather", message, 2).text();
    FAIL() << "no error was thrown; expected std::logic_error";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[gather] the message of rank 2 has 8 bytes; expected at least 11");
  }
}

TEST(Gather, AssemblesUnevenShardsOfTwoDimensions) {
  expect_gathered(6, [](int rank, Device device) {
    const base::Shard rows{Axis::ep, 0, 2, rank / 3}, columns{Axis::etp, 1, 3, rank % 3};
    const Placement placement{.view = base::MeshView::expert, .shards = {rows, columns}};
    const auto region = placement.region({5, 7});
    return std::vector{piece_of_35("w", region, 0, region.size.numel(), true, device)};
  });
}

TEST(Gather, AssemblesRunsOfElementsOfAColumnShard) {
  expect_gathered(4, [](int rank, Device device) {
    const int64_t side = rank % 2;  // columns 0..2 and 3..6, each on two ranks
    const Placement::Region region{{0, side == 0 ? 0 : 3}, {5, side == 0 ? 3 : 4}};
    const int64_t all = region.size.numel(), cut = 8;
    return std::vector{rank < 2 ? piece_of_35("w", region, 0, cut, true, device)
                                : piece_of_35("w", region, cut, all - cut, true, device)};
  });
}

TEST(Gather, AcceptsReplicasAndRanksWithoutTheTensor) {
  expect_gathered(3, [](int rank, Device device) {
    std::vector<Piece> held;
    if (rank > 0) held.push_back(piece_of_35("w", {{0, 0}, {5, 7}}, 0, 35, rank == 1, device));
    return held;
  });
}

TEST(Gather, AcceptsEmptyPieces) {
  expect_gathered(2, [](int rank, Device device) {
    return std::vector{piece_of_35("w", {{0, 0}, {5, 7}}, rank == 0 ? 0 : 35, rank == 0 ? 35 : 0, true, device)};
  });
}

TEST(Gather, NamesAnElementNotOwnedExactlyOnce) {
  struct Case {
    int64_t first, second;  // elements that ranks 0 and 1 own, both from element 0
    const char* message;
  };
  const char* twice =
      "[gather] layers.0.w: element 0 is owned by ranks 0 and 1; expected one owner for each of its 35 elements";
  for (const Case& c :
       {Case{34, 0,
             "[gather] layers.0.w: element 34 is owned by no rank; expected one owner for each of its 35 elements"},
        Case{35, 1, twice}, Case{34, 1, twice}}) {  // in the last case, the ranks own 35 elements in total
    SCOPED_TRACE(testing::Message() << c.first << " and " << c.second << " elements");
    try {
      on_ranks(2, [&](const comm::ProcessGroup& world) {
        device::DeviceContext context;
        const int64_t mine = world.rank() == 0 ? c.first : c.second;
        gather({piece_of_35("layers.0.w", {{0, 0}, {5, 7}}, 0, mine, true, context)}, world, context);
      });
      ADD_FAILURE() << "no error was thrown; expected an error that names layers.0.w";
    } catch (const std::logic_error& e) {
      EXPECT_STREQ(e.what(), c.message);
    }
  }
}

TEST(Ownership, AcceptsRangesOfAnyOrderAndLength) {
  Ownership ranges;
  EXPECT_EQ(ranges.problem(0), "");
  ranges.add(3, 2, 0), ranges.add(0, 1, 2), ranges.add(5, 0, 1), ranges.add(1, 2, 1), ranges.add(4, 0, 2);
  EXPECT_EQ(ranges.problem(5), "");
  EXPECT_EQ(ranges.owned(), 5);
}

TEST(Ownership, NamesTheFirstElementWithoutOneOwner) {
  struct Owned {
    int64_t begin, count;
    int rank;
  };
  const auto problem = [](std::initializer_list<Owned> all) {
    Ownership ranges;
    for (const auto& [begin, count, rank] : all) ranges.add(begin, count, rank);
    const std::string text = ranges.problem(6);
    return text.substr(0, text.find(';'));
  };
  EXPECT_EQ(problem({}), "element 0 is owned by no rank");
  EXPECT_EQ(problem({{1, 5, 0}}), "element 0 is owned by no rank");
  EXPECT_EQ(problem({{4, 2, 1}, {0, 3, 0}}), "element 3 is owned by no rank");
  EXPECT_EQ(problem({{0, 5, 0}}), "element 5 is owned by no rank");
  // Each of the next lists has six elements in total, as many as the tensor.
  EXPECT_EQ(problem({{0, 4, 3}, {2, 2, 1}}), "element 2 is owned by ranks 1 and 3");
  EXPECT_EQ(problem({{0, 2, 0}, {3, 2, 1}, {3, 2, 2}}), "element 2 is owned by no rank");
  EXPECT_EQ(problem({{0, 3, 1}, {0, 3, 1}}), "element 0 is owned by rank 1 twice");
}

TEST(Gather, PiecesOfARunEqualItsWholeTensors) {
  const Recipe recipe = small_recipe();
  const Trajectory alone = one_rank_trajectory(recipe, documents_of(recipe), 1);
  for (const auto& overrides :
       std::vector<std::vector<std::string>>{{"parallel.tp=2", "parallel.ep=2", "parallel.etp=1"},
                                             {"parallel.pp=2", "parallel.zero=3"},
                                             {"parallel.zero=1", "parallel.cp=2"}}) {
    on_ranks(4, [&](const comm::ProcessGroup& world) {
      TrainingRun run(small_recipe(overrides), world);
      const Trajectory together = trajectory(run, documents_of(recipe), 1);
      expect_close(alone, together, base::step_tolerance(Dtype::f64, 64, 2));
    });
  }
}

}  // namespace
}  // namespace hexad::tests
