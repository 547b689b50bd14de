// Measures one MoE layer, forward and backward, on the ranks of the job, under several schedules in turn.
// tools/bench/all_to_all.sh and tools/bench/papers/{mpmoe,parm,parm_placements,eps,shadow}.sh make their tables from
// the output.
//
//   mpirun -np 2 moe_layer --layer M=768,H=3072,B=1024,E=2,ep=2 --schedule sequential
//                       --schedule n4:chunk_by=tokens,chunks=4
//
// --layer: M hidden size, H width of an expert (GELU), S sequences of each data-parallel rank (default 1), B tokens of
// a sequence, E experts, k experts per token, tp, etp, ep; or any key of a recipe that contains a dot. Unless
// such a key changes the routing, tokens choose experts in turn.
// --schedule: a name and keys of schedule.moe. In every round, each schedule runs once. Before the rounds, each
// schedule runs once without being counted.
// --forward: evaluates without backward.
// --block: runs the layer in its block, with norms, attention (without rotary positions) and, under
// model.moe.dense_residual, the dense MLP. Predictions remain those of the layer alone; with shared: beside, they
// include the dense MLP, which is then a task of the layer.
// --threads: threads per rank. --device: cpu, emulated or cuda. With cuda, ranks exchange data through host memory.
//
// Prints one line per measurement, with fields separated by tabs:
//   layer, round, schedule, forward or backward
//   seconds of the slowest rank for the pass, including the router
//   seconds of the slowest rank for the pass's task graph
//   seconds with communication, and seconds with computation, each on the rank that has the most
//   predicted seconds of the graph: simulated from the graphs of all ranks and the rates of --profile; "-" without it
//   predicted seconds in which tensor-parallel ranks gather outside the graph, by the bytes; "-" without --profile
//   bytes that a rank sends in ep groups and in etp and tp groups, mean over the ranks
//   peak bytes of activations, temporaries and communication of the step so far, of the rank that needs the most
//
// --tasks FILE: writes a line to FILE for each task of the last round on rank 0: layer, schedule, pass, task, lane,
// start and end as measured and as predicted. --search: prints for each layer: "search", layer, schedule, measurements.
// These are the result of MPMoE's Algorithm 1 for the schedules without chunks and with chunk_by=tokens, in their
// order: one result for those without memory_reuse, and one for each strategy that schedules have. Layers that differ
// only in B share the state of the search.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>

#include "framework/base/clock.h"
#include "framework/base/philox.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/telemetry/timeline_svg.h"
#include "layers/block.h"
#include "layers/moe/router/router_statistics.h"
#include "parallel/comm/world.h"
#include "tools/plan/granularity_search.h"
#include "tools/plan/rank_graphs.h"
#include "tools/plan/schedule_trace.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::bench {

using namespace base;
using namespace tensor;
namespace {

using namespace autograd;
using schedule::Timeline;

struct Options {
  std::vector<std::string> layers, schedules;
  int rounds = 5;
  int threads = 1;
  bool search = false, forward = false, block = false;
  std::string device = "cpu", profile, pictures, tasks;
};

constexpr const char* plain_recipe = R"(
model:
  layers: 1
  heads: 16
  head_size: 2
  vocab: 64
  moe: {expert: gelu, top_k: 1, routing: balanced, aux_loss: {coefficient: 0}}
batch: {micro: 1}
train: {threads: 1, peak_flops: 1.0e9}
data: {synthetic: true}
)";

std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(by), text.size());
    out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string recipe_key(std::string_view letter) {
  constexpr std::pair<std::string_view, std::string_view> keys[] = {
      {"M", "model.hidden"},  {"H", "model.moe.expert_hidden"}, {"S", "batch.micro"},
      {"B", "model.context"}, {"E", "model.moe.experts"},       {"k", "model.moe.top_k"},
      {"tp", "parallel.tp"},  {"etp", "parallel.etp"},          {"ep", "parallel.ep"}};
  for (const auto& [name, key] : keys)
    if (name == letter) return std::string(key);
  return std::string(letter);
}

struct NamedSchedule {
  std::string name;
  std::vector<std::string> settings;

