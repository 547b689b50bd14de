#include "layers/moe/moe_layer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "framework/kernels/kernel_table.h"
#include "framework/kernels/meta/meta_routing.h"
#include "layers/moe/router/capacity.h"
#include "layers/moe/router/expert_choice.h"
#include "layers/moe/router/routing_log.h"
#include "parallel/tp/parallel_linear.h"
#include "parallel/tp/regions.h"

namespace hexad::moe {

using namespace autograd;
using namespace base;
using namespace layers;

namespace {

Experts::Config experts_config(const ModelConfig& c) {
  return {.kind = c.moe.expert,
          .experts = c.moe.experts,
          .hidden = c.hidden,
          .expert_hidden = c.moe.expert_hidden,
          .init_std = c.init_std,
          .output_init_std = c.init_std / std::sqrt(2.0 * static_cast<double>(c.layers)),
          .bias = c.has_expert_bias(),
          .gelu = c.gelu,
          .swiglu_limit = c.swiglu_limit};
}

// Throws Error(usage) on all ranks if the schedule has a hierarchical all-to-all, but the placement of the ranks does
// not permit it. The all-to-all needs the same number of ranks on each node of a group. All groups must have the same
// number of levels, because all ranks must issue the same number of tasks.
void check_nodes(const MoeSchedule& s, const mesh::Mesh& mesh) {
  if (s.all_to_all != ep::AllToAll::hierarchical) return;
  const bool esp_direct = s.esp_exchange_used() == ep::EspExchange::direct;
  const std::optional<mesh::UnfitGroup> unfit = esp_direct ? mesh.unfit_experts_group() : mesh.unfit_ep_group();
  if (!unfit) return;
  std::vector<int> nodes;
  for (const int r : unfit->ranks) nodes.push_back(mesh.world().node_of_rank()[r]);
  const comm::NodeGrid grid(nodes);
  const int rank = *std::min_element(unfit->ranks.begin(), unfit->ranks.end());
  if (unfit->unlike_others)
    fail(ExitCode::usage, "schedule.moe.all_to_all is hierarchical, which needs all groups of ",
         esp_direct ? "ep x etp" : "ep", " ranks to be placed on nodes in the same way, but the group of rank ", rank,
         " is ", grid.two_levels() ? "" : "not ",
         "on several nodes with equally many ranks, at least 2 each, and another group is",
         grid.two_levels() ? " not" : "", "; legal here: direct");
  std::string counts;
  for (int n = 0; n < grid.nodes(); ++n) counts += cat(n == 0 ? "" : " + ", grid.ranks(n).size());
  fail(ExitCode::usage, "schedule.moe.all_to_all is hierarchical, which needs the same number of ",
       "ranks on each node of an all-to-all, but the all-to-all of rank ", rank, " has ", counts, " = ",
       unfit->ranks.size(), " ranks on ", grid.nodes(), " nodes; legal here: direct");
}

// Throws Error(usage) if the all-to-all needs windows, and a group of ep ranks cannot have windows.
void check_windows(const MoeSchedule& s, const mesh::Mesh& mesh, Device device) {
  if (s.all_to_all != ep::AllToAll::window) return;
  const std::vector<int> ranks = group_across_nodes(mesh.layout(), Axis::ep, mesh.world().node_of_rank());
  if (!ranks.empty())
    fail(ExitCode::usage,
         "schedule.moe.all_to_all is window, which needs all ep ranks of a group on one node, but the ",
         "group of rank ", *std::min_element(ranks.begin(), ranks.end()), " (", ranks.size(),
         " ranks) is on several nodes; legal here: direct, hierarchical");
  if (const std::string& why = mesh.ep_windows().refusal(device); !why.empty())
    fail(ExitCode::usage, "schedule.moe.all_to_all is window, which needs ranks that can access each other's memory, ",
         "but ", why, "; legal here: direct");
}

PassSettings pass_settings(const MoeLayer::Spec& s, const Builder& b) {
  const comm::ProcessGroup &tensor = b.mesh()[Axis::tp], &ep = b.mesh()[Axis::ep];
  check_nodes(s.schedule, b.mesh());
  check_windows(s.schedule, b.mesh(), b.device());
  PassSettings settings{.schedule = s.schedule,
                        .order = s.order,
                        .experts = s.model.moe.experts,
                        .groups = {&ep, &b.mesh()[Axis::etp], &b.mesh().experts(), b.mesh().ep_nodes(),
                                   b.mesh().experts_nodes(), &b.mesh().ep_windows()},
                        .tensor = &tensor,
                        .tensor_ep_ranks = {},
                        .name = b.prefix()};
  settings.capacity_factor = s.model.moe.capacity_factor.value_or(0);
  if (const mesh::LaneGroups* lanes = b.mesh().lane_groups()) {
    PassGroups& lane_groups = settings.lane_groups.emplace();
    lane_groups.experts = settings.groups, lane_groups.tensor = lanes->tp.get();
    lane_groups.experts.ep = lanes->ep.get(), lane_groups.experts.experts = lanes->experts.get();
  }
  for (int rank : b.mesh().layout().members(Axis::tp, b.mesh().world().rank()))
    settings.tensor_ep_ranks.push_back(b.mesh().layout().coordinate(Axis::ep, rank));
  return settings;
}

int64_t shared_width(const MoeConfig& c) { return c.shared_experts * c.shared_hidden.value_or(c.expert_hidden); }

// Throws an error that names the router if the shapes or ids of its choice are wrong. Does not read ids in device
// memory. The routing plan detects ids out of range in device memory, but a plan of ep::make_local_routing_plan() does
// not.
void check_choice(const RouterChoice& choice, int64_t rows, const MoeConfig& c) {
  const Shape expected{rows, c.top_k};
  require(choice.ids.shape() == expected && choice.weights.shape() == expected, "[router ", c.router, "] ids are ",
          choice.ids.shape(), " and weights ", choice.weights.shape(), ", expected ", expected);
  if (!choice.ids.device().on_host()) return;
  const int32_t* ids = choice.ids.data<int32_t>();
  const int32_t lowest = c.experts_choose() ? -1 : 0;  // -1: empty slot
  for (int64_t i = 0; i < choice.ids.numel(); ++i)
    require(ids[i] >= lowest && ids[i] < c.experts, "[router ", c.router, "] row ", i / c.top_k, " names expert ",
            ids[i], ", expected at least ", lowest, " and less than ", c.experts);
}

// Throws Error(usage) if the recipe uses a loss, but the router does not return the value that the loss needs.
void require_for(double coefficient, std::string_view key, const Value& what, std::string_view name,
                 const MoeConfig& c) {
  if (coefficient > 0 && !what.data.defined())
    fail(ExitCode::usage, "model.moe.", key, " (", coefficient, ") must be 0 for the router ", c.router,
         ", which has no ", name);
}

}  // namespace

MoeLayer::MoeLayer(const Spec& s, const Builder& b)
    : config_(s.model.moe),
      index_(s.index),
      moe_layers_(s.model.moe_layers()),
      dense_width_(s.model.dense_hidden()),
      tensor_(b.tensor_parallel()),
      tokens_(&b.mesh().tokens()),
      settings_(pass_settings(s, b)),
      router_name_(b.prefix() + ".router"),
      acc_(accumulator_dtype(b.dtype())),
      router_(s.router.make(RouterSpec{s.model, s.layer, s.router}, b / "router")),
      experts_(experts_config(s.model), b / "experts"),
      override_(make_routing_override(config_, s.layer)) {
  if (config_.shared_experts > 0) {
    const int64_t width = shared_width(config_);
    if (config_.expert == ExpertKind::swiglu)
      shared_ = std::make_unique<SwigluMlp>(SwigluMlp::Config{s.model, width}, b / "shared");
    else
      shared_ = std::make_unique<GeluMlp>(GeluMlp::Config{s.model, width}, b / "shared");
    if (config_.shared_gate)
      shared_gate_.emplace(RouterSpec{s.model, s.layer, s.router}, 1, s.model.hidden, b / "shared_gate");
  }
  if (config_.has_selection_bias()) bias_ = b.state("router.bias", {config_.experts});
  if (config_.aux_loss.coefficient > 0 && config_.aux_loss.scope == AuxScope::global_batch)
    previous_counts_ = b.state("router.previous_counts", {config_.experts});
}

// Sets the rows of `ids` that belong to padding to -1. Row 0 of `ids` belongs to row r.first of the micro-batch.
void MoeLayer::mask_padding(const Tensor& ids, const Routed& r, const ForwardContext& context, Stream& stream) const {
  if (!context.batch.valid.defined()) return;
  kernels_of(ids).slots.mask(stream, ids, context.batch.valid.slice(0, r.first, r.first + ids.dim(0)));
}

// Returns the index of each row's scope, which is a sequence or the micro-batch: i32 [T], -1 for padding. Returns an
// undefined tensor if there is one scope and no padding.
Tensor MoeLayer::segments(const ForwardContext& context, const Routed& r, int64_t rows, int64_t scope_tokens,
                          Device device, Stream& stream) const {
  if (scope_tokens == context.batch.tokens() && !context.batch.valid.defined()) return {};
  std::vector<int32_t> scopes;
  for (int64_t i = 0; i < rows; ++i)
    scopes.push_back(static_cast<int32_t>(context.batch.token(r.first + i) / scope_tokens));
  const Tensor out = Tensor::from<int32_t>(scopes, {rows, 1}, device);
  mask_padding(out, r, context, stream);
  return out.reshape({rows});
}

// True if the balancing loss counts the choices in the current micro-batch.
bool MoeLayer::balances_choices() const {
  return config_.aux_loss.coefficient > 0 && config_.aux_loss.scope != AuxScope::global_batch;
}

// Returns the fractions f_e [scopes, E]: the share of a scope's token-expert pairs that have expert e, before drops,
// over all ranks that share the scope. The scope is the previous global batch if balances_choices() is false.
// Otherwise, also adds this rank's number of pairs for each expert to `totals` [E] if `totals` is defined.
Tensor MoeLayer::expert_fractions(const Tensor& ids, const Tensor& segment, int64_t scopes, const Tensor& totals,
                                  Stream& stream) const {
  const auto& k = kernels_of(ids).router_loss;
  const Tensor out = Tensor::empty({scopes, config_.experts}, acc_, ids.device());
  if (!balances_choices()) {
    k.fractions(stream, out, previous_counts_.reshape({1, config_.experts}));
    return out;
  }
  const Tensor counts = Tensor::empty(out.shape(), Dtype::i64, ids.device(), Category::communication);
  k.count(stream, counts, totals, ids, segment);
  stream.wait(tokens_->all_reduce(counts, comm::Reduce::sum, stream));
  k.fractions(stream, out, counts);
  return out;
}

Value MoeLayer::aux_losses(Tape& t, const Value& logits, const Value& scores, const Tensor& ids, const Routed& r,
                           const ForwardContext& context, const RouterStatistics::Sums& sums) const {
  // The recipe's coefficients apply to the mean over the model's MoE layers. Each rank computes the whole gradient, but
  // counts only 1 / tp of the loss, if all tp ranks route the same rows.
  const auto use = [&](double coefficient, const Tensor& total) {
    return LossUse{.weight = coefficient * (1.0 / static_cast<double>(moe_layers_)),
                   .share = r.held == Held::alike ? 1.0 / tensor_.group->size() : 1.0,
                   .total = total};
  };
  const int64_t rows = ids.dim(0);
  Value sum;
  if (config_.aux_loss.coefficient > 0) {
    const bool by_sequence = config_.aux_loss.scope == AuxScope::sequence;
    const Tensor segment =
        segments(context, r, rows, by_sequence ? context.batch.length : context.batch.tokens(), ids.device(), t.stream);
    std::vector<int64_t> in_scope(by_sequence ? context.batch.sequences : 1, 0);
    for (int64_t s = 0; s < context.batch.sequences; ++s) in_scope[by_sequence ? s : 0] += context.batch.valid_in(s);
    const Tensor fractions = expert_fractions(r.own(ids), segment.defined() ? r.own(segment) : segment,
                                              static_cast<int64_t>(in_scope.size()), sums.chosen, t.stream);
    sum =
        load_balancing_loss(t, scores, segment, fractions, in_scope, use(config_.aux_loss.coefficient, sums.aux_loss));
  }
  if (config_.z_loss > 0) {
    int64_t valid = 0;
    for (int64_t s = 0; s < context.batch.sequences; ++s) valid += context.batch.valid_in(s);
    const Tensor segment = segments(context, r, rows, context.batch.tokens(), ids.device(), t.stream);
    const Value loss = router_z_loss(t, logits, segment, valid, use(config_.z_loss, sums.z_loss));
    sum = sum.data.defined() ? add(t, sum, loss) : loss;
  }
  return sum;
}

void MoeLayer::drop(const Tensor& ids, const Tensor& scores, const Routed& r, const ForwardContext& context,
                    Stream& stream) const {
  const int64_t scope =
      config_.capacity_scope == CapacityScope::sequence ? context.batch.length : context.batch.tokens();
  drop_over_capacity(ids, r.own_begin, r.own(scores), context.batch, *tokens_,
                     {scope, *config_.capacity_factor, config_.drop}, stream);
}

MoeLayer::Routed MoeLayer::all_rows(int64_t rows) const {
  const int ranks = tensor_.group->size(), rank = tensor_.group->rank();
  if (ranks == 1 || tensor_.sequence) return {Held::apart, rank * rows, 0, rows};
  const int64_t share = tp::rows_per_rank("moe", rows, *tensor_.group);
  return {Held::alike, 0, rank * share, (rank + 1) * share};
}

MoeLayer::Routed MoeLayer::routed(int64_t rows) const {
  const Routed all = all_rows(rows);
  if (all.held == Held::apart || settings_.schedule.gates_all()) return all;
  return {Held::share, all.own_begin, 0, all.own_end - all.own_begin};
}

Value MoeLayer::shared_result(Tape& t, const Value& x, const ForwardContext& context) const {
  const Value y = (*shared_)(t, x, context);
  if (!shared_gate_) return y;
  const Routed all = all_rows(x.data.dim(0));
  return gate_rows(t, y, (*shared_gate_)(t, x, {x, context, all.first, all.own_begin, all.own_end}));
}

MoeLayer::Output MoeLayer::operator()(Tape& t, const Value& input, const ForwardContext& context,
                                      std::vector<Value> addends, const Dense& dense) const {
  const auto timer = settings_.start(PassKind::forward, t.stream);
  const Routed r = routed(input.data.dim(0));
  const Value x = r.held == Held::share ? take_share(t, input, settings_) : input;
  const int64_t rows = x.data.dim(0);
  const Tensor forced = context.routing_from ? context.routing_from->choose(context, index_, r.first, rows, x.device())
                        : override_          ? override_->choose(context, r.first, rows, x.device())
                                             : Tensor{};
  auto scope = std::make_optional<autograd::Scope>(t, x.device(), router_name_);
  // Calls the router named by model.moe.router (top_k: TopKRouter in layers/moe/router/router.cpp).
  const auto [logits, choice] = (*router_)(t, {x, context, r.first, r.own_begin, r.own_end, bias_, forced});
  check_choice(choice, rows, config_);
  require_for(config_.aux_loss.coefficient, "aux_loss.coefficient", choice.scores, "scores", config_);
  require_for(config_.z_loss, "z_loss", logits, "logits", config_);
  if (context.routing_to) context.routing_to->record(context, index_, r.first, choice.ids, t.stream);

  // The router's op keeps choice.ids for backward. Slots are therefore masked and dropped in a copy. The routing plan
  // has row -1 for masked and dropped slots, so they get no gradient.
  Tensor ids = choice.ids;
  // Experts that choose tokens never exceed their capacity.
  const bool may_drop = config_.capacity_factor && !config_.experts_choose();
  if (context.batch.valid.defined() || may_drop) {
    ids = Tensor::like(choice.ids);
    ids.copy_from(choice.ids, t.stream);
  }
  if (!config_.experts_choose())
    kernels::choose_on_meta_device(ids, config_.rule(), config_.experts, forced.defined(), index_);
  mask_padding(ids, r, context, t.stream);
  RouterStatistics* statistics =
      context.statistics && t.mode() != Tape::Mode::recompute ? &(*context.statistics)[index_] : nullptr;
  const auto count_own = [&](const Tensor& totals) {
    kernels_of(ids).router_loss.count(t.stream, {}, totals, r.own(ids), {});
  };
  // expert_fractions() adds the choices to the statistics instead if the balancing loss counts them.
  if (statistics && !balances_choices()) count_own(statistics->sums.chosen);
  if (statistics && config_.experts_choose()) {
    const int64_t choices = tokens_->rank() == 0 ? number_of_choices(config_, context.batch) : 0;
    statistics->choices_of_experts = statistics->choices_of_experts.value_or(0) + choices;
  }
  // Evaluation skips the losses, because it needs neither gradients nor statistics.
  const bool training = t.recording() || context.statistics;
  const Value losses = training ? aux_losses(t, logits, choice.scores, ids, r, context,
                                             statistics ? statistics->sums : RouterStatistics::Sums{})
                                : Value{};
  if (may_drop) {
    drop(ids, choice.scores.data, r, context, t.stream);
    if (statistics) {
      statistics->may_drop = true;
      count_own(statistics->sums.kept);
    }
  }
  scope.reset();

  SharedWork shared;
  if (shared_ || dense.mlp)
    shared = shared_work(input.data, dense.mlp, [&] {
      if (dense.mlp) addends.push_back((*dense.mlp)(t, dense.input, context));
      if (shared_) addends.push_back(shared_result(t, input, context));
    });
  // In backward, the tape sums the gradients of the input. The addends come from the pass, from the gate and, if they
  // exist, from the shared experts and the dense MLP. For the router top_k, two pullbacks compute the addend of the
  // gate from the gradients of choice.weights and of the losses: choose_experts (framework/autograd/ops/router.cpp) and
  // Gate (layers/moe/router/router.cpp).
  Value entering = x, weights = choice.weights;
  if (config_.weigh == Weighing::input) {
    entering = scale_rows(t, x, choice.weights);
    weights = {Tensor::like(choice.weights.data)};
    kernels_of(ids).pointwise.fill(t.stream, weights.data, 1);
  }
  PassResult result = moe_pass(t, entering, weights, ids, r.held, experts_, settings_, addends, shared);
  if (timer) timer->stop(t.stream);
  if (statistics) ++statistics->passes, statistics->shadowed += result.hot_experts;
  return {std::move(result.out), losses};
}

SharedWork MoeLayer::shared_work(const Tensor& x, const FeedForward* dense, std::function<void()> compute) const {
  const int64_t ranks = tensor_.group->size(), all_rows = tensor_.sequence ? x.dim(0) * ranks : x.dim(0);
  int64_t products = 0, widths = 0;  // widths: sum of the widths of all products
  tp::LinearTransfers transfers;
  const auto add_calls = [&](int64_t calls, const tp::LinearTransfers& of_call) {
    for (int64_t i = 0; i < calls; ++i) {
      transfers.forward.insert(transfers.forward.end(), of_call.forward.begin(), of_call.forward.end());
      transfers.backward.insert(transfers.backward.end(), of_call.backward.begin(), of_call.backward.end());
    }
  };
  const auto add_work = [&](const FeedForward* mlp, int64_t mlp_width) {
    if (!mlp) return;
    const FeedForwardWork work = mlp->work();
    require(work.products >= 1, "[moe] FeedForward::work() of an MLP has ", work.products,
            " products; expected at least 1");
    products += work.products, widths += work.products * mlp_width;
    add_calls(work.column_linears, tp::transfers_of_column_linear(all_rows, comm::row_bytes(x), tensor_));
    add_calls(work.row_linears, tp::transfers_of_row_linear(all_rows, comm::row_bytes(x), tensor_));
  };
  add_work(shared_.get(), shared_width(config_));
  add_work(dense, dense_width_);
  const double width = static_cast<double>(widths) / static_cast<double>(products * ranks);
  return {.compute = std::move(compute),
          .cost = {.flops = 2.0 * static_cast<double>(all_rows * experts_.shape().hidden) * width,
                   .products = {products, 0, 0},
                   .transfers = std::move(transfers.forward)},
          .backward_transfers = std::move(transfers.backward)};
}

void MoeLayer::finish_batch(const std::vector<int64_t>& global_counts) {
  const auto total = static_cast<double>(std::accumulate(global_counts.begin(), global_counts.end(), int64_t{0}));
  const double mean = total / static_cast<double>(config_.experts);
  with_dtype<float, double>("finish_batch", acc_, [&]<class T>() {
    std::vector<T> change, counts;
    for (const int64_t count : global_counts) {
      const auto n = static_cast<double>(count);
      change.push_back(static_cast<T>(config_.bias_rate * (n < mean ? 1 : n > mean ? -1 : 0)));
      counts.push_back(static_cast<T>(n));
    }
    if (previous_counts_.defined()) previous_counts_.upload(counts.data());
    // The bias must balance the model's own choices, which the counts of an override do not contain.
    if (config_.bias_rate == 0 || override_) return;
    const Tensor step = Tensor::from<T>(std::span<const T>(change), bias_.shape(), bias_.device());
    kernels_of(bias_).pointwise.add(bias_.device().context().compute(), bias_, bias_, step);
  });
}

}  // namespace hexad::moe
