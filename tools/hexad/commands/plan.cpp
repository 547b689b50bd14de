#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/base/atomic_file.h"
#include "framework/base/clock.h"
#include "framework/base/counted.h"
#include "framework/base/enum_names.h"
#include "framework/base/units.h"
#include "framework/config/document.h"
#include "tools/hexad/commands/cluster_options.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/plan_contexts.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/commands/recipe_options.h"
#include "tools/hexad/commands/user_file.h"
#include "tools/hexad/usage.h"
#include "tools/plan/plan_search.h"
#include "tools/train/process/machine.h"
#include "tools/train/process/say.h"
#include "tools/train/recipe/complete.h"
#include "tools/train/recipe/renamed_keys.h"
#include "tools/train/recipe/stage_documents.h"

namespace hexad::app {

using namespace plan;
using namespace train;

namespace {

struct Options {
  std::string recipe, cluster, include_root, out, context, objective = "time", routing = "even";
  std::vector<std::string> overrides;
  int64_t ranks = 0, stage = 0;
  bool explain = false, json = false;
};

constexpr std::string_view overlay_begins = "# Layout chosen by hexad plan";

// Figures of a layout that are derived from its prediction.
struct Figures {
  Throughput rates;
  double exposed[comm::traffic_class_count];  // share of the step, mean over stages
  double kernels, idle;
};

class Planner {
 public:
  Planner(const Options& options, const Extensions& extensions)
      : options_(options),
        extensions_(extensions),
        contexts_(lengths(options.context)),
        cluster_(load_cluster(options.cluster, divided(options.overrides).cluster)),
        document_(
            renamed(document_of_stage(config::load(options.recipe, of_recipe(), options.include_root), options.stage))),
        recipe_(load_recipe(document_, extensions, 0)),
        prices_(cluster_),
        ranks_(options.ranks > 0 ? options.ranks : prices_.nodes() * prices_.ranks_per_node()) {
    complete(recipe_, 1);
    const int64_t all = prices_.nodes() * prices_.ranks_per_node();
    if (ranks_ > most_planned_ranks)
      base::fail(base::ExitCode::usage, options.ranks > 0 ? "--ranks" : options.cluster, ": ", ranks_,
                 " ranks; plans are made for at most ", most_planned_ranks, "; set --ranks");
    if (ranks_ > all)
      base::fail(base::ExitCode::usage, "--ranks (", ranks_, ") is more than ", options.cluster,
                 " has: ", prices_.nodes(), " nodes of ", prices_.ranks_per_node(), " ranks, ", all, " in all");
  }

  base::ExitCode run() {
    if (options_.explain && options_.json)
      base::fail(base::ExitCode::usage,
                 "--explain and --json are given; expected one of them: the object has the parts of "
                 "each layout's step");
    if (options_.stage > 0 && !options_.out.empty())
      base::fail(base::ExitCode::usage,
                 "--stage and --out are given; expected one of them: the keys of a stage are written in the list "
                 "stages of the recipe");
    if (!options_.out.empty()) require_replaceable(options_.out, std::string(overlay_begins), "layout");
    const double begin = base::now();
    if (contexts_.size() > 1) return run_path(begin);
    const Plan plan = plan_at({.context = recipe_.model.context, .ranks = ranks_, .objective = objective()});
    if (plan.best.empty()) refuse(plan);
    options_.json ? print_json(plan) : print_text(plan, base::now() - begin);
    if (options_.explain) explain(plan);
    if (!options_.out.empty()) write_overlay(plan.best.front());
    return base::ExitCode::done;
  }

 private:
  // Old names of keys are replaced here, because rules name the new ones.
  static config::Document renamed(config::Document document) {
    for (const std::string& line : rename_keys(document)) say(line);
    return document;
  }
  // Returns the lengths that are given; none: the recipe's.
  static std::vector<int64_t> lengths(const std::string& context) try {
    return context.empty() ? std::vector<int64_t>{} : context_lengths(context);
  } catch (const base::Error& e) {
    base::fail(e.code(), "--context: ", e.what());
  }
  std::vector<std::string> of_recipe() const {
    std::vector<std::string> out = divided(options_.overrides).recipe;
    if (!contexts_.empty()) out.push_back(fmt::format("model.context={}", contexts_.front()));
    return out;
  }
  Objective objective() const { return *base::enum_named<Objective>(options_.objective); }

