// Peaks of a device's memory under NCCL. Memory is freed when it is last used in the order of issue, although the
// device is far behind.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

#include "framework/device/cuda/cuda_stream.h"
#include "framework/schedule/executor.h"
#include "parallel/comm/self_group.h"
#include "parallel/pp/pipeline_runner.h"
#include "parallel/tp/overlap.h"
#include "tests/comm/nccl_ranks.h"
#include "tests/ep/plan_for_ids.h"
#include "tests/moe/plain_pass.h"
#include "tests/support/cuda_double/append.h"

namespace hexad::tests {

using namespace base;

namespace {

using comm::CardWorld;
using comm::with_cards;
using device::Device;

int64_t peak_since(const device::MemoryStats& before, device::DeviceContext& context) {
  return context.allocator()->stats().peak_total - before.total;
}

// Stages that send tensors of one value, and the sum of what a rank has received.
class OneValue final : public pp::StageWork {
 public:
  explicit OneValue(Device device)
      : stream_(device.context().compute()),
        pointwise_(kernels::kernels(device).pointwise),
        device_(device),
        received_(Tensor::zeros(shape, Dtype::f32, device)) {}
  Boundary boundary(int) const override { return {shape, Dtype::f32}; }
  Tensor forward(int, int micro, const Tensor& input) override { return pass(input, micro + 1); }
  Tensor backward(int, int micro, const Tensor& doutput, pp::Replay::Weights) override {
    return pass(doutput, 100 * (micro + 1));
  }
  void weights(int, int) override {}
  /// Returns the sum of the tensors received.
  std::vector<float> received() const { return received_.to_vector<float>(); }

  static inline const Shape shape{64, 256};

 private:
  Tensor pass(const Tensor& in, double value) const {
    if (in.defined()) pointwise_.add(stream_, received_, received_, in);
    const Tensor out = Tensor::empty(shape, Dtype::f32, device_);
    pointwise_.fill(stream_, out, value);
    return out;
  }

  device::Stream& stream_;
  const kernels::PointwiseKernels& pointwise_;
  const Device device_;
  const Tensor received_;
};

// Returns the peaks of two ranks in 1F1B. Checks that every tensor that arrives is whole, although its sender's memory
// is in use again.
std::vector<int64_t> peaks_of_pipeline(int micro_batches) {
  std::vector<int64_t> peaks(2);
  with_cards(2, [&](const CardWorld& w) {
    const auto schedule = pp::make_schedule({.kind = pp::PipelineKind::one_f_one_b, .split = {}}, 2, micro_batches);
    OneValue work(w.context);
    pp::connect(w.world, schedule.stages, w.context);  // NCCL's memory is not part of the peak
    w.context.allocator()->reset_peaks();
    const device::MemoryStats before = w.context.allocator()->stats();
    pp::run(schedule, w.world, work, w.context);
    peaks[w.world.rank()] = peak_since(before, w.context);
    const int one_each = micro_batches * (micro_batches + 1) / 2;
    const auto sum = static_cast<float>(w.world.rank() == 0 ? 100 * one_each : one_each);
    EXPECT_EQ(work.received(), std::vector<float>(OneValue::shape.numel(), sum));
  });
  return peaks;
}

TEST(NcclMemory, APipelineNeedsNoMoreForMoreMicroBatches) {
  const std::vector<int64_t> few = peaks_of_pipeline(4);
  EXPECT_GT(few[0], 0);
  EXPECT_EQ(peaks_of_pipeline(32), few);
}

// Returns the peaks of two ranks in a bounded pass of rows to the experts and back, in so many chunks. The experts
// return the rows that they receive.
std::vector<int64_t> peaks_of_pass(int chunks) {
  constexpr int64_t tokens = 64, experts = 4, width = 128;
  std::vector<int64_t> peaks(2);
  with_cards(2, [&](const CardWorld& w) {
    const comm::SelfGroup self;
    const ep::ExpertGroups groups{&w.world, &self, &w.world};
    device::Stream& stream = w.context.compute();
    std::vector<int32_t> ids;
    for (int64_t t = 0; t < tokens; ++t) ids.push_back(static_cast<int32_t>(t % experts));
    const ep::PlanOptions options{.chunking = {ep::Chunking::By::tokens, chunks}};
    PlainPass pass(
        {.settings = pass_settings(groups, experts),
         .plan = plan_for_ids(Tensor::from<int32_t>(ids, {tokens, 1}, w.context), experts, groups, options, stream),
         .end = tokens},
        Tensor::zeros({tokens, width}, Dtype::f32, w.context));
    pass.rows = [&pass](device::Stream&, size_t c) { return pass.routes.sent_slots(c, pass.like); };
    pass.bounded = true;
    const schedule::TaskGraph& graph = pass.graph();
    w.world.connect(comm::Use::exchanges, w.context);  // NCCL's memory is not part of the peak
    w.context.allocator()->reset_peaks();
    const device::MemoryStats before = w.context.allocator()->stats();
    schedule::execute(graph, w.context);
    peaks[w.world.rank()] = peak_since(before, w.context);
    EXPECT_GE(peaks[w.world.rank()], pass.like.bytes() / chunks);
    stream.synchronize();
  });
  return peaks;
}

TEST(NcclMemory, ABoundedPassInEightChunksNeedsTwoEighthsOfThePass) {
  const std::vector<int64_t> whole = peaks_of_pass(1), cut = peaks_of_pass(8);
  for (int rank : {0, 1}) EXPECT_LE(8 * cut[rank], 2 * whole[rank]) << "rank " << rank;
}

// No event owns the rows that a rank sends, and a tape overwrites a gradient of which it is the sole owner. Here rank 1
// receives late: the memory of its gathered rows is still in use by a lane that waits for `gate`.
TEST(NcclMemory, RowsMayBeOverwrittenOnceTheyAreGathered) {
  constexpr int64_t rows = 8, width = 64;
  std::promise<void> gate;
  const auto opened = gate.get_future().share();
  with_cards(2, [&](const CardWorld& w) {
    device::Stream& stream = w.context.compute();
    const auto& fill = kernels::kernels(w.context).pointwise.fill;
    const Tensor mine = Tensor::empty({rows, width}, Dtype::f32, w.context);
    const auto send_ones = [&] {
      fill(stream, mine, 1);
      return tp::RowGather(mine, w.world, stream);
    };
    send_ones().all(stream);  // makes the channels
    stream.synchronize();
    uintptr_t place = 0;
    if (w.world.rank() == 1) {
      device::Stream& lane = w.context.stream(device::Lane::copy);
      cuda_double::append(*device::cuda::cuda_stream(lane).queue(), [opened] { opened.wait(); });
      const Tensor before = Tensor::empty({2 * rows, width}, Dtype::f32, w.context, device::Category::communication);
      before.fill_bytes(0, lane);
      place = before.address();
    }
    const tp::RowGather gather = send_ones();
    const Tensor all = gather.all(stream);
    fill(stream, mine, 2);
    if (w.world.rank() == 1) {
      EXPECT_EQ(all.address(), place) << "else this test shows nothing";
    } else {
      const device::Event overwritten = stream.record();
      for (int i = 0; i < 100 && !overwritten.done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      gate.set_value();
    }
    EXPECT_EQ(all.to_vector<float>(), std::vector<float>(2 * rows * width, 1.0f));
  });
}

}  // namespace
}  // namespace hexad::tests