  explicit NamedSchedule(std::string_view text) : name(text.substr(0, text.find(':'))) {
    if (name.size() < text.size()) settings = split(text.substr(name.size() + 1), ',');
  }
};

train::Recipe recipe_of(const std::string& layer, const NamedSchedule& schedule, const Options& options, int world) {
  std::vector<std::string> overrides;
  int64_t sequences = 1;
  for (const std::string& setting : split(layer, ',')) {
    if (setting.starts_with("S=")) sequences = std::stoll(setting.substr(2));
    const size_t equals = std::min(setting.find('='), setting.size());
    overrides.push_back(recipe_key(std::string_view(setting).substr(0, equals)) + setting.substr(equals));
  }
  overrides.push_back(base::cat("batch.global=", sequences * world));
  for (const std::string& setting : schedule.settings) overrides.push_back("schedule.moe." + setting);
  overrides.push_back(base::cat("train.threads=", options.threads));
  overrides.push_back("device=" + options.device);
  if (options.block) overrides.push_back("model.position=learned");
  if (!options.profile.empty()) overrides.push_back("schedule.profile=" + options.profile);
  return train::load_recipe(config::parse(plain_recipe, "moe_layer", overrides), layers::Registry(), world);
}

/// Results of one pass over all ranks. The comment at the top of this file describes the members.
struct Measurement {
  double seconds = 0, graph = 0, communication = 0, computation = 0, ep_bytes = 0, tp_bytes = 0, peak_bytes = 0;
};

constexpr std::array<std::string_view, 2> pass_names{"forward", "backward"};