  // Plans the recipe with another length, number of ranks or memory.
  Plan plan_at(const PlanQuestion& question) const {
    const PlanRequest request{.world = question.ranks,
                              .objective = question.objective,
                              .load = load_of(options_.routing),
                              .wanted = question.wanted};
    Cluster cluster = cluster_;
    if (cluster.machine) {
      const int64_t nodes = (question.ranks - 1) / prices_.ranks_per_node() + 1;
      cluster.machine->nodes = std::max(cluster.machine->nodes, nodes);
      if (question.any_memory) cluster.machine->memory = int64_t{1} << 60;
    }
    if (question.context == recipe_.model.context)
      return search_plan(document_, recipe_, extensions_, cluster, request);
    config::Document document = document_;
    config::override_key(document, fmt::format("model.context={}", question.context));
    Recipe recipe = load_recipe(document, extensions_, 0);
    complete(recipe, 1);
    return search_plan(document, recipe, extensions_, cluster, request);
  }

  PlanAt planner() const {
    return [this](const PlanQuestion& question) { return plan_at(question); };
  }

  // Plans each of the lengths.
  base::ExitCode run_path(double begin) const {
    if (options_.explain || !options_.out.empty())
      base::fail(base::ExitCode::usage, options_.explain ? "--explain" : "--out", " and --context ", options_.context,
                 " are given; expected one length with it, such as --context ", context_text(contexts_.front()));
    const int64_t all = prices_.nodes() * prices_.ranks_per_node();
    const std::vector<PathPoint> path = expansion_path(planner(), {.lengths = contexts_,
                                                                   .ranks = ranks_,
                                                                   .most_ranks = std::min(all, most_planned_ranks),
                                                                   .objective = objective()});
    if (const PathPoint& first = path.front(); !first.layout) {
      if (first.lack->least) refuse_size(*first.lack);
      refuse_rules(plan_at({.context = first.context, .ranks = first.ranks}), first.ranks);
    }
    if (options_.json) {
      const nlohmann::ordered_json json{{"recipe", options_.recipe},
                                        {"cluster", options_.cluster},
                                        {"path", path_json(path)},
                                        {"assumed", assumptions(cluster_)}};
      fmt::print("{}\n", json.dump(2));
      return base::ExitCode::done;
    }
    fmt::print("{} on {}, context {}; {}\n\n", options_.recipe, options_.cluster, options_.context,
               base::human_duration(base::now() - begin));
    print_path(planner(), path, prices_.ranks_per_node());
    print_limits();
    return base::ExitCode::done;
  }

  [[noreturn]] void refuse(const Plan& plan) const {
    if (plan.legal == 0) refuse_rules(plan, ranks_);
    refuse_size(shortfall(planner(), recipe_.model.context, ranks_, plan.memory));
  }
  [[noreturn]] void refuse_rules(const Plan& plan, int64_t ranks) const {
    std::string reasons;
    for (const auto& [key, count] : plan.candidates.refused) reasons += fmt::format("\n  {:<28} {}", key, count);
    base::fail(base::ExitCode::usage, options_.recipe, ": no layout of ", ranks, " ranks is legal; of ",
               plan.candidates.tried, " combinations, refused by the rules of:", reasons);
  }
  [[noreturn]] void refuse_size(const Shortfall& lack) const {
    base::fail(base::ExitCode::usage, options_.recipe, " with a context of ", context_text(lack.least->context),
               " does not fit ", lack.least->ranks, " ranks of ", options_.cluster, ": ",
               lack_text(planner(), lack, prices_.ranks_per_node()));
  }

  Figures figures(const PlannedLayout& l) const {
    Figures f{};
    f.rates = throughput(l.step.seconds, recipe_, extensions_, prices_, ranks_);
    const double all = l.step.seconds * static_cast<double>(l.step.stages.size());
    for (const StepForecast::Stage& stage : l.step.stages) {
      f.kernels += stage.busy / all, f.idle += stage.idle / all;
      for (int c = 0; c < comm::traffic_class_count; ++c) f.exposed[c] += stage.exposed[c] / all;
    }
    return f;
  }

