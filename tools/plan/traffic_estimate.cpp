#include "tools/plan/traffic_estimate.h"

#include <algorithm>
#include <numeric>

#include "parallel/cp/context_attention.h"
#include "parallel/pp/dependencies.h"
#include "tools/plan/held_parameters.h"
#include "tools/train/stages.h"

namespace hexad::plan {

using namespace train;

namespace {

using base::Axis;
using comm::TrafficClass;
using layers::ModelConfig;
using layers::Recompute;

// A rank's part of a reduce-scatter or an all-gather of `bytes` over `ranks`; an all-reduce is both.
double shared(double bytes, double ranks) { return bytes * (ranks - 1) / ranks; }

// Mirrors what the layers do with one micro-batch.
class MicroBatchTraffic {
 public:
  MicroBatchTraffic(const Recipe& recipe, const mesh::Layout& layout)
      : recipe_(recipe),
        model_(recipe.model),
        tp_(layout.size(Axis::tp)),
        cp_(layout.size(Axis::cp)),
        ep_(layout.size(Axis::ep)),
        etp_(layout.size(Axis::etp)),
        dtype_(dtype_of(recipe.train.precision)),
        acc_(static_cast<double>(base::size_of(base::accumulator_dtype(dtype_)))),
        rows_(static_cast<double>(recipe.batch.micro * model_.context) / cp_),
        activation_(rows_ * static_cast<double>(model_.hidden * base::size_of(dtype_))) {}

  void embedding() { tensor(2); }
  void head() {
    tensor(recipe_.parallel.sp ? 3 : 2);  // the rows, and the sum of their gradients
    total_[TrafficClass::tp] += (tp_ - 1) * softmax_numbers * rows_ * acc_;
  }
  void block(int64_t layer) {
    const bool whole = recipe_.recompute == Recompute::block;
    const double attention_forwards = whole || recipe_.recompute == Recompute::attention ? 2 : 1;
    const double forwards = whole ? 2 : 1;
    products(attention_forwards);
    attention(attention_forwards);
    const bool experts = model_.is_moe(layer);
    if ((!experts || model_.moe.dense_residual) && (model_.mlp == "swiglu" || model_.mlp == "gelu")) products(forwards);
    if (experts) moe(forwards);
  }
  const TrafficEstimate& total() const { return total_; }
  /// Bytes of what one pipeline stage hands to the next.
  double boundary() const { return recipe_.parallel.sp ? activation_ / tp_ : activation_; }

 private:
  static constexpr double softmax_numbers = 3;  // of each row: tp::SplitSoftmaxRow

  // `times` a reduce-scatter or an all-gather of all rows over tp.
  void tensor(double times) { total_[TrafficClass::tp] += times * shared(activation_, tp_); }

  // A column-parallel product and the row-parallel one that ends it. With sequence parallelism backward gathers the
  // input once more, for the weights' gradients.
  void products(double forwards) { tensor(2 * forwards + (recipe_.parallel.sp ? 3 : 2)); }

  void attention(double forwards) {
    const cp::ContextSplit split{recipe_.batch.micro, model_.context, cp_, 0};
    const auto t =
        cp::context_traffic(recipe_.parallel.cp_kind, split, model_.heads / tp_,
                            std::max<int64_t>(1, model_.key_value_heads() / tp_), model_.size_of_head(), dtype_, true);
    total_[TrafficClass::cp] += forwards * static_cast<double>(t.forward) + static_cast<double>(t.backward);
  }

  void moe(double forwards) {
    const auto& moe = model_.moe;
    const double slots = static_cast<double>(moe.top_k) * activation_ / tp_;  // bytes of this rank's chosen rows
    const double passes = 2 * (forwards + 1);                                 // there and back, forward and backward
    total_[TrafficClass::ep] += passes * shared(slots, ep_);
    total_[TrafficClass::tp] += passes * (etp_ - 1) * slots;
    const double counts = static_cast<double>(moe.experts + 1) * sizeof(int64_t);
    total_[TrafficClass::ep] += forwards * (ep_ * etp_ - 1) * counts;
    if (!recipe_.parallel.sp) tensor(forwards + 1);  // each tp rank takes its rows; all are collected at the end
    if (moe.shared_experts > 0) products(forwards);
    decisions(forwards);
  }

