#include "tools/plan/layer_graphs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "framework/schedule/graph_runner.h"
#include "framework/schedule/layer_clock.h"
#include "parallel/comm/traffic_class.h"
#include "tools/train/recipe/stages.h"

namespace hexad::plan {

using base::Axis;
using train::Recipe;

namespace {

// Returns the recipe with one stage and one block. The block has experts and no routing override. The block is
// recomputed if the recipe recomputes blocks. A step of this recipe runs backward once for each micro-batch.
Recipe with_one_layer(Recipe r) {
  r.model.layers = 1, r.model.prediction_blocks = 0;
  r.model.moe.dense_layers = 0, r.model.moe.every = 1;
  r.model.moe.routing = moe::Routing::model;
  r.parallel.pp = 1, r.parallel.zero = 0;
  r.schedule.pipeline = {};
  if (r.recompute != layers::Recompute::block) r.recompute = layers::Recompute::none;
  r.offload = {};
  return r;
}

// Returns the ranks of the pipeline stage of `rank`, in ascending order. A layout with one stage on these ranks has the
// groups that `layout` has in this stage. A rank's index in the list is its rank number in the layout with one stage.
std::vector<int> stage_of(const mesh::Layout& layout, int rank) {
  const int stage = layout.coordinate(Axis::pp, rank);
  std::vector<int> ranks;
  for (int r = 0; r < layout.world(); ++r)
    if (layout.coordinate(Axis::pp, r) == stage) ranks.push_back(r);
  return ranks;
}

std::vector<int> nodes_of_stage(const mesh::Layout& layout, int rank, const std::vector<int>& node_of_rank) {
  std::vector<int> nodes;
  for (const int other : stage_of(layout, rank)) nodes.push_back(node_of_rank[other]);
  return nodes;
}

RunOnMeta run_of(const Recipe& recipe, const train::Extensions& extensions, const mesh::Layout& layout, int rank,
                 const std::vector<int>& nodes, const RoutingLoad& load) {
  const Recipe r = with_one_layer(recipe);
  const std::vector<int> stage = stage_of(layout, rank);
  return {r,
          extensions,
          mesh::Layout(r.parallel.sizes(), static_cast<int>(stage.size())),
          static_cast<int>(std::ranges::find(stage, rank) - stage.begin()),
          load,
          RunOnMeta::Record::issues,
          nodes};
}

double weight_elements(const Recipe& r) {
  const auto etp = static_cast<double>(r.parallel.etp.value_or(r.parallel.tp));
  return static_cast<double>(r.model.hidden) * static_cast<double>(r.model.moe.expert_hidden) / etp;
}

// Returns the name of a group in Rates and in costs. The name is ep, tp, etp or experts if that group has the same
// ranks. Otherwise, it is the group's own name.
std::string group_name(const device::IssuedGroup& group, const mesh::Layout& layout) {
  const int rank = group.ranks[group.rank];
  for (const auto& [axis, name] : {std::pair{Axis::ep, "ep"}, {Axis::tp, "tp"}, {Axis::etp, "etp"}})
    if (layout.members(axis, rank) == group.ranks) return name;
  return layout.expert_sharers(rank) == group.ranks ? "experts" : group.name;
}

// Returns the kind of the transfers of a collective or message. A broadcast counts as an all-gather, like in the task
// shadows.broadcast.
schedule::TaskKind kind_of(std::string_view operation) {
  for (int kind = 0; kind < schedule::kind_count; ++kind)
    if (name_of(static_cast<schedule::TaskKind>(kind)) == operation) return static_cast<schedule::TaskKind>(kind);
  return schedule::TaskKind::all_gather;
}

// Converts the operations of a log to tasks.
class IssuedWork {
 public:
  IssuedWork(const device::IssueLog& log, const mesh::Layout& layout, const std::vector<int>& nodes,
             double weight_elements)
      : log_(log), layout_(layout), nodes_(nodes), weight_elements_(weight_elements) {}

  size_t issues() const { return log_.issues().size(); }
  // True if operation `number` reduces gradients or gathers weights of data-parallel ranks. A layer does not wait for
  // such an operation.
  bool is_data_parallel(size_t number) const {
    const auto* work = std::get_if<device::CommunicationWork>(&log_.issues()[number].work);
    return work && log_.groups()[work->group].traffic == static_cast<int>(comm::TrafficClass::dp);
  }
  schedule::TaskSpec task(size_t number) const {
    const device::Issue& issue = log_.issues()[number];
    schedule::TaskSpec task{.name = base::cat(issue.family, ".", issue.name)};
    std::visit([&](const auto& work) { set(task, work, issue); }, issue.work);
    return task;
  }