/// A layer under one of the compared schedules.
class Contestant final : public schedule::GraphRunner {
 public:
  Contestant(std::string name, const train::Recipe& recipe, const mesh::Mesh& mesh, const Options& options)
      : name_(std::move(name)),
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
    const int64_t rows = batch_.tokens() / (recipe.parallel.sp ? recipe.parallel.tp : 1);
    x_ = normals({rows, recipe.model.hidden}, "x"), dy_ = normals(x_.shape(), "dy");
    (block_ ? block_->experts() : alone_.get())->run_passes_by(this);
  }

  const std::string& name() const { return name_; }
  const train::Recipe& recipe() const { return recipe_; }
  size_t passes() const { return passes_; }
  const std::array<Measurement, 2>& last() const { return last_; }
  struct Prediction {
    double graph = 0, outside = 0;  // seconds of the graph, and seconds outside of it
  };
  /// Returns the predictions of forward and of backward; nullopt without a profile.
  const std::array<std::optional<Prediction>, 2>& predicted() const { return predicted_; }
  double step_seconds() const { return last_[0].seconds + last_[1].seconds; }

  /// Runs forward and, without --forward, also backward. Collective.
  void step() {
    for (const auto& p : parameters_) p->clear_gradient();
    statistics_.reset(stream());
    const auto policy = keep_policy();
    context_.allocator()->reset_peaks();
    const bool training = passes_ == 2;
    Tape tape(stream(), *policy, training ? Tape::Mode::record : Tape::Mode::forget);
    const Value in = training ? tape.leaf(x_) : Value{x_};
    const layers::ForwardContext pass{.batch = batch_, .statistics = training ? &statistics_.layers : nullptr};
    std::vector<Replay::Root> roots;
    last_[0] = timed(0, [&] { roots.push_back({forward(tape, in, pass), dy_}); });
    if (!training) return;
    Replay replay(tape, roots);
    roots.clear();
    last_[1] = timed(1, [&] { replay.run(); });
  }

  /// Predicts the graphs of the last step with the simulator. Collective.
  void predict(const plan::Predictor* predictor) {
    for (size_t pass = 0; pass < passes_; ++pass) {
      const auto all = plan::graphs_of_all(graphs_[pass], mesh_.world(), context_);
      if (!predictor) continue;
      std::vector<const schedule::TaskGraph*> graphs;
      for (size_t r = 0; r < all.size(); ++r)
        graphs.push_back(static_cast<int>(r) == mesh_.world().rank() ? &graphs_[pass] : &all[r]);
      auto timelines =
          simulate(graphs, predictor->rates, plan::rank_groups(mesh_.layout(), mesh_.world().node_of_rank()),
                   schedule::drive_of(context_));
      predicted_[pass] = {.graph = 0, .outside = outside_seconds(pass, predictor->rates)};
      for (const Timeline& t : timelines) predicted_[pass]->graph = std::max(predicted_[pass]->graph, t.total());
      foreseen_[pass] = std::move(timelines[mesh_.world().rank()]);
    }
  }

  /// Returns a picture of the last pass on this rank.
  std::string picture(size_t pass, std::string_view title) const {
    return telemetry::timeline_svg(title, {&seen_[pass], foreseen_[pass] ? &*foreseen_[pass] : nullptr});
  }

  /// Writes a line to `out` for each task of the last pass on this rank: measured and predicted start and end, in
  /// seconds.
  void list(size_t pass, std::string_view head, std::ostream& out) const {
    for (size_t i = 0; i < seen_[pass].spans.size(); ++i) {
      const Timeline::Span& s = seen_[pass].spans[i];
      out << fmt::format("{}\t{}\t{}\t{:.6f}\t{:.6f}", head, s.task.name, device::name_of(s.task.lane), s.begin, s.end);
      if (foreseen_[pass])
        out << fmt::format("\t{:.6f}\t{:.6f}", foreseen_[pass]->spans[i].begin, foreseen_[pass]->spans[i].end);
      out << '\n';
    }
  }

  void run(const std::string& name, const schedule::TaskGraph& graph, device::DeviceContext& context) override {
    if (!name.ends_with(pass_names[pass_])) return schedule::execute(graph, context);  // S1's gather, not measured
    std::vector<schedule::TaskTime> times;
    schedule::execute(graph, context, &times);
    graphs_[pass_] = schedule::without_work(graph);
    seen_[pass_] = schedule::measured(graph, times);
  }

 private:
  device::Stream& stream() { return context_.compute(); }

  Value forward(Tape& tape, const Value& x, const layers::ForwardContext& pass) const {
    return block_ ? (*block_)(tape, x, pass, layers::Recompute::none).x : (*alone_)(tape, x, pass).y;
  }

  Tensor normals(const Shape& shape, std::string_view name) {
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

  double outside_seconds(size_t pass, const schedule::Rates& rates) const {
    double bytes = last_[pass].tp_bytes;
    for (const schedule::Task& task : graphs_[pass].tasks())
      if (task.spec.cost.group == "tp" || task.spec.cost.group == "etp")
        bytes -= static_cast<double>(task.spec.cost.wire_bytes);
    const Axis axis = mesh_.size(Axis::tp) > 1 ? Axis::tp : Axis::etp;
    schedule::TaskSpec gathering{
        .lane = schedule::Lane::intra, .name = "outside", .kind = schedule::TaskKind::all_gather};
    gathering.cost.group = axis == Axis::tp ? "tp" : "etp";
    gathering.cost.group_size = mesh_.size(axis);
    gathering.cost.crosses_nodes = mesh_[axis].crosses_nodes();
    gathering.cost.wire_bytes = std::llround(std::max(0.0, bytes));
    return gathering.cost.wire_bytes > 0 ? rates.seconds(gathering) : 0;
  }

  template <class Work>
  Measurement timed(size_t pass, Work&& work) {
    const comm::ProcessGroup& world = mesh_.world();
    pass_ = pass;
    world.barrier(stream()).wait();
    for (auto traffic : {comm::TrafficClass::ep, comm::TrafficClass::tp}) world.take(traffic);
    const double begin = now();
    work();
    stream().synchronize();
    const double seconds = now() - begin;
    const device::MemoryStats memory = context_.allocator()->stats();
    const Timeline& t = seen_[pass];
    const std::array mine{seconds,
                          t.total(),
                          t.busy(schedule::Lane::inter) + t.busy(schedule::Lane::intra),
                          t.busy(schedule::Lane::compute),
                          static_cast<double>(memory.peak_total - memory.used_in(Category::parameter) -
                                              memory.used_in(Category::gradient)),
                          static_cast<double>(world.take(comm::TrafficClass::ep).bytes),
                          static_cast<double>(world.take(comm::TrafficClass::tp).bytes)};
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

  const std::string name_;
  const size_t passes_;
  const train::Recipe recipe_;
  const mesh::Mesh& mesh_;
  device::DeviceContext context_;
  ParameterSet parameters_;
  layers::StateSet states_;
  std::unique_ptr<moe::MoeLayer> alone_;  // set if the layer runs without its block
  std::unique_ptr<layers::Block> block_;
  layers::ModelStatistics statistics_;
  layers::MicroBatch batch_;
  Tensor x_, dy_;
  // Results of forward and backward; pass_ selects one of them.
  size_t pass_ = 0;
  std::array<Measurement, 2> last_;
  std::array<schedule::TaskGraph, 2> graphs_;
  std::array<Timeline, 2> seen_;
  std::array<std::optional<Timeline>, 2> foreseen_;
  std::array<std::optional<Prediction>, 2> predicted_;
};

class Bench {
 public:
  Bench(const Options& o, const comm::ProcessGroup& world) : options_(o), world_(world) {
    for (const std::string& s : o.schedules) schedules_.emplace_back(s);
  }

  void run(const std::string& layer) {
    std::vector<std::unique_ptr<Contestant>> contestants;
    for (const NamedSchedule& s : schedules_) {
      const train::Recipe recipe = recipe_of(layer, s, options_, world_.size());
      contestants.push_back(std::make_unique<Contestant>(s.name, recipe, mesh_of(recipe), options_));
      Contestant& c = *contestants.back();
      std::optional<plan::Predictor> predictor;
      if (first() && !options_.profile.empty()) predictor.emplace(recipe, mesh_of(recipe));
      c.step();
      c.predict(predictor ? &*predictor : nullptr);
    }
    for (int round = 1; round <= options_.rounds; ++round)
      for (const auto& c : contestants) {
        c->step();
        if (first()) print(layer, round, *c);
      }
    if (first() && !options_.tasks.empty()) list(layer, contestants);
    if (options_.search)
      for (const auto& [strategy, name] : enum_names(moe::ReuseStrategy{}))
        search(layer, strategy, std::string(name), contestants);
    if (first() && !options_.pictures.empty())
      for (const auto& c : contestants) draw(layer, *c);
  }

 private:
  bool first() const { return world_.rank() == 0; }

  // Returns a mesh for `recipe`. Layers with the same layout share their groups.
  const mesh::Mesh& mesh_of(const train::Recipe& recipe) {
    const mesh::Sizes sizes = recipe.parallel.sizes();
    auto& mesh = meshes_[mesh::Layout(sizes, world_.size()).to_string()];
    if (!mesh) mesh = std::make_unique<mesh::Mesh>(world_, sizes);
    return *mesh;
  }

  static void print(const std::string& layer, int round, const Contestant& c) {
    for (size_t pass = 0; pass < c.passes(); ++pass) {
      const Measurement& m = c.last()[pass];
      const auto& predicted = c.predicted()[pass];
      fmt::print("{}\t{}\t{}\t{}\t{:.6f}\t{:.6f}\t{:.6f}\t{:.6f}\t{}\t{:.0f}\t{:.0f}\t{:.0f}\n", layer, round, c.name(),
                 pass_names[pass], m.seconds, m.graph, m.communication, m.computation,
                 predicted ? fmt::format("{:.6f}\t{:.6f}", predicted->graph, predicted->outside) : "-\t-", m.ep_bytes,
                 m.tp_bytes, m.peak_bytes);
    }
    std::fflush(stdout);
  }

  void search(const std::string& layer, moe::ReuseStrategy strategy, const std::string& strategy_name,
              const std::vector<std::unique_ptr<Contestant>>& contestants) {
    std::vector<Contestant*> by_parts;
    for (const auto& c : contestants) {
      const moe::MoeSchedule s = c->recipe().schedule.moe.settled();
      if (s.memory_reuse == strategy && !s.in_sequence() && (s.chunk_by == moe::ChunkBy::tokens || !s.overlaps()))
        by_parts.push_back(c.get());
    }
    const bool keeps = strategy == moe::ReuseStrategy::none;
    base::require(
        !keeps || !by_parts.empty(),
        "[moe_layer] --search has no schedule to choose; expected some such as --schedule n4:chunk_by=tokens,chunks=4");
    if (by_parts.empty()) return;
    std::string kind = strategy_name + ":";
    for (const std::string& setting : split(layer, ','))
      if (!setting.starts_with("B=")) kind += setting + ",";
    auto& found = searches_.try_emplace(kind, 1, static_cast<int64_t>(by_parts.size())).first->second;
    int measurements = 0;
    const int64_t best = found.best(by_parts.front()->recipe().model.context, [&](int64_t, int64_t number) {
      Contestant& c = *by_parts[number - 1];
      c.step();
      ++measurements;
      return c.step_seconds();
    });
    if (first()) fmt::print("search\t{}\t{}\t{}\n", layer, by_parts[best - 1]->name(), measurements);
  }

  void list(const std::string& layer, const std::vector<std::unique_ptr<Contestant>>& contestants) {
    std::ofstream out(options_.tasks, std::exchange(tasks_listed_, true) ? std::ios::app : std::ios::trunc);
    for (const auto& c : contestants)
      for (size_t pass = 0; pass < c->passes(); ++pass)
        c->list(pass, fmt::format("{}\t{}\t{}", layer, c->name(), pass_names[pass]), out);
    if (!out.flush())
      base::fail(base::ExitCode::data, "cannot write ", options_.tasks,
                 "; expected a writable file in an existing folder");
  }

  void draw(const std::string& layer, const Contestant& c) const {
    for (size_t pass = 0; pass < c.passes(); ++pass) {
      const std::string path = base::cat(options_.pictures, "/", c.name(), "-", pass_names[pass], ".svg");
      std::ofstream out(path);
      out << c.picture(pass, base::cat(c.name(), " ", pass_names[pass], ", rank 0, layer ", layer));
      if (!out.flush())
        base::fail(base::ExitCode::data, "cannot write ", path, "; expected a writable file in an existing folder");
    }
  }

  const Options& options_;
  const comm::ProcessGroup& world_;
  bool tasks_listed_ = false;
  std::vector<NamedSchedule> schedules_;
  std::map<std::string, std::unique_ptr<mesh::Mesh>> meshes_;
  std::map<std::string, plan::GranularitySearch> searches_;
};

int run(int argc, char** argv) {
  Options o;
  CLI::App app("Times an MoE layer under each of several schedules");
  app.add_option("--layer", o.layers, "M=..,H=..,S=..,B=..,E=..,k=..,tp=..,etp=..,ep=..; may be repeated")->required();
  app.add_option("--schedule", o.schedules, "NAME:key=value,... of schedule.moe; may be repeated")->required();
  app.add_option("--rounds", o.rounds, "number of repetitions")->check(CLI::PositiveNumber);
  app.add_flag("--forward", o.forward, "run forward only, as in evaluation");
  app.add_flag("--search", o.search, "also run MPMoE's Algorithm 1");
  app.add_flag("--block", o.block, "time the layer inside its block");
  app.add_option("--threads", o.threads, "number of threads of each rank")->check(CLI::PositiveNumber);
  app.add_option("--device", o.device, "cpu, emulated or cuda");
  app.add_option("--profile", o.profile, "cluster file of `hexad profile`, for predictions");
  app.add_option("--tasks", o.tasks, "output file with a line for each task of the last round on rank 0");
  app.add_option("--pictures", o.pictures, "existing folder for one SVG per schedule and pass, of the last --layer");
  CLI11_PARSE(app, argc, argv);
  kernels::cpu::set_thread_count(o.threads);
  return comm::with_world([&](comm::World& world) {
    Bench bench(o, world.group());
    for (const std::string& layer : o.layers) bench.run(layer);
    return 0;
  });
}

}  // namespace
}  // namespace hexad::bench

int main(int argc, char** argv) { return hexad::bench::run(argc, argv); }