  // Returns the classes of exposed communication above 0.5% of the step: "ep 12%, pp 3%".
  static std::string exposed_text(const Figures& f) {
    std::string text;
    for (int c = 0; c < comm::traffic_class_count; ++c)
      if (f.exposed[c] >= 0.005)
        text += fmt::format("{}{} {:.0f}%", text.empty() ? "" : ", ", name_of(static_cast<comm::TrafficClass>(c)),
                            100 * f.exposed[c]);
    return text.empty() ? "-" : text;
  }

  void print_text(const Plan& plan, double seconds) const {
    fmt::print("{} on {} of {}, context {}\n", options_.recipe, base::counted(ranks_, "rank"), options_.cluster,
               recipe_.model.context);
    fmt::print("{} combinations, {} legal, {} too large for a rank; {} simulated; {}\n\n", plan.candidates.tried,
               plan.legal, plan.too_large, base::counted(std::ssize(plan.best), "layout"),
               base::human_duration(seconds));
    fmt::print("{:>2} {:>10} {:>10} {:>6} {:>10} {:>6}  {:<22} {}\n", "", "step", "tokens/s", "MFU", "memory", "idle",
               "exposed", "layout");
    for (size_t i = 0; i < plan.best.size(); ++i) {
      const PlannedLayout& l = plan.best[i];
      const Figures f = figures(l);
      fmt::print("{:>2} {:>10} {:>10} {:>6} {:>10} {:>5.0f}%  {:<22} {}\n", i + 1, base::human_duration(l.step.seconds),
                 base::human_count(f.rates.tokens_per_second), base::human_percent(f.rates.mfu()),
                 base::human_bytes(l.memory.total), 100 * f.idle, exposed_text(f), l.candidate.to_string(ranks_));
    }
    fmt::print("\nrefused by the rules of:");
    for (const auto& [key, count] : plan.candidates.refused) fmt::print(" {} {}", key, count);
    fmt::print("\n");
    print_limits();
  }

  // Prints what the prices assume, and what a step leaves out.
  void print_limits() const {
    const std::vector<std::string> assumed = assumptions(cluster_);
    for (size_t i = 0; i < assumed.size(); ++i) fmt::print("{}{}\n", i == 0 ? "assumed: " : "         ", assumed[i]);
    fmt::print(
        "not modelled: stragglers, launches that the host delays, clocks that vary, traffic of other jobs, evaluation "
        "and "
        "checkpoints\n");
  }

  void explain(const Plan& plan) const {
    if (plan.best.size() < 2) return;
    const PlannedLayout &best = plan.best[0], &next = plan.best[1];
    const Figures a = figures(best), b = figures(next);
    fmt::print("\nfrom 1 to 2, of the step's seconds:\n");
    const auto line = [&](std::string_view what, double share_a, double share_b) {
      const double x = share_a * best.step.seconds, y = share_b * next.step.seconds;
      if (std::abs(y - x) > 0.001 * best.step.seconds)
        fmt::print("  {:<18} {:>10} -> {:>10}  {:+.1f}%\n", what, base::human_duration(x), base::human_duration(y),
                   100 * (y - x) / best.step.seconds);
    };
    line("kernels", a.kernels, b.kernels);
    for (int c = 0; c < comm::traffic_class_count; ++c)
      line(fmt::format("{} exposed", name_of(static_cast<comm::TrafficClass>(c))), a.exposed[c], b.exposed[c]);
    line("idle", a.idle, b.idle);
    const auto one = best.candidate.settings(), two = next.candidate.settings();
    for (size_t i = 0; i < one.size(); ++i)
      if (one[i].second != two[i].second) fmt::print("  {}: {} -> {}\n", one[i].first, one[i].second, two[i].second);
  }

  void print_json(const Plan& plan) const {
    using Json = nlohmann::ordered_json;
    Json layouts = Json::array();
    for (const PlannedLayout& l : plan.best) {
      const Figures f = figures(l);
      Json settings = Json::object(), exposed = Json::object();
      for (const auto& [key, value] : l.candidate.settings()) settings[key] = value;
      for (int c = 0; c < comm::traffic_class_count; ++c)
        exposed[std::string(name_of(static_cast<comm::TrafficClass>(c)))] = f.exposed[c];
      layouts.push_back({{"settings", settings},
                         {"step_seconds", l.step.seconds},
                         {"tokens_per_second", f.rates.tokens_per_second},
                         {"mfu", f.rates.peak_flops_per_second > 0 ? Json(f.rates.mfu()) : Json(nullptr)},
                         {"memory_bytes", l.memory.total},
                         {"kernel_share", f.kernels},
                         {"idle_share", f.idle},
                         {"exposed_share", exposed}});
    }
    const Json json{{"recipe", options_.recipe},
                    {"cluster", options_.cluster},
                    {"ranks", ranks_},
                    {"combinations", plan.candidates.tried},
                    {"legal", plan.legal},
                    {"too_large", plan.too_large},
                    {"refused", plan.candidates.refused},
                    {"layouts", layouts},
                    {"assumed", assumptions(cluster_)}};
    fmt::print("{}\n", json.dump(2));
  }