 private:
  // The gate and up projections of an expert are one kernel call, but count as two products (Experts::products()).
  void set(schedule::TaskSpec& task, const device::ProductWork& w, const device::Issue&) const {
    const double weights = static_cast<double>(w.inputs) * static_cast<double>(w.outputs) / weight_elements_;
    task.cost.flops = w.flops();
    task.cost.products[base::ordinal(w.pass)] =
        std::max<int64_t>(1, w.groups) * std::max<int64_t>(1, std::llround(weights));
  }
  void set(schedule::TaskSpec& task, const device::AttentionWork& w, const device::Issue&) const {
    task.cost.flops = w.flops;
  }
  void set(schedule::TaskSpec& task, const device::MemoryWork& w, const device::Issue&) const {
    task.kind = schedule::TaskKind::copy, task.cost.copy_bytes = w.bytes / 2;
  }
  void set(schedule::TaskSpec& task, const device::CopyWork& w, const device::Issue&) const {
    task.kind = schedule::TaskKind::copy, task.cost.copy_bytes = w.bytes;
  }
  // Received messages are not counted, because a rank sends as many messages as it receives, at the same time.
  void set(schedule::TaskSpec& task, const device::CommunicationWork& w, const device::Issue& issue) const {
    const device::IssuedGroup& group = log_.groups()[w.group];
    std::set<int> nodes;
    for (const int rank : group.ranks) nodes.insert(nodes_[rank]);
    task.cost.transfers.push_back({.kind = kind_of(issue.name),
                                   .wire_bytes = issue.name == "receive" ? 0 : std::max(w.sent, w.received),
                                   .group = group_name(group, layout_),
                                   .group_size = static_cast<int>(group.ranks.size()),
                                   .crosses_nodes = nodes.size() > 1});
  }

  const device::IssueLog& log_;
  const mesh::Layout& layout_;
  const std::vector<int>& nodes_;
  const double weight_elements_;
};

// Records the work of the layer of an instance during the lifetime of the recorder: the graphs of each timed part, and
// the operations that are issued outside of the part's graphs. Records each part once. Only the operations outside of
// graphs are logged, because one log holds the steps of hundreds of schedules.
class WorkRecorder final : public schedule::GraphRunner, public schedule::LayerClock {
 public:
  // `issued` converts the operations of `log`, the log of the instance.
  WorkRecorder(train::ModelInstance& instance, device::IssueLog& log, const IssuedWork& issued)
      : instance_(instance), log_(log), issued_(issued), pause_(std::in_place, &log) {
    instance_.run_passes_by(this);
    instance_.time_layers_by(this);
  }
  ~WorkRecorder() override {
    instance_.run_passes_by(nullptr);
    instance_.time_layers_by(nullptr);
  }
  WorkRecorder(const WorkRecorder&) = delete;
  WorkRecorder& operator=(const WorkRecorder&) = delete;

  void run(const schedule::PassName&, const schedule::TaskGraph& graph, device::DeviceContext& context) override {
    add_outside();
    if (recording()) work.graphs.push_back(schedule::without_work(graph));
    const device::IssueLog::Pause pause(&log_);
    schedule::execute(graph, context);
  }
  std::shared_ptr<schedule::PartTimer> start(const schedule::PassName& pass, device::Stream&) override {
    if (parts_.insert(pass).second)
      pause_.reset();
    else
      pause_.emplace(&log_);
    next_ = issued_.issues();
    return std::make_shared<Timer>(*this);
  }

  LayerWork work;

 private:
  class Timer final : public schedule::PartTimer {
   public:
    explicit Timer(WorkRecorder& recorder) : recorder_(recorder) {}
    void stop(device::Stream&) override { recorder_.add_outside(), recorder_.pause_.emplace(&recorder_.log_); }

   private:
    WorkRecorder& recorder_;
  };

  // True while a part is recorded.
  bool recording() const { return !pause_; }
  // Adds the operations that were issued since the start of the part or the end of its graph.
  void add_outside() {
    for (; recording() && next_ < issued_.issues(); ++next_)
      if (!issued_.is_data_parallel(next_)) work.outside.push_back(issued_.task(next_));
  }

