#include "layers/model_size.h"

#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "framework/device/meta/meta_run.h"
#include "layers/transformer.h"
#include "parallel/comm/self_group.h"

namespace hexad::layers {

using namespace autograd;
namespace {

// Assigns experts to tokens in turn. The numbers of parameters and operations do not depend on this choice.
void choose_in_turn(std::span<int32_t> ids, const device::MetaRun::Choice& choice) {
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(static_cast<int64_t>(i) % choice.experts);
}

// Returns one part per layer, and one part for the final norm, the head and the prediction blocks.
std::vector<ModelPart> parts_of(const ModelConfig& c) {
  std::vector<ModelPart> parts;
  for (int64_t l = 0; l < c.layers; ++l) parts.push_back({l, l + 1, l == 0, false});
  parts.push_back({c.layers, c.layers, false, true});
  return parts;
}

// The whole model on a single rank of a meta device, which allocates no memory. The device imitates a GPU, so routing
// plans are local (ep::make_local_routing_plan) and the host makes no lists of rows.
class MetaModel {
 public:
  MetaModel(const ModelConfig& c, const Registry& registry)
      : config_(c),
        mesh_(self_, {}),
        parameters_(context_),
        model_(c, registry, {}, Builder(parameters_, states_, mesh_, Dtype::bf16), parts_of(c)) {}

  const ParameterSet& parameters() const { return parameters_; }

  /// Returns the number of floating-point operations of forward and backward for one sequence, in part `part` of
  /// parts_of().
  double flops(size_t part) {
    run_->product_flops = run_->attention_flops = 0;
    const MicroBatch batch = one_sequence();
    const ForwardContext forward_context{.batch = batch};
    const auto policy = keep_policy();
    Tape tape(context_.compute(), *policy);
    const ModelPart& p = model_.parts()[part];
    const Value input =
        p.first ? Value{} : tape.leaf(Tensor::empty(model_.activation_shape(batch), model_.dtype(), context_));
    const Transformer::PartOutput out = model_.forward(tape, forward_context, part, input, {});
    std::vector<Replay::Root> roots{{out.value, Tensor::like(out.value.data)}};
    if (out.prediction_loss.data.defined())
      roots.push_back({out.prediction_loss, Tensor::like(out.prediction_loss.data)});
    Replay(tape, roots).run();
    // Attention pads the values to the size of keys. The padding is not counted.
    const auto key = static_cast<double>(config_.size_of_head()), value = static_cast<double>(config_.size_of_value());
    return run_->product_flops + run_->attention_flops * ((key + value) / (2 * key));
  }

 private:
  MicroBatch one_sequence() {
    MicroBatch b;
    b.sequences = 1, b.length = config_.context;
    b.further = std::vector<MicroBatch::Further>(config_.prediction_blocks);
    std::vector<Tensor*> tensors{&b.ids, &b.positions, &b.targets};
    if (config_.attention_chunk) tensors.insert(tensors.end(), {&b.chunk_first, &b.chunk_last});
    for (MicroBatch::Further& f : b.further) tensors.insert(tensors.end(), {&f.ids, &f.targets});
    for (Tensor* t : tensors) *t = Tensor::empty({b.rows()}, Dtype::i32, context_);
    return b;
  }

  const ModelConfig config_;
  const std::shared_ptr<device::MetaRun> run_ =
      std::make_shared<device::MetaRun>(device::DeviceKind::cuda, choose_in_turn);
  device::DeviceContext context_{{.kind = device::DeviceKind::meta, .meta = run_}};
  const comm::SelfGroup self_;
  const mesh::Mesh mesh_;
  ParameterSet parameters_;
  StateSet states_;
  const Transformer model_;
};

// Returns the FLOPs per token that the meta device counts for empty slots of an MoE layer. The device counts top_k
// experts for every token.
double flops_of_empty_slots(const ModelConfig& c) {
  const int64_t products = c.moe.expert == moe::ExpertKind::swiglu ? 3 : 2;
  const auto flops = static_cast<double>(6 * products * c.hidden * c.moe.expert_hidden);
  return flops * (static_cast<double>(c.moe.top_k) - c.moe.experts_of_token());
}

PartFlops flops_of(const ModelConfig& c, MetaModel& model) {
  const auto tokens = static_cast<double>(c.context);
  // FLOPs of a block per token, by is_moe(), is_delta() and window_of().
  std::map<std::tuple<bool, bool, int64_t>, double> known;
  PartFlops flops;
  for (int64_t l = 0; l < c.layers; ++l) {
    const auto [of_block, is_new] = known.try_emplace({c.is_moe(l), c.is_delta(l), c.window_of(l)});
    if (is_new) of_block->second = model.flops(l) / tokens - (c.is_moe(l) ? flops_of_empty_slots(c) : 0);
    flops.layers.push_back(of_block->second);
  }
  flops.head = model.flops(c.layers) / tokens;
  return flops;
}

ModelSize counts_of(const ModelConfig& c, const MetaModel& model) {
  ModelSize size;
  for (const auto& p : model.parameters()) {
    size.parameters += p->global_shape().numel();
    if (p->placement().view == MeshView::expert)
      size.expert_parameters += p->global_shape().numel();
    else if (p->spec().dtype == Dtype::f32)
      size.accumulator_parameters += p->global_shape().numel();
  }
  size.active_parameters = size.parameters;
  if (c.moe.experts > 0)
    size.active_parameters -= std::llround(static_cast<double>(size.expert_parameters / c.moe.experts) *
                                           (static_cast<double>(c.moe.experts) - c.moe.experts_of_token()));
  return size;
}

}  // namespace

PartFlops flops_by_part(const ModelConfig& c, const Registry& registry) {
  MetaModel model(c, registry);
  return flops_of(c, model);
}

ModelSize parameter_counts(const ModelConfig& c, const Registry& registry) {
  return counts_of(c, MetaModel(c, registry));
}

std::vector<NamedSize> parameter_sizes(const ModelConfig& c, const Registry& registry) {
  const MetaModel model(c, registry);
  std::vector<NamedSize> sizes;
  for (const auto& p : model.parameters())
    sizes.push_back({p->name(), p->global_shape().numel(), p->spec().stack.names, p->spec()});
  return sizes;
}

ModelSize model_size(const ModelConfig& c, const Registry& registry) {
  MetaModel model(c, registry);
  ModelSize size = counts_of(c, model);
  const PartFlops flops = flops_of(c, model);
  size.flops_per_token = std::accumulate(flops.layers.begin(), flops.layers.end(), flops.head);
  return size;
}

}  // namespace hexad::layers
