// Measures one MoE layer, forward and backward, on the ranks of the job, under several schedules in turn.
// tools/bench/all_to_all.sh and tools/bench/papers/{monta,mpmoe,mpmoe_exchange,mpmoe_memory,parm,parm_placements,eps,
// eps_range,shadow}.sh make their tables from the output.
//
//   mpirun -np 2 moe_layer --layer M=768,H=3072,B=1024,E=2,ep=2 --schedule sequential
//                       --schedule n4:chunk_by=tokens,chunks=4
//
// --layer: M hidden size, H width of an expert (GELU), S sequences of each data-parallel rank (default 1), B tokens of
// a sequence, E experts, k experts per token, tp, etp, ep; or any key of a recipe that contains a dot. routing=random:
// each token has k different experts, drawn with equal probabilities from the recipe's train.seed and the token's index
// over all data-parallel ranks. Without routing=random and without a key for model.moe.routing, tokens choose experts
// in turn, so that a token's experts are neighbours.
// --schedule: a name and keys of schedule.moe. In every round, each schedule runs once. Before the rounds, each
// schedule runs once without being counted.
// --forward: evaluates without backward.
// --exchange: also measures two parts of forward, as additional passes: dispatch (the task graph until the first expert
// computes) and combine (from the end of the last expert). Requires that only the experts compute in the graph.
// --block: runs the layer in its block, with norms, attention (without rotary positions) and, under
// model.moe.dense_residual, the dense MLP. Predictions still cover only the layer. With shared: beside, they include
// the dense MLP, which is then a task of the layer.
// --profile: cluster file for predictions. Links that the file lacks are those of a default machine; the program names
// them on standard error. If the file states bursts of links, all links are idle before each pass until they can send
// their bursts again. --rounds 0 (needs --profile): instead of measurements, prints lines with "predicted", layer,
// schedule, pass, and the two predicted numbers below.
// --memory: also prints a line for each step: "memory", layer, round, schedule, and the peak bytes of its last pass by
// category, each on the rank where it is highest: parameter, gradient, activation, temporary, communication.
// --token-ranks: before the rows of a layer, also prints a line: "ranks", layer, train.seed, mean number of ep ranks
// that have experts of a token, and the expectation of this number for random experts. Not available with
// model.moe.routing: model.
// --threads: threads per rank. --device: cpu, emulated or cuda. With cuda, ranks exchange data through host memory.
//
// Prints one line per measurement, with fields separated by tabs:
//   layer, round, schedule, forward or backward
//   seconds of the slowest rank for the pass, including the router
//   seconds of the slowest rank for the task graph of the pass; under duplicates: pause_before_gate, backward has two
//   graphs, whose seconds are added
//   seconds with communication, and seconds with computation, each on the rank that has the most
//   predicted seconds of the graph: simulated, before the first round, from the graphs of all ranks and the rates of
//   --profile; "-" without --profile
//   predicted seconds in which tensor-parallel ranks gather outside the graph; "-" without --profile
//   bytes that a rank sends in ep groups and in etp and tp groups, mean over the ranks
//   peak bytes of activations, temporaries and communication in the pass, of the rank that needs the most
// In the line of a part of forward, both the seconds of the pass and the seconds of the graph are the seconds of the
// part. The line counts the bytes of the part's tasks, and has 0 for gathering outside the graph and for the peak.
//
// --tasks FILE: writes a line to FILE for each task of the last round on rank 0: layer, schedule, pass, task, lane,
// start and end as measured and, with --profile, as predicted. --pictures FOLDER: writes an SVG of each schedule and
// pass of the last layer to the existing folder. --search: runs MPMoE's Algorithm 1 on the schedules without chunks and
// on the schedules with chunk_by=tokens, in the order of the command line. Runs one search for the schedules without
// memory_reuse, and one for each restore strategy that a schedule has. Prints for each search: "search", layer, chosen
// schedule, number of measurements. Layers that differ only in B share the state of a search.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "framework/base/ordinal.h"
#include "framework/device/memory.h"
#include "framework/kernels/cpu/parallel.h"
#include "layers/moe/router/routing_override.h"
#include "parallel/comm/world.h"
#include "tools/bench/layer_contestant.h"
#include "tools/bench/resting_links.h"
#include "tools/bench/token_ranks.h"
#include "tools/plan/cluster.h"
#include "tools/plan/granularity_search.h"

namespace hexad::bench {
namespace {

struct Options {
  std::vector<std::string> layers, schedules;
  int rounds = 5;
  int threads = 1;
  bool search = false, forward = false, exchange = false, block = false, memory = false, token_ranks = false;
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
    if (setting == "routing=random") {
      overrides.insert(overrides.end(), {"model.moe.routing=zipf", "model.moe.zipf_exponent=0"});
      continue;
    }
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

class Bench {
 public:
  Bench(const Options& o, const comm::ProcessGroup& world)
      : options_(o),
        world_(world),
        of_contestants_{
            .forward = o.forward, .exchange = o.exchange, .block = o.block, .rest = longest_burst(o.profile)} {
    for (const std::string& s : o.schedules) schedules_.emplace_back(s);
  }

