#include "tools/bench/layer_contestant.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <ostream>
#include <thread>
#include <utility>

#include "framework/base/clock.h"
#include "framework/base/philox.h"
#include "framework/telemetry/timeline_svg.h"
#include "parallel/comm/traffic.h"
#include "tools/plan/exchange_parts.h"

namespace hexad::bench {

using namespace base;
using namespace tensor;
using namespace autograd;
using schedule::Timeline;

namespace {

bool is_tensor_group(const std::string& group) { return group == "tp" || group == "etp"; }

// Returns the bytes that a task sends to other tensor-parallel ranks, including Cost::transfers.
double tensor_bytes(const schedule::Cost& cost) {
  int64_t bytes = is_tensor_group(cost.group) ? cost.wire_bytes : 0;
  for (const schedule::Transfer& t : cost.transfers) bytes += is_tensor_group(t.group) ? t.times * t.wire_bytes : 0;
  return static_cast<double>(bytes);
}

// Returns the pass to which graphs of this kind belong, as an index of pass_names. Under Parm's S1, backward has a
// second graph, the gradient of shares.
size_t pass_of_graph(schedule::PassKind kind) { return kind == schedule::PassKind::forward ? 0 : 1; }

// Appends the spans of `next` to `all`. The first task of `next` begins when the last task of `all` ends.
void append(Timeline& all, Timeline next) {
  const double end = all.total();
  for (Timeline::Span& span : next.spans) {
    span.begin += end, span.end += end;
    all.spans.push_back(std::move(span));
  }
}

}  // namespace

LayerContestant::LayerContestant(std::string name, const train::Recipe& recipe, const mesh::Mesh& mesh,
                                 const Options& options)
    : name_(std::move(name)),
      options_(options),
      passes_(options.forward ? 1 : 2),
      recipe_(recipe),
      mesh_(mesh),
      context_(
          {.kind = recipe.device, .worker_lanes = recipe.schedule.lanes_have_threads(recipe.schedule.moe.settled())}),
      parameters_(context_),
      statistics_(1, recipe.model.moe.experts, context_) {
  const layers::Registry registry;
  const layers::Builder builder(parameters_, states_, mesh, train::dtype_of(recipe.train.precision),
                                {.sequence = recipe.parallel.sp});
  const moe::MoeSchedule schedule = recipe.schedule.moe.settled();
  if (options.block)
    block_ = std::make_unique<layers::Block>(layers::Block::Spec{recipe.model, nullptr, 0, registry, schedule},
                                             builder / "block");
  else
    alone_ = std::make_unique<moe::MoeLayer>(moe::MoeLayer::Spec{recipe.model, 0, 0, registry.router_of(recipe.model),
                                                                 schedule, registry.moe_order_of(schedule)},
                                             builder / "moe");
  for (const auto& p : parameters_) p->initialize(recipe.train.seed);
  batch_.sequences = recipe.batch.micro, batch_.length = recipe.model.context;
  batch_.first_token = mesh.coordinate(Axis::dp) * batch_.tokens();
  const int64_t rows = batch_.tokens() / (recipe.parallel.sp ? recipe.parallel.tp : 1);
  x_ = normals({rows, recipe.model.hidden}, "x");
  if (!options.forward) dy_ = normals(x_.shape(), "dy");
  for (size_t pass = 0; pass < passes_; ++pass) results_.emplace_back().name = pass_names[pass];
  if (options.exchange)
    for (const std::string_view part : part_names) results_.emplace_back().name = part;
  (block_ ? block_->experts() : alone_.get())->run_passes_by(this);
}

void LayerContestant::step() {
  for (const auto& p : parameters_) p->clear_gradient();
  statistics_.reset(stream());
  const auto policy = keep_policy();
  const bool training = passes_ == 2;
  Tape tape(stream(), *policy, training ? Tape::Mode::record : Tape::Mode::forget);
  const Value in = training ? tape.leaf(x_) : Value{x_};
  const layers::ForwardContext forward_context{
      .batch = batch_, .seed = recipe_.train.seed, .statistics = training ? &statistics_.layers : nullptr};
  std::vector<Replay::Root> roots;
  results_[0].measured = timed(0, [&] { roots.push_back({forward(tape, in, forward_context), dy_}); });
  if (options_.exchange) measure_parts();
  if (!training) return;
  Replay replay(tape, roots);
  roots.clear();
  results_[1].measured = timed(1, [&] { replay.run(); });
}

void LayerContestant::predict(const plan::Predictor* predictor) {
  assumed_links_.clear();
  const auto add_assumed = [&](const auto& work) {
    for (std::string& link : schedule::unmeasured_links(work, predictor->rates)) assumed_links_.insert(std::move(link));
  };
  for (size_t pass = 0; pass < passes_; ++pass) {
    std::vector<Timeline> timelines(mesh_.world().size());
    for (const schedule::TaskGraph& mine : graphs_[pass]) {
      const auto all = plan::graphs_of_all(mine, mesh_.world(), context_);
      if (!predictor) continue;
      std::vector<const schedule::TaskGraph*> graphs;
      for (size_t r = 0; r < all.size(); ++r)
        graphs.push_back(static_cast<int>(r) == mesh_.world().rank() ? &mine : &all[r]);
      auto next = simulate(graphs, predictor->rates, plan::rank_groups(mesh_.layout(), mesh_.world().node_of_rank()),
                           schedule::drive_of(context_));
      for (size_t r = 0; r < next.size(); ++r) append(timelines[r], std::move(next[r]));
      for (const schedule::TaskGraph* graph : graphs) add_assumed(*graph);
    }
    if (!predictor) continue;
    Prediction& whole = results_[pass].predicted.emplace();
    const schedule::TaskSpec outside = outside_of(pass);
    whole.outside = outside.cost.wire_bytes > 0 ? predictor->rates.seconds(outside) : 0;
    add_assumed(outside);
    for (const Timeline& t : timelines) whole.graph = std::max(whole.graph, t.total());
    if (options_.exchange && pass == 0) predict_parts(timelines);
    foreseen_[pass] = std::move(timelines[mesh_.world().rank()]);
  }
}

std::string LayerContestant::picture(size_t pass, std::string_view title) const {
  return telemetry::timeline_svg(title, {&seen_[pass], foreseen_[pass] ? &*foreseen_[pass] : nullptr});
}

void LayerContestant::list(size_t pass, std::string_view head, std::ostream& out) const {
  for (size_t i = 0; i < seen_[pass].spans.size(); ++i) {
    const Timeline::Span& s = seen_[pass].spans[i];
    out << fmt::format("{}\t{}\t{}\t{:.6f}\t{:.6f}", head, s.task.name, device::name_of(s.task.lane), s.begin, s.end);
    if (foreseen_[pass])
      out << fmt::format("\t{:.6f}\t{:.6f}", foreseen_[pass]->spans[i].begin, foreseen_[pass]->spans[i].end);
    out << '\n';
  }
}

void LayerContestant::run(const schedule::PassName& name, const schedule::TaskGraph& graph,
                          device::DeviceContext& context) {
  const size_t pass = pass_of_graph(name.kind);
  require(pass == pass_, "[layer_contestant] the graph '", name.text(), "' runs in ", pass_names[pass_], "; expected ",
          pass_names[pass]);
  std::vector<schedule::TaskTime> times;
  schedule::execute(graph, context, &times);
  graphs_[pass].push_back(schedule::without_work(graph));
  append(seen_[pass], schedule::measured(graph, times));
}

double LayerContestant::step_seconds() const {
  double seconds = 0;
  for (size_t pass = 0; pass < passes_; ++pass) seconds += results_[pass].measured.seconds;
  return seconds;
}

std::array<int64_t, device::category_count> LayerContestant::peaks() {
  const std::array<int64_t, device::category_count> mine = context_.allocator()->stats().peak;
  const std::vector<int64_t> all = mesh_.world().all_gather_values(mine, context_);
  std::array<int64_t, device::category_count> most{};
  for (size_t i = 0; i < all.size(); ++i) most[i % most.size()] = std::max(most[i % most.size()], all[i]);
  return most;
}

Value LayerContestant::forward(Tape& tape, const Value& x, const layers::ForwardContext& forward_context) const {
  return block_ ? (*block_)(tape, x, forward_context, layers::Recompute::none).x
                : (*alone_)(tape, x, forward_context).y;
}

Tensor LayerContestant::normals(const Shape& shape, std::string_view name) {
  std::vector<float> values(shape.numel());
  // Ranks with the same dp coordinate have the same tokens.
  base::Philox(recipe_.train.seed, base::Purpose::synthetic, name, static_cast<uint64_t>(mesh_.coordinate(Axis::dp)))
      .normals(values, 0);
  Tensor out;
  with_dtype<float, bf16, double>("normals", train::dtype_of(recipe_.train.precision), [&]<class T>() {
    std::vector<T> rounded(values.size());
    std::ranges::transform(values, rounded.begin(), [](float v) { return T(v); });
    out = Tensor::from<T>(rounded, shape, context_, Category::activation);
  });
  return out;
}

schedule::TaskSpec LayerContestant::outside_of(size_t pass) const {
  double bytes = results_[pass].measured.tp_bytes;
  for (const schedule::TaskGraph& graph : graphs_[pass])
    for (const schedule::Task& task : graph.tasks()) bytes -= tensor_bytes(task.spec.cost);
  const Axis axis = mesh_.size(Axis::tp) > 1 ? Axis::tp : Axis::etp;
  schedule::TaskSpec gathering{
      .lane = schedule::Lane::intra, .name = "outside", .kind = schedule::TaskKind::all_gather};
  gathering.cost.group = axis == Axis::tp ? "tp" : "etp";
  gathering.cost.group_size = mesh_.size(axis);
  gathering.cost.crosses_nodes = mesh_[axis].crosses_nodes();
  gathering.cost.wire_bytes = std::llround(std::max(0.0, bytes));
  return gathering;
}

Measurement LayerContestant::timed(size_t pass, const std::function<void()>& work) {
  const comm::ProcessGroup& world = mesh_.world();
  pass_ = pass;
  graphs_[pass].clear(), seen_[pass] = {};
  std::this_thread::sleep_for(std::chrono::duration<double>(options_.rest));
  world.barrier(stream()).wait();
  for (auto traffic : {comm::TrafficClass::ep, comm::TrafficClass::tp}) world.take(traffic);
  context_.allocator()->reset_peaks();
  const double seconds = [&] {
    const comm::RankThread rank_thread(*world.meter());  // a step of a run also has a RankThread
    const double begin = now();
    work();
    stream().synchronize();
    return now() - begin;
  }();
  const device::MemoryStats memory = context_.allocator()->stats();
  return over_ranks(seen_[pass],
                    {.seconds = seconds,
                     .ep_bytes = static_cast<double>(world.take(comm::TrafficClass::ep).bytes),
                     .tp_bytes = static_cast<double>(world.take(comm::TrafficClass::tp).bytes),
                     .peak_bytes = static_cast<double>(memory.peak_total - memory.used_in(Category::parameter) -
                                                       memory.used_in(Category::gradient))});
}

void LayerContestant::measure_parts() {
  const plan::ExchangeParts parts = plan::exchange_parts(seen_[0]);
  PassResult* result = &results_[passes_];
  for (const Timeline* part : {&parts.dispatch, &parts.combine}) {
    Measurement mine{.seconds = part->total()};
    for (const Timeline::Span& span : part->spans)
      (is_tensor_group(span.task.cost.group) ? mine.tp_bytes : mine.ep_bytes) +=
          static_cast<double>(span.task.cost.wire_bytes);
    (result++)->measured = over_ranks(*part, mine);
  }
}

void LayerContestant::predict_parts(std::span<const Timeline> timelines) {
  Prediction& dispatch = results_[passes_].predicted.emplace();
  Prediction& combine = results_[passes_ + 1].predicted.emplace();
  for (const Timeline& t : timelines) {
    const plan::ExchangeParts parts = plan::exchange_parts(t);
    dispatch.graph = std::max(dispatch.graph, parts.dispatch.total());
    combine.graph = std::max(combine.graph, parts.combine.total());
  }
}

Measurement LayerContestant::over_ranks(const Timeline& t, const Measurement& own) {
  const comm::ProcessGroup& world = mesh_.world();
  const std::array mine{own.seconds,
                        t.total(),
                        t.busy(schedule::Lane::inter) + t.busy(schedule::Lane::intra),
                        t.busy(schedule::Lane::compute),
                        own.peak_bytes,
                        own.ep_bytes,
                        own.tp_bytes};
  std::array<int64_t, mine.size()> bits{};
  std::transform(mine.begin(), mine.end(), bits.begin(), [](double v) { return std::bit_cast<int64_t>(v); });
  const std::vector<int64_t> all = world.all_gather_values(bits, context_);
  const auto value = [&](int rank, size_t field) { return std::bit_cast<double>(all[rank * mine.size() + field]); };
  Measurement m;
  for (int r = 0; r < world.size(); ++r) {
    size_t field = 0;
    for (double* most : {&m.seconds, &m.graph, &m.communication, &m.computation, &m.peak_bytes})
      *most = std::max(*most, value(r, field++));
    for (double* mean : {&m.ep_bytes, &m.tp_bytes}) *mean += value(r, field++) / world.size();
  }
  return m;
}

}  // namespace hexad::bench
