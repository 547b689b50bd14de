#include "tools/train/model/model_pipeline.h"

#include <optional>

#include "parallel/pp/repeated_passes.h"
#include "parallel/pp/tape_stages.h"
#include "tools/train/model/repeated_layers.h"
#include "tools/train/recipe/stages.h"

namespace hexad::train {

using namespace autograd;
using namespace base;
using namespace layers;
using namespace tensor;
namespace {

Tensor scalar(double value, Dtype dtype, Device device) {
  Tensor t = Tensor::empty({1}, dtype, device);
  kernels::kernels(device).pointwise.fill(device.context().compute(), t, value);
  return t;
}

// Returns the schedule of an evaluation. It has only forwards, none of them merged with another action.
pp::CheckedSchedule forwards_of(const ModelInstance& instance, size_t micro_batches) {
  return pp::checked(pp::forwards_of(pp::make_schedule(instance.pipeline, instance.mesh.size(Axis::pp),
                                                       static_cast<int>(micro_batches))),
                     false, instance.freeing);
}

}  // namespace

Tensor ModelPipeline::run(const pp::CheckedSchedule& program, std::span<const MicroBatch> batches,
                          const Training* training, std::vector<Tensor>* row_losses) {
  const Transformer& model = instance_.model;
  Stream& stream = instance_.context.compute();
  // All tp ranks have the same loss, so only one tp rank adds its loss to the sum.
  const bool counts = instance_.mesh.coordinate(Axis::tp) == 0;
  const bool predicts = training && model.config().prediction_blocks > 0;
  const Tensor sums = Tensor::zeros({predicts ? 2 : 1}, Dtype::f64, instance_.device());
  const auto& add_up = kernels::kernels(instance_.device()).pointwise.sum;

  pp::TapeStages::Functions functions;
  functions.tape = [&] {
    return std::make_unique<Tape>(stream, policy_, training ? Tape::Mode::record : Tape::Mode::forget,
                                  recipe_.recompute == Recompute::norms);
  };
  functions.forward = [&](Tape& tape, int local_stage, int micro, const Value& input) -> pp::TapeStages::Output {
    ForwardContext forward_context{.batch = batches[micro],
                                   .seed = recipe_.train.seed,
                                   .routing_to = instance_.routing_to,
                                   .routing_from = instance_.routing_from};
    Transformer::TrainOptions options;
    options.loss.logits_dtype = recipe_.train.dtype_of_logits();
    if (training) {
      forward_context.step = static_cast<uint64_t>(training->step);
      forward_context.statistics = training->statistics;
      options.recompute = recipe_.recompute;
      options.loss.gradient_scale = training->loss_gradient;
      if (instance_.repeated_layers) {
        instance_.repeated_layers->begin(micro);
        forward_context.blocks = instance_.repeated_layers;
      }
    }
    const size_t part = local_stage;
    auto out = model.forward(tape, forward_context, part, input, options, row_losses ? &(*row_losses)[micro] : nullptr);
    const bool last = model.parts()[part].last;
    const auto count = [&](int64_t index, const Value& loss) {
      if (counts) add_up(stream, sums.slice(0, index, index + 1), loss.data, kernels::Write::add);
    };
    if (last) count(0, out.value);
    pp::TapeStages::Output result{out.value, {}};
    if (!training) return result;
    const Dtype acc = accumulator_dtype(model.dtype());
    if (last) result.roots.push_back({out.value, scalar(training->loss_gradient, acc, instance_.context)});
    if (out.prediction_loss.data.defined()) {
      count(1, out.prediction_loss);
      const double gradient = training->loss_gradient * model.config().prediction_share();
      result.roots.push_back({out.prediction_loss, scalar(gradient, acc, instance_.context)});
    }
    if (out.aux_losses.empty()) return result;
    const Tensor gradient = scalar(training->aux_losses_gradient, acc, instance_.context);
    for (const Value& losses : out.aux_losses) result.roots.push_back({losses, gradient});
    return result;
  };
  if (training && instance_.parameter_recorder)
    functions.contributed = [&](Parameter& p, bool last) {
      instance_.parameter_recorder->contribute(p, [&] { training->contributed(p, last); });
    };
  else if (training)
    functions.contributed = training->contributed;
  if (training) functions.before_backward = training->before_backward;

  const auto& pp = instance_.mesh[Axis::pp];
  pp::TapeStages stages(
      program.schedule, pp.rank(),
      [&](int micro) {
        return pp::StageWork::Boundary{model.activation_shape(batches[micro]), model.dtype()};
      },
      std::move(functions));
  if (training && instance_.repeated_layers)
    instance_.repeated_layers->report_to([&stages](Parameter& p) { stages.leave_out_contribution(p); });
  std::optional<pp::RepeatedStages> repeated;
  if (training && instance_.repeated_passes)
    repeated.emplace(stages, program.schedule, pp.rank(), instance_.device(), *instance_.repeated_passes);
  pp::StageWork& work = repeated ? static_cast<pp::StageWork&>(*repeated) : stages;
  pp::run(program, pp, work, instance_.context, program.merge ? &instance_.fibers : nullptr);
  return sums;
}

Tensor ModelPipeline::train(std::span<const MicroBatch> batches, const Training& training) {
  const pp::CheckedSchedule& program = [&]() -> const pp::CheckedSchedule& {
    const device::Span span(instance_.context.spans(), "pipeline: schedule");
    return instance_.schedules->of(instance_.pipeline, instance_.mesh.size(Axis::pp), static_cast<int>(batches.size()),
                                   instance_.freeing);
  }();
  return run(program, batches, &training);
}

Tensor ModelPipeline::evaluate(std::span<const MicroBatch> batches) {
  return run(forwards_of(instance_, batches.size()), batches, nullptr);
}

std::vector<Tensor> ModelPipeline::row_losses(std::span<const MicroBatch> batches) {
  std::vector<Tensor> losses(batches.size());
  run(forwards_of(instance_, batches.size()), batches, nullptr, &losses);
  return losses;
}

}  // namespace hexad::train