  // What the tp x cp ranks of a micro-batch tell each other about its routing.
  void decisions(double forwards) {
    const auto& moe = model_.moe;
    const double ranks = tp_ * cp_, experts = static_cast<double>(moe.experts);
    if (moe.aux_loss.coefficient > 0 && moe.aux_loss.scope != moe::AuxScope::global_batch) {
      const double scopes =
          moe.aux_loss.scope == moe::AuxScope::sequence ? static_cast<double>(recipe_.batch.micro) : 1.0;
      total_[TrafficClass::cp] += forwards * 2 * shared(scopes * experts * sizeof(int64_t), ranks);
    }
    if (moe.capacity_factor) {
      const double of_row = static_cast<double>(moe.top_k) * sizeof(int32_t) + experts * acc_;
      total_[TrafficClass::cp] += forwards * (ranks - 1) * rows_ / tp_ * of_row;
    }
  }

  const Recipe& recipe_;
  const ModelConfig& model_;
  const int tp_, cp_, ep_, etp_;
  const base::Dtype dtype_;
  const double acc_;         // bytes
  const double rows_;        // of the micro-batch on this rank of cp
  const double activation_;  // bytes of [rows, hidden]
  TrafficEstimate total_;
};

// That a rank sends to other stages in a step.
double messages(const Recipe& r, const mesh::Layout& layout, int rank, int64_t micro_batches) {
  const int ranks = layout.size(Axis::pp), stage = layout.coordinate(Axis::pp, rank);
  const pp::Schedule schedule = pp::make_schedule(pipeline_of(r), ranks, static_cast<int>(micro_batches));
  size_t count = 0;
  for (int to = 0; to < ranks; ++to) count += pp::sent(schedule, stage, to).size();
  return static_cast<double>(count);
}

// Weights and gradients of parameters between those who hold them.
double replicas(const Recipe& r, const mesh::Layout& layout, int rank, double micro_batches) {
  const auto dtype = dtype_of(r.train.precision);
  const auto width = static_cast<double>(base::size_of(dtype));
  const auto acc = static_cast<double>(base::size_of(base::accumulator_dtype(dtype)));
  double bytes = 0;
  for (const HeldParameters& h : held_parameters(r, layout, rank)) {
    const auto ranks = static_cast<double>(h.sharers), elements = static_cast<double>(h.elements);
    const double gradients = shared(elements * acc, ranks),
                 weights = shared(elements * (h.accumulator ? acc : width), ranks);
    switch (h.two_stages ? std::min<int64_t>(r.parallel.zero, 2) : r.parallel.zero) {
      case 0:
        bytes += 2 * gradients;
        break;
      case 1:
        bytes += gradients + weights;
        break;
      case 2:
        bytes += micro_batches * gradients + weights;
        break;
      default:
        bytes += micro_batches * (gradients + 2 * weights);
    }
  }
  return bytes;
}

}  // namespace

double TrafficEstimate::total() const { return std::accumulate(bytes.begin(), bytes.end(), 0.0); }

TrafficEstimate estimate_traffic(const Recipe& r, const mesh::Layout& layout, int rank) {
  const int64_t micro_batches = r.batch.global / r.batch.micro / layout.size(Axis::dp);
  const pp::StageSplit split = stage_split(r);
  const int stage = layout.coordinate(Axis::pp, rank);
  MicroBatchTraffic micro(r, layout);
  for (int chunk = 0; chunk < split.stages().chunks; ++chunk) {
    if (split.has_embedding(stage, chunk)) micro.embedding();
    for (int64_t l = split.layers(stage, chunk).begin; l < split.layers(stage, chunk).end; ++l) micro.block(l);
    if (split.has_head(stage, chunk)) micro.head();
  }
  TrafficEstimate t = micro.total();
  for (double& bytes : t.bytes) bytes *= static_cast<double>(micro_batches);
  t[TrafficClass::pp] = messages(r, layout, rank, micro_batches) * micro.boundary();
  t[TrafficClass::dp] = replicas(r, layout, rank, static_cast<double>(micro_batches));
  return t;
}

TrafficEstimate estimate_traffic(const Recipe& r, const mesh::Layout& layout) {
  TrafficEstimate most;
  for (int rank = 0; rank < layout.world(); ++rank) {
    if (layout.coordinate(Axis::dp, rank) != 0 || layout.coordinate(Axis::cp, rank) != 0) continue;  // as the others
    const TrafficEstimate t = estimate_traffic(r, layout, rank);
    if (t.total() > most.total()) most = t;
  }
  return most;
}

}  // namespace hexad::plan
