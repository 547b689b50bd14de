// Pipelines over NCCL. A send occupies its stream until the peer receives the message. Operations begin in the order of
// the calls. Therefore, a wrong order of receives would deadlock.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "framework/kernels/kernel_table.h"
#include "parallel/pp/pipeline_runner.h"
#include "tests/comm/nccl_ranks.h"
#include "tests/pp/pipeline_kinds.h"

namespace hexad::pp {

using namespace base;
using namespace tensor;
namespace {

constexpr int64_t elements = 64;

// Stages that pass on their inputs. The activations of a micro-batch equal its number, counted from 1. Its gradients
// equal the negative of this number.
class PassOn final : public StageWork {
 public:
  PassOn(const StageMap& stages, int rank, device::DeviceContext& context)
      : stages_(stages), rank_(rank), context_(context) {}

  Boundary boundary(int) const override { return {{elements}, Dtype::f32}; }
  Tensor forward(int local_stage, int micro, const Tensor& input) override {
    const Tensor out = passed_on(input, micro + 1);
    if (stages_.stage(rank_, local_stage) == stages_.last()) ends_.emplace_back(out, micro + 1);
    return out;
  }
  Tensor backward(int local_stage, int micro, const Tensor& doutput, Replay::Weights) override {
    const Tensor out = passed_on(doutput, -(micro + 1));
    if (stages_.stage(rank_, local_stage) == 0) ends_.emplace_back(out, -(micro + 1));
    return out;
  }
  void weights(int, int) override {}

  /// Checks the tensors that arrived at the first and the last stage of the model. Returns their number.
  int64_t expect_ends() const {
    for (const auto& [tensor, value] : ends_)
      EXPECT_EQ(tensor.to_vector<float>(), std::vector<float>(elements, static_cast<float>(value)));
    return std::ssize(ends_);
  }

 private:
  Tensor passed_on(const Tensor& in, int value) const {
    const Tensor out = Tensor::empty({elements}, Dtype::f32, context_);
    const auto& k = kernels::kernels(context_).pointwise;
    if (in.defined())
      k.copy(context_.compute(), out, in);
    else
      k.fill(context_.compute(), out, value);
    return out;
  }

  const StageMap stages_;
  const int rank_;
  device::DeviceContext& context_;
  std::vector<std::pair<Tensor, int>> ends_;
};

void expect_end(const Schedule& schedule, const comm::ProcessGroup& pp, device::DeviceContext& context) {
  SCOPED_TRACE(cat(name_of(schedule.kind), ", ", schedule.micro_batches, " micro-batches"));
  PassOn work(schedule.stages, pp.rank(), context);
  run(schedule, pp, work, context);
  const auto has = [&](int stage) { return schedule.stages.place(stage).rank == pp.rank() ? 1 : 0; };
  EXPECT_EQ(work.expect_ends(), schedule.micro_batches * (has(0) + has(schedule.stages.last())));
}

class NcclPipeline : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, NcclPipeline, testing::Values(2, 4, 8));

TEST_P(NcclPipeline, EverySchedulesMessagesAreReceived) {
  const auto body = [](const comm::CardWorld& w) {
    const auto pp = w.world.split(0, w.world.rank(), comm::TrafficClass::pp, "pp");
    for (const PipelineConfig& config : all_configs())
      for (const int micro_batches : {1, 3, 8})
        expect_end(make_schedule(config, GetParam(), micro_batches), *pp, w.context);
  };
  comm::with_cards(GetParam(), body, {.watchdog_seconds = 20});
}

}  // namespace
}  // namespace hexad::pp
