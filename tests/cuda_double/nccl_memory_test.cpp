// Peaks of device memory with NCCL. Memory is freed once its last use is issued, although the device reaches this use
// much later.
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
#include "tests/pp/pipeline_kinds.h"
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

// Pipeline stages of a rank. Each action adds its input to the sum of the rank's inputs. Like a model, it then
// allocates a tensor of the size of a message. All elements of this tensor are equal.
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
  void weights(int, int) override { pass({}, 0); }
  /// Returns the sum of all inputs.
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

// Returns the peak of device memory of each rank of a pipeline, in bytes. Expects every received tensor to be correct,
// although its sender has reused the memory.
std::vector<int64_t> peaks_of_pipeline(pp::PipelineKind kind, int ranks, int micro_batches) {
  std::vector<int64_t> peaks(ranks);
  const auto body = [&](const CardWorld& w) {
    const int rank = w.world.rank();
    const auto schedule = pp::make_schedule({.kind = kind, .split = {}}, ranks, micro_batches);
    OneValue work(w.context);
    pp::connect(w.world, schedule.stages, w.context);  // NCCL's memory is not part of the peak
    w.context.allocator()->reset_peaks();
    const device::MemoryStats before = w.context.allocator()->stats();
    pp::run(schedule, w.world, work, w.context);
    peaks[rank] = peak_since(before, w.context);
    const int one_each = micro_batches * (micro_batches + 1) / 2;
    int sum = 0;
    for (int local = 0; local < schedule.stages.stages_a_rank; ++local) {
      const int stage = schedule.stages.stage(rank, local);
      sum += (stage > 0 ? one_each : 0) + (stage < schedule.stages.last() ? 100 * one_each : 0);
    }
    EXPECT_EQ(work.received(), std::vector<float>(OneValue::shape.numel(), static_cast<float>(sum)));
  };
  with_cards(ranks, body, {.watchdog_seconds = 20});
  return peaks;
}

// A stream that reuses the memory of a sent tensor waits until the peer has received the tensor. Memory that is freed
// too early may therefore block all ranks (parallel/pp/transfers.h). Memory that is freed too late would make the peak
// grow with the number of micro-batches.
TEST(NcclMemory, PipelineMemoryDoesNotGrowWithMicroBatches) {
  for (const pp::PipelineKind kind : pp::all_kinds())
    for (const int ranks : {2, 3, 4}) {
      SCOPED_TRACE(cat(name_of(kind), " on ", ranks, " ranks"));
      const std::vector<int64_t> few = peaks_of_pipeline(kind, ranks, 2 * ranks);
      EXPECT_GT(few[0], 0);
      EXPECT_EQ(peaks_of_pipeline(kind, ranks, 8 * ranks), few);
    }
}

// Returns the peaks of device memory of two ranks in a pass with bounded buffers, in bytes. The pass sends rows to the
// experts and back in `chunks` chunks. The experts return the rows that they receive.
std::vector<int64_t> peaks_of_pass(int chunks) {
  constexpr int64_t tokens = 64, experts = 4, width = 128;
  std::vector<int64_t> peaks(2);
  with_cards(2, [&](const CardWorld& w) {
    const comm::SelfGroup self;
    const ep::ExpertGroups groups{&w.world, &self, &w.world};
    device::Stream& stream = w.context.compute();
    std::vector<int32_t> ids;
    for (int64_t t = 0; t < tokens; ++t) ids.push_back(static_cast<int32_t>(t % experts));
    const ep::RoutingOptions options{.chunking = {ep::Chunking::By::tokens, chunks}};
    PlainPass pass(
        {.settings = pass_settings(groups, experts),
         .plan = plan_for_ids(Tensor::from<int32_t>(ids, {tokens, 1}, w.context), experts, groups, options, stream),
         .end = tokens},
        Tensor::zeros({tokens, width}, Dtype::f32, w.context));
    pass.rows = [&pass](device::Stream&, size_t c) { return pass.routes.sent_slots(c, pass.like); };
    pass.buffers = moe::Buffers::bounded;
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

TEST(NcclMemory, BoundedPassInEightChunksNeedsAtMostTwoEighthsOfTheMemory) {
  const std::vector<int64_t> whole = peaks_of_pass(1), cut = peaks_of_pass(8);
  for (int rank : {0, 1}) EXPECT_LE(8 * cut[rank], 2 * whole[rank]) << "rank " << rank;
}

// No event owns the rows that a rank sends, and a tape may overwrite a gradient that only the tape owns. Rank 1
// receives late, because a lane that waits for `gate` still uses the memory into which rank 1 gathers the rows.
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
    send_ones().all(stream);  // connects the ranks
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
      EXPECT_EQ(all.address(), place) << "the allocator must return the same memory again for this test";
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
