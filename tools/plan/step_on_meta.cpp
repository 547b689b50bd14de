#include "tools/plan/step_on_meta.h"

#include <algorithm>

#include "framework/device/meta/meta_run.h"
#include "optim/optimizer.h"
#include "parallel/comm/imagined_group.h"
#include "parallel/pp/check.h"
#include "tools/train/stages.h"
#include "tools/train/train_step.h"

namespace hexad::plan {

using namespace layers;

using namespace train;

namespace {

using comm::TrafficClass;
using device::Category;

// Nobody reads their tokens.
class TwoDocuments final : public data::Source {
 public:
  explicit TwoDocuments(int64_t context) : context_(context) {}
  int64_t context() const override { return context_; }
  int64_t size() const override { return endless; }
  int64_t epoch(int64_t) const override { return 0; }
  void fill(int64_t, const data::Row& row) const override {
    const int64_t border = context_ / 2;
    for (int64_t t = 0; t < context_; ++t) {
      const auto i = static_cast<size_t>(t);
      row.ids[i] = row.targets[i] = 0;
      row.first[i] = static_cast<int32_t>(t < border ? 0 : border);
      row.last[i] = static_cast<int32_t>(t < border ? border : context_);
    }
  }

 private:
  const int64_t context_;
};

int64_t micro_batches_of(const Recipe& r, const mesh::Layout& layout) {
  return r.batch.global / r.batch.micro / layout.size(base::Axis::dp);
}

// A rank's run, step by step, each with any number of micro-batches.
class RunOnMeta {
 public:
  RunOnMeta(const Recipe& r, const Extensions& extensions, const mesh::Layout& layout, int rank, RoutingLoad load)
      : recipe_(r),
        sequences_(r.batch.micro * layout.size(base::Axis::dp)),
        run_(std::make_shared<device::MetaRun>(
            r.device, choose_experts(load, layout.coordinate(base::Axis::ep, rank), layout.size(base::Axis::ep),
                                     r.model.moe.capacity_factor))),
        world_(rank, layout.world()),
        instance_(r, extensions, world_, {}, run_),
        optimizer_(r.optim, instance_.parameters, r.offload.optimizer, extensions.optimizers),
        step_(recipe_, instance_, optimizer_),
        source_(r.model.context) {}

  StepOnMeta step(int64_t micro_batches) {
    recipe_.batch.global = micro_batches * sequences_;
    const auto& memory = instance_.context.allocator();
    const auto& offload = instance_.context.offload_allocator();
    memory->reset_peaks(), offload->reset_peaks();
    run_->product_flops = run_->attention_flops = 0;
    step_.run(source_, progress_, recipe_.optim.lr);
    StepOnMeta out{.memory = memory->stats(),
                   .offloaded = offload->stats().peak_in(Category::offload),
                   .product_flops = run_->product_flops,
                   .attention_flops = run_->attention_flops};
    for (int c = 0; c < comm::traffic_class_count; ++c)
      out.sent[static_cast<size_t>(c)] = static_cast<double>(world_.take(static_cast<TrafficClass>(c)).bytes);
    return out;
  }

 private:
  Recipe recipe_;  // the step reads it anew each time
  const int64_t sequences_;
  const std::shared_ptr<device::MetaRun> run_;
  const comm::ImaginedGroup world_;
  ModelInstance instance_;
  optim::Optimizer optimizer_;
  TrainStep step_;
  const TwoDocuments source_;
  Progress progress_;
};

// Of a micro-batch's tokens, as they wait for their turn.
device::MemoryStats micro_batch_memory(const Recipe& r, const mesh::Layout& layout, int rank) {
  device::DeviceContext context(
      {.kind = device::DeviceKind::meta, .meta = std::make_shared<device::MetaRun>(r.device)});
  const TwoDocuments source(r.model.context);
  const MicroBatch batch = make_micro_batch(source.batch(0, r.batch.micro), 0, r.batch.micro, context,
                                            {layout.size(base::Axis::cp), layout.coordinate(base::Axis::cp, rank)});
  return context.allocator()->stats();
}

// Whether the pipeline has as much in flight with so few micro-batches.
bool stands_for_all(const Recipe& r, const mesh::Layout& layout, int64_t few, int64_t all) {
  const auto in_flight = [&](int64_t micro_batches) {
    return pp::peak_activations(
        pp::make_schedule(pipeline_of(r), layout.size(base::Axis::pp), static_cast<int>(micro_batches)));
  };
  return few < all && in_flight(few) == in_flight(all);
}

double grown(double few, double more, double times) { return few + (more - few) * times; }

}  // namespace

std::vector<int> ranks_that_differ(const mesh::Layout& layout) {
  std::vector<int> ranks = layout.members(base::Axis::pp, 0);
  for (int& rank : ranks) rank = layout.members(base::Axis::tp, rank).back();
  return ranks;
}

StepOnMeta step_on_meta(const Recipe& recipe, const Extensions& extensions, const mesh::Layout& layout, int rank,
                        RoutingLoad load, Wanted wanted) {
  const int64_t all = micro_batches_of(recipe, layout);
  const int64_t unit = recipe.parallel.pp * (recipe.schedule.pipeline.overlap == pp::Overlap::micro_batches ? 2 : 1);
  // Under ZeRO-3 which weights are gathered follows from the uses before, at borders between micro-batches, too.
  const bool gathers = recipe.parallel.zero == 3;
  const int64_t fewer = (gathers ? 2 : 1) * unit, few = fewer + unit + all % unit;
  RunOnMeta run(recipe, extensions, layout, rank, load);
  if (!stands_for_all(recipe, layout, few, all)) {
    run.step(all);
    return run.step(all);
  }

  run.step(gathers ? few : unit);
  StepOnMeta step = run.step(few);
  // The next step's batch is loaded beside it where the host runs ahead.
  const int64_t waiting = (all - few) * (recipe.device == device::DeviceKind::cpu ? 1 : 2);
  const device::MemoryStats batch = micro_batch_memory(recipe, layout, rank);
  step.memory.peak[static_cast<size_t>(Category::activation)] += waiting * batch.total;
  step.memory.peak_total += waiting * batch.total;
  step.memory.peak_held += waiting * batch.held;
  if (wanted == Wanted::memory) return step;

  const StepOnMeta shorter = run.step(fewer);
  const double times = static_cast<double>(all - fewer) / static_cast<double>(few - fewer);
  step.product_flops = grown(shorter.product_flops, step.product_flops, times);
  step.attention_flops = grown(shorter.attention_flops, step.attention_flops, times);
  for (size_t c = 0; c < step.sent.size(); ++c) step.sent[c] = grown(shorter.sent[c], step.sent[c], times);
  return step;
}

}  // namespace hexad::plan