  // Writes the settings as a recipe that includes the planned one.
  void write_overlay(const PlannedLayout& l) const {
    std::string text = fmt::format(
        "{} for {} of {}: {} a step.\ninclude: {}\n", overlay_begins, base::counted(ranks_, "rank"), options_.cluster,
        base::human_duration(l.step.seconds), std::filesystem::absolute(options_.recipe).lexically_normal().string());
    // Keys of one section follow each other. Given keys that the plan replaces are left out.
    std::map<std::string, std::string> settings;
    for (const std::string& given : of_recipe())
      settings[given.substr(0, given.find('='))] = given.substr(given.find('=') + 1);
    for (const auto& [key, value] : l.candidate.settings()) settings[key] = value;
    std::vector<std::string> open;  // sections around the last key
    for (const auto& [key, value] : settings) {
      std::vector<std::string> parts;
      for (size_t at = 0; at != key.npos;) {
        const size_t dot = key.find('.', at);
        parts.push_back(key.substr(at, dot == key.npos ? dot : dot - at));
        at = dot == key.npos ? dot : dot + 1;
      }
      const std::string name = parts.back();
      parts.pop_back();
      const auto shared = std::ranges::mismatch(open, parts).in2 - parts.begin();
      for (auto i = static_cast<size_t>(shared); i < parts.size(); ++i)
        text += std::string(2 * i, ' ') + parts[i] + ":\n";
      text += std::string(2 * parts.size(), ' ') + name + ": " + value + "\n";
      open = std::move(parts);
    }
    base::write_file(options_.out, text);
    say(fmt::format("wrote {}; train with: mpirun -np {} hexad train {} --include-root {}", options_.out, ranks_,
                    shell_word(options_.out),
                    shell_word(std::filesystem::absolute(options_.recipe).parent_path().string())));
  }

  const Options& options_;
  const Extensions& extensions_;
  const std::vector<int64_t> contexts_;  // given lengths; none: the recipe's
  const Cluster cluster_;
  const config::Document document_;
  Recipe recipe_;
  const Prices prices_;
  const int64_t ranks_;
};

}  // namespace

void add_plan(const Program& program) {
  const Command command = program.root.add_command("plan", "Find the layout of a recipe on a cluster");
  auto options = std::make_shared<Options>();
  command.add_option("recipe", &options->recipe, "YAML recipe, whose layout is replaced").required();
  command.add_option("overrides", &options->overrides,
                     "key.path=value, applied to the recipe; cluster.key.path=value, applied to the cluster");
  command
      .add_option("--cluster", &options->cluster,
                  "YAML of a cluster, measured (hexad profile) or described (recipes/clusters)")
      .required()
      .path();
  command
      .add_option(
          "--ranks", &options->ranks,
          "number of ranks; 0: all of the cluster. A path begins with them, and doubles them where nothing fits")
      .legal(whole_number(0, 1 << 24));
  command.add_option(
      "--context", &options->context,
      "tokens of a sequence, such as 4096 or 4K, instead of the recipe's; or 4K..1M: a path through these "
      "lengths, each twice the one before");
  command.add_option("--objective", &options->objective, "what is least: time of a step, or memory of a rank")
      .legal(one_of({"time", "memory"}));
  add_routing(command, options->routing);
  command.add_flag("--explain", options->explain, "compare the best layout with the next one");
  command.add_flag("--json", options->json, "print one JSON object");
  command.add_option("--out", &options->out, "file for the best layout: a recipe that hexad train takes").path();
  add_include_root(command, options->include_root);
  add_stage(command, options->stage);
  command.run(on_one_rank(command, [options, program] { return Planner(*options, program.extensions).run(); }));
}

}  // namespace hexad::app