  train::ModelInstance& instance_;
  device::IssueLog& log_;
  const IssuedWork& issued_;
  std::set<schedule::PassName> parts_;
  std::optional<device::IssueLog::Pause> pause_;  // unset while a part is recorded
  size_t next_ = 0;                               // first operation that is not recorded yet
};

// Returns a flag for each pipeline stage: true if the stage has an MoE layer.
std::vector<bool> stages_with_experts(const Recipe& r, const train::Extensions& extensions) {
  const pp::StageSplit split = train::stage_split(r, extensions);
  std::vector<bool> has(r.parallel.pp, false);
  for (size_t stage = 0; stage < has.size(); ++stage)
    for (int local = 0; local < split.stages().stages_a_rank; ++local) {
      const pp::StageSplit::Layers layers = split.layers(static_cast<int>(stage), local);
      const int64_t end = split.has_head(static_cast<int>(stage), local) ? r.model.blocks() : layers.end;
      for (int64_t layer = layers.begin; layer < end; ++layer)
        if (r.model.is_moe(layer)) has[stage] = true;
    }
  return has;
}

// Appends the nodes of a group's ranks to the key of a class. Nodes are renumbered in the order of their first ranks.
void add_nodes(std::vector<int>& key, const std::vector<int>& ranks, const std::vector<int>& node_of_rank) {
  std::map<int, int> numbers;
  for (const int r : ranks)
    key.push_back(numbers.try_emplace(node_of_rank[r], static_cast<int>(numbers.size())).first->second);
}

// Returns, for each of `ranks` ep ranks, the ep coordinate of the rank that represents it. The busiest rank represents
// itself, and the rank with the median load represents all others.
std::vector<int> stand_ins(const RoutingLoad& load, int ranks) {
  const std::vector<double> slots = slots_of_ranks(load.shares().front(), ranks);
  std::vector<int> order(slots.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int rank) { return slots[rank]; });
  std::vector<int> all(slots.size(), order[(order.size() - 1) / 2]);
  all[order.back()] = order.back();
  return all;
}

}  // namespace

double LayerWork::seconds_outside(const schedule::Rates& rates) const {
  double sum = 0;
  for (const schedule::TaskSpec& task : outside) sum += rates.seconds(task);
  return sum;
}

std::set<std::string> LayerWork::unmeasured_links(const schedule::Rates& rates) const {
  std::set<std::string> links;
  const auto add = [&](const auto& work) {
    for (std::string& link : schedule::unmeasured_links(work, rates)) links.insert(std::move(link));
  };
  for (const schedule::TaskGraph& graph : graphs) add(graph);
  for (const schedule::TaskSpec& task : outside) add(task);
  return links;
}

LayerOnMeta::LayerOnMeta(const Recipe& recipe, const train::Extensions& extensions, const mesh::Layout& layout,
                         int rank, const std::vector<int>& node_of_rank, const RoutingLoad& load)
    : weight_elements_(weight_elements(recipe)),
      nodes_(nodes_of_stage(layout, rank, node_of_rank)),
      run_(run_of(recipe, extensions, layout, rank, nodes_, load)) {
  // With one stage, zb_h1 computes the weight gradients of a micro-batch after its whole backward.
  if (train::pipeline_of(recipe).delays_all_weights()) run_.instance().pipeline.kind = pp::PipelineKind::zb_h1;
}

LayerWork LayerOnMeta::work(const moe::MoeSchedule& schedule) {
  train::ModelInstance& instance = run_.instance();
  const IssuedWork issued(run_.issues(), instance.mesh.layout(), nodes_, weight_elements_);
  WorkRecorder recorder(instance, run_.issues(), issued);
  instance.reschedule(schedule);
  run_.step(1);
  return std::move(recorder.work);
}

LayerGraphs::LayerGraphs(const Recipe& recipe, const train::Extensions& extensions, const mesh::Layout& layout,
                         const std::vector<int>& node_of_rank, const RoutingLoad& load) {
  const std::vector<bool> has_experts = stages_with_experts(recipe, extensions);
  std::map<std::vector<int>, size_t> classes;
  std::vector<int> stand_in;  // by ep coordinate; empty: each rank represents itself
  if (load == RoutingLoad::given) stand_in = stand_ins(load, static_cast<int>(recipe.parallel.ep));
  for (int each = 0; each < layout.world(); ++each) {
    const int rank =
        stand_in.empty() ? each : layout.members(Axis::ep, each)[stand_in[layout.coordinate(Axis::ep, each)]];
    std::vector<int> key;
    const bool runs = has_experts[layout.coordinate(Axis::pp, rank)];
    if (runs) {
      for (const Axis axis : {Axis::ep, Axis::etp, Axis::tp}) add_nodes(key, layout.members(axis, rank), node_of_rank);
      add_nodes(key, layout.expert_sharers(rank), node_of_rank);
      add_nodes(key, layout.token_sharers(rank), node_of_rank);  // exchanges outside of the graphs use this group
      if (!stand_in.empty()) key.push_back(layout.coordinate(Axis::ep, rank));
    }
    const auto [at, is_new] = classes.try_emplace(std::move(key), layers_.size());
    class_of_rank_.push_back(at->second);
    if (is_new)
      layers_.push_back(runs ? std::make_unique<LayerOnMeta>(recipe, extensions, layout, rank, node_of_rank, load)
                             : nullptr);
  }
}

std::vector<LayerWork> LayerGraphs::work(const moe::MoeSchedule& schedule) {
  std::vector<LayerWork> all;
  for (const auto& layer : layers_) all.push_back(layer ? layer->work(schedule) : LayerWork{});
  return all;
}

}  // namespace hexad::plan
