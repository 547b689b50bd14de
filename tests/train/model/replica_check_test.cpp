#include "tools/train/model/replica_check.h"

#include <gtest/gtest.h>

#include "parallel/comm/thread_group.h"

namespace hexad::train {
namespace {

using autograd::Parameter;
using autograd::ParameterSet;
using base::Axis;
using base::Error;

// Returns the parameters of a rank. There are two replicas. Each replica has two pipeline stages, and each stage has
// two tensor-parallel ranks t. rank = t + 2 * (stage + 2 * replica).
ParameterSet parameters_of(int rank, device::Device device) {
  const int t = rank % 2, stage = rank / 2 % 2;
  ParameterSet set(device);
  const auto add = [&](const std::string& name, base::Placement placement) {
    set.add({.name = name, .global_shape = {6, 5}, .placement = std::move(placement), .init = {}}).initialize(1);
  };
  if (stage == 1) add("only.late.weight", {});
  add(base::cat("stage", stage, ".split.weight"), {.shards = {{Axis::tp, 0, 2, t}}});
  add(base::cat("stage", stage, ".whole.weight"), {});
  return set;
}

std::string check(const std::function<void(int rank, ParameterSet&)>& damage) {
  std::vector<std::string> texts(8);
  comm::with_ranks(8, [&](const comm::ProcessGroup& world) {
    device::DeviceContext context;
    const mesh::Mesh mesh(world, {.pp = 2, .dp = 2, .tp = 2});
    ParameterSet parameters = parameters_of(world.rank(), context);
    damage(world.rank(), parameters);
    try {
      check_replicas(parameters, mesh);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), base::ExitCode::numeric);
      texts[world.rank()] = e.what();
    }
  });
  for (const std::string& text : texts) EXPECT_EQ(text, texts[0]) << "all ranks must report the same error";
  return texts[0];
}

void change(ParameterSet& parameters, const std::string& name) {
  *static_cast<uint8_t*>(parameters.find(name).local().raw()) ^= 1;
}

TEST(ReplicaCheck, EqualReplicasPassAndPiecesOfAParameterAreNotCompared) {
  EXPECT_EQ(check([](int, ParameterSet&) {}), "");
}

TEST(ReplicaCheck, NamesTheParameterAndTheDifferentRank) {
  EXPECT_EQ(check([](int rank, ParameterSet& p) {
              if (rank == 5) change(p, "stage0.whole.weight");
            }),
            "weights differ between replicas: 'stage0.whole.weight' on rank 5 and on ranks 0, 1, 4 "
            "(distributed.replica_check_every)");
}

TEST(ReplicaCheck, PieceIsComparedOnlyWithTheSamePiece) {
  EXPECT_EQ(check([](int rank, ParameterSet& p) {
              if (rank == 7) change(p, "stage1.split.weight");  // rank 3 has the same piece, ranks 2 and 6 do not
            }),
            "weights differ between replicas: 'stage1.split.weight' on rank 7 and on rank 3 "
            "(distributed.replica_check_every)");
}

TEST(ReplicaCheck, ComparesCopiesAlongTheTensorAxis) {
  EXPECT_EQ(check([](int rank, ParameterSet& p) {
              // Ranks 1 and 5 are replicas of each other, so only the copies on ranks 0 and 4 show the difference.
              if (rank == 1 || rank == 5) change(p, "stage0.whole.weight");
            }),
            "weights differ between replicas: 'stage0.whole.weight' on ranks 1, 5 and on ranks 0, 4 "
            "(distributed.replica_check_every)");
}

TEST(ReplicaCheck, CountsFurtherDifferencesAndNamesMissingParameters) {
  EXPECT_EQ(check([](int rank, ParameterSet& p) {
              if (rank == 2) change(p, "only.late.weight"), change(p, "stage1.whole.weight");
            }),
            "weights differ between replicas: 'only.late.weight' on rank 2 and on ranks 3, 6, 7; further pieces "
            "of weights that differ: 1 (distributed.replica_check_every)");
}

}  // namespace
}  // namespace hexad::train
