#include "parallel/comm/self_group.h"

#include <gtest/gtest.h>

#include "collectives_check.h"

namespace hexad::comm {

using namespace base;
namespace {

TEST(SelfGroup, PassesTheChecksOfAGroupOfOne) {
  const SelfGroup self;
  check_collectives(self);
  check_uneven_splits(self);
  check_split(self);
}

TEST(SelfGroup, CopiesInTheOrderOfAWorkerStream) {
  device::DeviceContext context{{.worker_lanes = true}};
  Stream& lane = context.stream(device::Lane::inter);
  const Tensor in = Tensor::zeros({4}, Dtype::f32, context), out = Tensor::zeros({4}, Dtype::f32, context);
  lane.run([in] { in.data<float>()[3] = 5; });
  SelfGroup().all_gather(out, in, lane).wait();
  EXPECT_EQ(out.data<float>()[3], 5);
}

std::string refusal(const std::function<void(const ProcessGroup&, Stream&, Device)>& call) {
  device::DeviceContext context;
  device::InlineStream stream;
  try {
    call(SelfGroup(TrafficClass::ep, "ep"), stream, context);
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(ProcessGroup, NamesGroupOperationAndMistake) {
  const auto zeros = [](Shape s, Device d, Dtype t = Dtype::f32) { return Tensor::zeros(s, t, d); };
  EXPECT_EQ(refusal([&](auto& g, auto& s, auto d) { g.all_gather(zeros({5}, d), zeros({4}, d), s); }),
            "[ep] all_gather: out [5] has 5 elements; expected 4, 1 times those of in [4]");
  EXPECT_EQ(refusal([&](auto& g, auto& s, auto d) { g.reduce_scatter(zeros({4}, d, Dtype::bf16), zeros({4}, d), s); }),
            "[ep] reduce_scatter: in is f32 but out is bf16; expected equal dtypes");
  EXPECT_EQ(refusal([&](auto& g, auto& s, auto d) {
              g.all_to_all(zeros({4, 2}, d), zeros({4, 2}, d), {{4}, {3}}, s);
            }),
            "[ep] all_to_all: out is [4, 2], but its splits sum to 3 rows; expected equal numbers of rows");
  EXPECT_EQ(refusal([&](auto& g, auto& s, auto d) {
              g.all_to_all(zeros({4}, d), zeros({4}, d), {{2, 2}, {4}}, s);
            }),
            "[ep] all_to_all: there are 2 splits for 1 rank; expected one split for each rank");
  EXPECT_EQ(refusal([&](auto& g, auto& s, auto d) {
              g.all_to_all(zeros({4, 3}, d), zeros({4, 2}, d), {{4}, {4}}, s);
            }),
            "[ep] all_to_all: rows of out [4, 3] and in [4, 2] differ in dimension 1; expected equal rows");
  EXPECT_EQ(refusal([&](auto& g, auto& s, auto d) { g.broadcast(zeros({4}, d), 1, s); }),
            "[ep] broadcast: the root is 1 in a group of 1; expected 0 .. 0");
  EXPECT_EQ(
      refusal([&](auto& g, auto& s, auto d) { g.send(zeros({4}, d), 0, s); }),
      "[ep] send: rank 0 cannot exchange messages with rank 0 in a group of 1; expected another rank of the group");
  EXPECT_EQ(refusal([&](auto& g, auto& s, auto d) {
              g.all_reduce(zeros({4, 4}, d).slice(1, 0, 2), Reduce::sum, s);
            }),
            "[ep] all_reduce: x [4, 2] has strides [4, 1]; expected contiguous elements");
  EXPECT_EQ(refusal([&](auto& g, auto& s, auto) { g.all_reduce(Tensor(), Reduce::sum, s); }),
            "[ep] all_reduce: x is not defined; expected a tensor");
}

}  // namespace
}  // namespace hexad::comm