  void run(const std::string& layer) {
    if (options_.token_ranks) print_token_ranks(layer);
    std::vector<std::unique_ptr<LayerContestant>> contestants;
    for (const NamedSchedule& s : schedules_) {
      const train::Recipe recipe = recipe_of(layer, s, options_, world_.size());
      contestants.push_back(std::make_unique<LayerContestant>(s.name, recipe, mesh_of(recipe), of_contestants_));
      LayerContestant& c = *contestants.back();
      std::optional<plan::Predictor> predictor;
      if (first() && !options_.profile.empty()) name_assumed_rates(predictor.emplace(recipe, mesh_of(recipe)));
      c.step();
      c.predict(predictor ? &*predictor : nullptr);
      name_assumed_links(c);
      if (first() && options_.rounds == 0) print_predictions(layer, c);
    }
    for (int round = 1; round <= options_.rounds; ++round)
      for (const auto& c : contestants) {
        c->step();
        if (first()) print(layer, round, *c);
        if (options_.memory) print_memory(layer, round, *c);
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

  // Prints the links that the cluster file lacks, each once, on standard error.
  void name_assumed_links(const LayerContestant& c) {
    std::vector<std::string> links;
    for (const std::string& link : c.assumed_links())
      if (named_links_.insert(link).second) links.push_back(link);
    if (!links.empty()) fmt::print(stderr, "moe_layer: {}\n", plan::text_of_assumed(options_.profile, links));
  }

  // Prints what the predictions assume about rates that the profile lacks, on standard error. Prints each text once.
  void name_assumed_rates(const plan::Predictor& predictor) {
    for (const std::string& text : predictor.assumed_rates)
      if (named_rates_.insert(text).second) fmt::print(stderr, "moe_layer: {}\n", text);
  }

  static void print(const std::string& layer, int round, const LayerContestant& c) {
    for (const PassResult& result : c.results()) {
      const Measurement& m = result.measured;
      fmt::print("{}\t{}\t{}\t{}\t{:.6f}\t{:.6f}\t{:.6f}\t{:.6f}\t{}\t{:.0f}\t{:.0f}\t{:.0f}\n", layer, round, c.name(),
                 result.name, m.seconds, m.graph, m.communication, m.computation, text_of(result.predicted), m.ep_bytes,
                 m.tp_bytes, m.peak_bytes);
    }
    std::fflush(stdout);
  }

  void print_token_ranks(const std::string& layer) {
    const train::Recipe recipe = recipe_of(layer, schedules_.front(), options_, world_.size());
    const moe::MoeConfig& moe = recipe.model.moe;
    const auto override_of_layer = moe::make_routing_override(moe, 0);
    if (!override_of_layer)
      base::fail(base::ExitCode::usage,
                 "--token-ranks: model.moe.routing is model, which depends on scores; expected a --layer without this "
                 "setting, or with routing=random");
    if (!first()) return;
    device::DeviceContext cpu({.kind = device::DeviceKind::cpu});
    const mesh::Layout layout(recipe.parallel.sizes(), world_.size());
    layers::MicroBatch all;
    all.sequences = recipe.batch.micro * layout.size(mesh::Axis::dp), all.length = recipe.model.context;
    const std::vector<int32_t> ids =
        override_of_layer->choose({.batch = all, .seed = recipe.train.seed}, 0, all.tokens(), cpu).to_vector<int32_t>();
    const int64_t ranks = layout.size(mesh::Axis::ep);
    fmt::print("ranks\t{}\t{}\t{:.4f}\t{:.4f}\n", layer, recipe.train.seed,
               mean_token_ranks(ids, moe.top_k, moe.experts / ranks),
               expected_token_ranks(moe.experts, moe.top_k, ranks));
    std::fflush(stdout);
  }

  // Collective.
  void print_memory(const std::string& layer, int round, LayerContestant& c) const {
    using enum device::Category;
    const auto peaks = c.peaks();
    if (!first()) return;
    fmt::print("memory\t{}\t{}\t{}", layer, round, c.name());
    for (const device::Category category : {parameter, gradient, activation, temporary, communication})
      fmt::print("\t{}", peaks[base::ordinal(category)]);
    fmt::print("\n");
    std::fflush(stdout);
  }

  static void print_predictions(const std::string& layer, const LayerContestant& c) {
    for (const PassResult& result : c.results())
      fmt::print("predicted\t{}\t{}\t{}\t{}\n", layer, c.name(), result.name, text_of(result.predicted));
    std::fflush(stdout);
  }

  static std::string text_of(const std::optional<Prediction>& predicted) {
    return predicted ? fmt::format("{:.6f}\t{:.6f}", predicted->graph, predicted->outside) : std::string("-\t-");
  }

  void search(const std::string& layer, moe::ReuseStrategy strategy, const std::string& strategy_name,
              const std::vector<std::unique_ptr<LayerContestant>>& contestants) {
    std::vector<LayerContestant*> by_parts;
    for (const auto& c : contestants) {
      const moe::MoeSchedule s = c->recipe().schedule.moe.settled();
      if (s.memory_reuse == strategy && !s.in_sequence() && (s.chunk_by == moe::ChunkBy::tokens || !s.overlaps()))
        by_parts.push_back(c.get());
    }
    const bool keeps = strategy == moe::ReuseStrategy::none;
    base::require(!keeps || !by_parts.empty(),
                  "[moe_layer] --search has no schedule to choose from; expected a schedule without chunks or with "
                  "chunk_by=tokens, such as --schedule n4:chunk_by=tokens,chunks=4");
    if (by_parts.empty()) return;
    std::string kind = strategy_name + ":";
    for (const std::string& setting : split(layer, ','))
      if (!setting.starts_with("B=")) kind += setting + ",";
    auto& found = searches_.try_emplace(kind, 1, static_cast<int64_t>(by_parts.size())).first->second;
    int measurements = 0;
    const int64_t best = found.best(by_parts.front()->recipe().model.context, [&](int64_t, int64_t number) {
      LayerContestant& c = *by_parts[number - 1];
      c.step();
      ++measurements;
      return c.step_seconds();
    });
    if (first()) fmt::print("search\t{}\t{}\t{}\n", layer, by_parts[best - 1]->name(), measurements);
  }

  void list(const std::string& layer, const std::vector<std::unique_ptr<LayerContestant>>& contestants) {
    std::ofstream out(options_.tasks, std::exchange(tasks_listed_, true) ? std::ios::app : std::ios::trunc);
    for (const auto& c : contestants)
      for (size_t pass = 0; pass < c->passes(); ++pass)
        c->list(pass, fmt::format("{}\t{}\t{}", layer, c->name(), pass_names[pass]), out);
    if (!out.flush())
      base::fail(base::ExitCode::data, "cannot write ", options_.tasks,
                 "; expected a writable file in an existing folder");
  }

  void draw(const std::string& layer, const LayerContestant& c) const {
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
  const LayerContestant::Options of_contestants_;
  bool tasks_listed_ = false;
  std::set<std::string> named_links_;  // links that name_assumed_links() has named
  std::set<std::string> named_rates_;  // texts that name_assumed_rates() has printed
  std::vector<NamedSchedule> schedules_;
  std::map<std::string, std::unique_ptr<mesh::Mesh>> meshes_;
  std::map<std::string, plan::GranularitySearch> searches_;
};

int run(int argc, char** argv) {
  Options o;
  CLI::App app("Times an MoE layer under each of several schedules");
  app.add_option(
         "--layer", o.layers,
         "layer to time, such as M=768,H=3072,E=8,k=2,B=1024,ep=2: M hidden size, H width of an expert, E experts, "
         "k experts per token, S sequences per data-parallel rank, B tokens per sequence, tp, etp and ep; may be "
         "repeated")
      ->required();
  app.add_option("--schedule", o.schedules,
                 "schedule to time, as NAME:KEY=VALUE,... with keys of schedule.moe; may be repeated")
      ->required();
  app.add_option("--profile", o.profile, "cluster file of `hexad profile`, for predictions");
  app.add_option("--rounds", o.rounds, "number of repetitions; 0: print predictions only, which needs --profile")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--forward", o.forward, "run forward only, as in evaluation");
  app.add_flag("--exchange", o.exchange, "also time the parts of forward before and after the experts");
  app.add_flag("--search", o.search, "also choose a schedule by measurements, with MPMoE's Algorithm 1");
  app.add_flag("--block", o.block, "time the layer inside its block");
  app.add_flag("--memory", o.memory, "also print the peak bytes of each category of memory");
  app.add_flag("--token-ranks", o.token_ranks, "also print the mean number of ranks that have experts of a token");
  app.add_option("--threads", o.threads, "number of threads of each rank")->check(CLI::PositiveNumber);
  app.add_option("--device", o.device, "device of the ranks: cpu, emulated or cuda");
  app.add_option("--tasks", o.tasks, "output file with a line for each task of the last round on rank 0");
  app.add_option("--pictures", o.pictures, "existing folder for one SVG per schedule and pass, of the last --layer");
  CLI11_PARSE(app, argc, argv);
  kernels::cpu::set_thread_count(o.threads);
  return comm::with_world([&](comm::World& world) {
    if (o.rounds == 0 && o.profile.empty())
      base::fail(base::ExitCode::usage,
                 "--rounds is 0 without --profile; expected at least 1, or a profile for predictions");
    Bench bench(o, world.group());
    for (const std::string& layer : o.layers) bench.run(layer);
    return 0;
  });
}

}  // namespace
}  // namespace hexad::bench

int main(int argc, char** argv) { return hexad::bench::run(argc, argv); }
