#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/base/atomic_file.h"
#include "framework/base/clock.h"
#include "framework/base/counted.h"
#include "framework/base/enum_names.h"
#include "framework/base/units.h"
#include "framework/config/document.h"
#include "framework/config/position_of.h"
#include "framework/config/recipe_error.h"
#include "tools/hexad/commands/cluster_options.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/plan_contexts.h"
#include "tools/hexad/commands/plan_json.h"
#include "tools/hexad/commands/plan_output.h"
#include "tools/hexad/commands/plan_overlay.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/commands/recipe_options.h"
#include "tools/hexad/commands/user_file.h"
#include "tools/hexad/usage.h"
#include "tools/plan/cluster_device.h"
#include "tools/plan/fewest_ranks.h"
#include "tools/plan/plan_picture.h"
#include "tools/plan/plan_refinement.h"
#include "tools/plan/plan_search.h"
#include "tools/plan/recipe_to_plan.h"
#include "tools/plan/state_bound.h"
#include "tools/train/process/machine.h"
#include "tools/train/process/say.h"
#include "tools/train/recipe/complete.h"
#include "tools/train/recipe/renamed_keys.h"
#include "tools/train/recipe/stage_documents.h"

namespace hexad::app {

using namespace plan;
using namespace train;

namespace {

struct PlanArguments {
  std::string recipe, cluster, include_root, out, svg, context, objective = "time", routing = "even";
  std::vector<std::string> overrides;
  int64_t ranks = 0, stage = 0;
  std::optional<uint64_t> layouts;
  bool explain = false, json = false;
};

constexpr std::string_view overlay_begins = "# Layout chosen by hexad plan";

class Planner {
 public:
  Planner(const PlanArguments& options, const Extensions& extensions)
      : options_(options),
        extensions_(extensions),
        contexts_(lengths(options.context)),
        cluster_(load_cluster(options.cluster, divided(options.overrides).cluster)),
        loaded_(load_to_plan(
            on_device_of(
                cluster_, options.cluster,
                document_of_stage(
                    with_current_names(config::load(options.recipe, recipe_overrides(), options.include_root), say),
                    options.stage),
                say),
            extensions)),
        document_(loaded_.document),
        recipe_(loaded_.recipe),
        load_(load_of(options.routing, recipe_.model)),
        prices_(cluster_),
        ranks_(options.ranks > 0 ? options.ranks : prices_.nodes() * prices_.ranks_per_node()) {
    complete(recipe_, 1);
    const int64_t all = prices_.nodes() * prices_.ranks_per_node();
    if (ranks_ > max_planned_ranks)
      base::fail(base::ExitCode::usage, options.ranks > 0 ? "--ranks" : options.cluster, ": ", ranks_,
                 " ranks are more than `hexad plan` supports; set --ranks to at most ", max_planned_ranks);
    if (ranks_ > all)
      base::fail(base::ExitCode::usage, "--ranks (", ranks_, ") is more than ", options.cluster,
                 " has: ", base::counted(prices_.nodes(), "node"), " of ",
                 base::counted(prices_.ranks_per_node(), "rank"), ", ", all, " in all; set --ranks to at most ", all);
  }

  base::ExitCode run() {
    if (options_.stage > 0 && !options_.out.empty())
      base::fail(
          base::ExitCode::usage,
          "--stage and --out are given; expected at most one of them, because --out cannot write the keys of a stage, "
          "which are in the recipe's list `stages`");
    require_two_files("--out", options_.out, "--svg", options_.svg);
    if (!options_.out.empty()) require_replaceable(options_.out, std::string(overlay_begins), "layout");
    if (!options_.svg.empty()) require_replaceable(options_.svg, "<svg ", "drawing");
    const double begin = base::now();
    const bool is_path = contexts_.size() > 1;
    refuse_state(is_path ? prices_.nodes() * prices_.ranks_per_node() : ranks_);
    if (is_path) return run_path(begin);
    PlanRequest request{.world = ranks_, .objective = objective(), .load = load_, .details = true};
    if (options_.layouts) request.wanted = *options_.layouts;
    std::vector<FewestRanks::Refused> fewer;
    Plan plan = search(request, fewer);
    if (plan.best.empty()) add_smallest_or_refuse(plan, request, fewer);
    if (const std::string problem = problem_of_own_layout(); !problem.empty())
      say(fmt::format("the recipe's own layout is not compared, because it is illegal on {}: {}",
                      base::counted(ranks_, "rank"), problem));
    const double seconds = base::now() - begin;
    const Planned planned{.recipe_path = options_.recipe,
                          .cluster_path = options_.cluster,
                          .recipe = recipe_,
                          .extensions = extensions_,
                          .cluster = cluster_,
                          .prices = prices_,
                          .routing = options_.routing,
                          .load = load_,
                          .ranks = ranks_,
                          .objective = request.objective};
    if (options_.json) {
      nlohmann::ordered_json json = plan_json(planned, plan, seconds, fewer);
      if (options_.explain) json["explain"] = explanation_json(planned, plan, explanation(plan, request));
      fmt::print("{}\n", json.dump(2));
    } else {
      const PlanOutput output(planned);
      output.print_table(plan, seconds);
      if (request.objective == Objective::ranks) output.print_fewer(plan, fewer);
      if (options_.explain) output.print_explanation(plan, explanation(plan, request));
    }
    if (!options_.out.empty()) write_overlay(plan.best.front());
    if (!options_.svg.empty()) write_picture(plan);
    return base::ExitCode::done;
  }

 private:
  // Returns the sequence lengths in `context`. Returns none if `context` is empty; the recipe's length is then planned.
  static std::vector<int64_t> lengths(const std::string& context) try {
    return context.empty() ? std::vector<int64_t>{} : context_lengths(context);
  } catch (const base::Error& e) {
    base::fail(e.code(), "--context: ", e.what());
  }
  std::vector<std::string> recipe_overrides() const {
    std::vector<std::string> out = divided(options_.overrides).recipe;
    if (!contexts_.empty()) out.push_back(fmt::format("model.context={}", contexts_.front()));
    return out;
  }
  Objective objective() const { return *base::enum_named<Objective>(options_.objective); }

  // Plans the recipe with the sequence length, number of ranks and memory of `question`. Does not vary parallel.order,
  // because expansion_of() requires a layout without an explicit order.
  Plan plan_at(const PlanQuestion& question) {
    const int64_t all = prices_.nodes() * prices_.ranks_per_node();
    if (!cluster_.machine && question.ranks > all) return {};  // a measured cluster has no prices for more ranks
    const PlanRequest request{.world = question.ranks,
                              .objective = question.objective,
                              .load = load_,
                              .wanted = question.wanted,
                              .orders = false};
    constexpr int64_t any_bytes = int64_t{1} << 60;
    Cluster cluster = cluster_;
    if (cluster.machine) {
      const int64_t nodes = (question.ranks - 1) / prices_.ranks_per_node() + 1;
      cluster.machine->nodes = std::max(cluster.machine->nodes, nodes);
      if (question.any_memory) cluster.machine->memory = any_bytes;
    }
    config::Document document = document_;
    Recipe recipe = recipe_;
    if (question.context != recipe_.model.context) {
      config::override_key(document, fmt::format("model.context={}", question.context));
      RecipeToPlan other = load_to_plan(std::move(document), extensions_);
      document = std::move(other.document), recipe = std::move(other.recipe);
      complete(recipe, 1);
    }
    if (question.any_memory && recipe.memory.limit() > 0) recipe.memory.limit_bytes = config::ByteSize(any_bytes);
    return search_plan(document, recipe, extensions_, cluster, request, costs_);
  }

  PlanAt planner() {
    return [this](const PlanQuestion& question) { return plan_at(question); };
  }

  // Plans every given sequence length, and prints the plans as a path of growing lengths.
  base::ExitCode run_path(double begin) {
    for (const auto& [given, option] :
         {std::pair(options_.explain, std::string("--explain")),
          std::pair(!options_.out.empty(), base::cat("--out ", options_.out)),
          std::pair(!options_.svg.empty(), base::cat("--svg ", options_.svg)),
          std::pair(options_.layouts.has_value(), base::cat("--layouts ", options_.layouts.value_or(0))),
          std::pair(objective() == Objective::ranks, std::string("--objective ranks"))})
      if (given)
        base::fail(base::ExitCode::usage, option, " and --context ", options_.context,
                   " are given; expected a single length, such as --context ", context_text(contexts_.front()));
    if (!loaded_.ignored.empty()) say("the recipe's own layout is illegal and ignored: " + loaded_.ignored);
    const int64_t all = prices_.nodes() * prices_.ranks_per_node();
    const std::vector<PathPoint> path = expansion_path(planner(), {.lengths = contexts_,
                                                                   .ranks = ranks_,
                                                                   .max_ranks = std::min(all, max_planned_ranks),
                                                                   .objective = objective()});
    if (const PathPoint& first = path.front(); !first.layout) {
      if (first.shortfall->least) refuse_size(*first.shortfall);
      refuse_rules(plan_at({.context = first.context, .ranks = first.ranks}), first.ranks);
    }
    std::set<std::string> uneven_groups;
    for (const PathPoint& point : path)
      if (point.layout) uneven_groups.merge(uneven_groups_of({*point.layout}));
    if (options_.json) {
      nlohmann::ordered_json json{{"recipe", options_.recipe},       {"cluster", options_.cluster},
                                  {"contexts", options_.context},    {"routing", options_.routing},
                                  {"objective", options_.objective}, {"search_seconds", base::now() - begin}};
      json.update(path_json(planner(), path, prices_.ranks_per_node()));
      json["assumed"] = assumptions(cluster_, uneven_groups);
      json["not_modelled"] = unmodelled_costs();
      fmt::print("{}\n", json.dump(2));
      return base::ExitCode::done;
    }
    fmt::print("{} on {}, context {}, routing {}; {}\n\n", options_.recipe, options_.cluster, options_.context,
               options_.routing, base::human_duration(base::now() - begin));
    print_path(planner(), path, prices_.ranks_per_node());
    print_limits(cluster_, uneven_groups);
    return base::ExitCode::done;
  }

  // Returns the plan. Under Objective::ranks, first sets request.world and ranks_ to the smallest sufficient number of
  // ranks. Writes the insufficient numbers to `fewer`.
  Plan search(PlanRequest& request, std::vector<FewestRanks::Refused>& fewer) {
    if (request.objective != Objective::ranks)
      return search_plan(document_, recipe_, extensions_, cluster_, request, costs_);
    FewestRanks fewest = fewest_ranks(document_, recipe_, extensions_, cluster_, request);
    request.world = ranks_ = fewest.ranks;
    fewer = std::move(fewest.refused);
    return std::move(fewest.plan);
  }

  // Adds the layout of least memory to a plan without layouts if shortfall() shows that this layout fits. Otherwise,
  // refuses the recipe.
  void add_smallest_or_refuse(Plan& plan, const PlanRequest& request, std::vector<FewestRanks::Refused>& fewer) {
    if (plan.legal == 0) refuse_rules(plan, ranks_);
    Shortfall missing = shortfall(planner(), recipe_.model.context, ranks_, plan.memory);
    if (!missing.fits()) refuse_size(missing);
    plan.best.push_back(std::move(missing.least->layout));
    add_details(plan, extensions_, cluster_, request);
    std::erase_if(fewer, [&](const FewestRanks::Refused& f) { return f.ranks >= ranks_; });
  }
  [[noreturn]] void refuse_rules(const Plan& plan, int64_t ranks) const {
    std::string reasons;
    for (const auto& [key, count] : plan.candidates.refused) {
      const std::string position = config::position_of(document_, key);
      reasons += fmt::format("\n  {:<28} {:<6} {}", key, count, position.empty() ? "not set" : position);
    }
    base::fail(base::ExitCode::usage, options_.recipe, ": no layout of ", base::counted(ranks, "rank"),
               " is legal; combinations (of ", plan.candidates.tried, ") refused by the rules of:", reasons, "\n",
               nearest_ranks_text(ranks));
  }
  PlanSpace space_of(int64_t ranks) const {
    return {.world = ranks, .ranks_per_domain = prices_.domain(), .ranks_per_node = prices_.ranks_per_node()};
  }
  // Returns a text like "nearest numbers of ranks with a legal layout: 16, 32 (c.yaml has 24 ranks)".
  std::string nearest_ranks_text(int64_t ranks) const {
    const auto [below, above] =
        nearest_legal_ranks(document_, recipe_, extensions_, space_of(ranks), max_planned_ranks);
    if (!below && !above) return "no number of ranks that was tried has a legal layout";
    std::string text = "nearest numbers of ranks with a legal layout:";
    if (below) text += fmt::format(" {}", *below);
    if (above) text += fmt::format("{} {}", below ? "," : "", *above);
    const int64_t all = prices_.nodes() * prices_.ranks_per_node();
    if (above && *above > all) text += fmt::format(" ({} has {})", options_.cluster, base::counted(all, "rank"));
    return text;
  }
  // Refuses a recipe whose weights, gradients and optimizer state do not fit the ranks in any layout. Simulates no
  // step.
  void refuse_state(int64_t ranks) const {
    const std::optional<StateShortfall> shortfall = state_shortfall(recipe_, extensions_, cluster_, ranks);
    if (!shortfall) return;
    const auto above =
        nearest_legal_ranks(document_, recipe_, extensions_, space_of(shortfall->fewest_ranks - 1), max_planned_ranks)
            .above;
    const std::string nearest = above ? fmt::format("{} ({})", base::counted(*above, "rank"),
                                                    base::counted((*above - 1) / prices_.ranks_per_node() + 1, "node"))
                                      : fmt::format("more than {}", base::counted(shortfall->fewest_ranks - 1, "rank"));
    base::fail(base::ExitCode::usage, position_of_memory(false), options_.recipe, " does not fit ",
               base::counted(ranks, "rank"), " of ", options_.cluster, " in any layout and with any context: ",
               shortfall->has_optimizer   ? "weights, gradients and the optimizer's state"
               : shortfall->has_gradients ? "weights and gradients"
                                          : "weights",
               ", divided evenly among the ranks, take ", base::human_bytes(shortfall->bytes), " a rank, ",
               base::human_bytes(shortfall->bytes - shortfall->memory), " more than the ",
               base::human_bytes(shortfall->memory),
               " that its tensors may take\nnearest number of ranks whose memory holds them: ", nearest,
               hint_of_offload());
  }
  [[noreturn]] void refuse_size(const Shortfall& shortfall) {
    // True if memory.limit_bytes of the recipe, not the cluster's memory, is the limit.
    const bool is_limit = shortfall.memory < tensor_memory(cluster_);
    base::fail(base::ExitCode::usage, position_of_memory(is_limit), options_.recipe, " with a context of ",
               context_text(shortfall.least->context), " does not fit ", base::counted(shortfall.least->ranks, "rank"),
               " of ", options_.cluster, is_limit ? " within memory.limit_bytes: " : ": ",
               shortfall_text(planner(), shortfall, prices_.ranks_per_node()), hint_of_offload());
  }
  // Returns a position for the beginning of a refusal: memory.limit_bytes in the recipe if `is_limit`, otherwise
  // machine.memory in the cluster file.
  std::string position_of_memory(bool is_limit) const {
    const std::string position =
        is_limit ? config::position_of(document_, "memory.limit_bytes")
                 : position_in_cluster(options_.cluster, divided(options_.overrides).cluster, "machine.memory");
    return position.empty() ? position : position + ": ";
  }
  // Returns a line about offloading for the end of a refusal; empty if the cluster states the memory of its hosts.
  std::string hint_of_offload() const {
    if (offload_memory(cluster_) > 0) return {};
    return base::cat("\nno layout offloads more than the recipe, because ", options_.cluster,
                     " has no machine.host_memory; if hosts have memory to spare, add its bytes for each rank");
  }

  // Returns the reason why the recipe's own layout is illegal on ranks_ ranks, in one line; empty if it is legal.
  std::string problem_of_own_layout() const {
    if (!loaded_.ignored.empty()) return loaded_.ignored;
    try {
      load_recipe(document_, extensions_, ranks_);
    } catch (const config::RecipeError& e) {
      return first_problem(e);
    }
    return {};
  }

  // Returns the recipe's own layout with its predicted step, or the reason why there is no such layout.
  OwnLayout own_layout(const PlanRequest& request) const {
    if (!loaded_.ignored.empty())
      return {.layout = {}, .problem = fmt::format("the unchanged recipe has no legal layout:\n{}", loaded_.ignored)};
    try {
      return {.layout = layout_as_is(document_, extensions_, cluster_, request), .problem = {}};
    } catch (const config::RecipeError& e) {
      return {.layout = {},
              .problem = fmt::format("the unchanged recipe has no legal layout of {}:\n{}",
                                     base::counted(ranks_, "rank"), e.what())};
    } catch (const base::Error& e) {
      return {.layout = {},
              .problem = fmt::format("the step of the unchanged recipe cannot be predicted:\n{}", e.what())};
    }
  }

  Explanation explanation(const Plan& plan, const PlanRequest& request) const {
    Explanation e{.own = own_layout(request)};
    if (plan.best.size() > 1) e.to_second = walk(plan, plan.best[1], request);
    if (e.own.layout) e.to_own = walk(plan, *e.own.layout, request);
    return e;
  }
  // Returns a walk of simulated layouts from the best layout to `to`. Its layouts fit, or need at most as much memory
  // as `to`.
  std::vector<WalkStep> walk(const Plan& plan, const PlannedLayout& to, const PlanRequest& request) const {
    const PlannedLayout& from = plan.best.front();
    LayoutRules rules(document_, extensions_, ranks_, prices_.ranks_per_node());
    const StepPrices prices(cluster_, static_cast<int>(ranks_));
    const PlanSite site{
        .rules = rules,
        .extensions = extensions_,
        .prices = prices,
        .request = request,
        .memory = std::max(plan.memory, to.counted_memory()),
        .host_memory = std::max({offload_memory(cluster_), from.memory.offloaded, to.memory.offloaded})};
    const auto priced = [](const PlannedLayout& l) {
      return PricedLayout{.candidate = l.candidate, .price = {.seconds = l.step.seconds, .memory = l.memory.total}};
    };
    const auto price = [&](const Recipe& r) -> std::optional<LayoutPrice> {
      PlannedLayout l{.candidate = {r}, .composed = {}};
      l.memory = estimate_memory_within(site.memory, r, extensions_, ranks_, request.load);
      if (l.counted_memory() > site.memory || l.memory.offloaded > site.host_memory || !is_simulated(l, site))
        return {};
      return priced(l).price;
    };
    return walk_layouts(
        priced(from), priced(to),
        {.world = ranks_, .is_legal = [&](const Recipe& r) { return !rules.broken(r); }, .price = price});
  }

  // Writes a recipe that includes the planned recipe and has the settings of the layout.
  void write_overlay(const PlannedLayout& l) const {
    const std::string include = std::filesystem::absolute(options_.recipe).lexically_normal().string();
    base::write_file(
        options_.out,
        fmt::format("{} for {} of {}: {} a step.\n{}", overlay_begins, base::counted(ranks_, "rank"), options_.cluster,
                    base::precise_duration(l.step.seconds), overlay_text(include, document_, l.candidate.settings())));
    // The overlay includes the planned recipe by its absolute path, so only the recipe's own includes may need a root.
    const std::string root =
        options_.include_root.empty() ? "" : " --include-root " + shell_word(options_.include_root);
    say(fmt::format("wrote {}; train with: mpirun -np {} hexad train {}{}", options_.out, ranks_,
                    shell_word(options_.out), root));
  }

  // Writes a picture of the best layout to the file of --svg.
  void write_picture(const Plan& plan) const {
    const PlannedLayout& best = plan.best.front();
    const mesh::Layout layout(best.candidate.recipe.parallel.sizes(), static_cast<int>(ranks_));
    base::write_file(options_.svg, plan_picture({.title = fmt::format("{} on {} of {}: {} a step", options_.recipe,
                                                                      base::counted(ranks_, "rank"), options_.cluster,
                                                                      base::precise_duration(best.step.seconds)),
                                                 .layout = layout,
                                                 .ranks_per_node = prices_.ranks_per_node(),
                                                 .domain = prices_.domain(),
                                                 .traffic = plan.traffic}));
    say(fmt::format("wrote {}", options_.svg));
  }

  const PlanArguments& options_;
  const Extensions& extensions_;
  const std::vector<int64_t> contexts_;  // sequence lengths to plan; empty: the recipe's length
  const Cluster cluster_;
  const RecipeToPlan loaded_;
  const config::Document& document_;  // document of loaded_
  Recipe recipe_;
  const RoutingLoad load_;
  const Prices prices_;
  SharedCosts costs_;
  int64_t ranks_;
};

}  // namespace

void add_plan(const Program& program) {
  const Command command = program.root.add_command("plan", "Find the best layout of a recipe on a cluster");
  auto options = std::make_shared<PlanArguments>();
  command.add_option("recipe", &options->recipe, "YAML recipe, whose layout is replaced").required().path();
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
          "number of ranks; 0: all ranks of the cluster. A path of lengths (--context) begins with this number and "
          "doubles it when no layout fits. --objective ranks tries at most this number")
      .legal(whole_number(0, 1 << 24));
  command.add_option(
      "--context", &options->context,
      "tokens in a sequence, such as 4096 or 4K, instead of model.context; or a path of lengths such as 4K..1M, each "
      "twice the previous length");
  command
      .add_option(
          "--objective", &options->objective,
          "quantity to minimize: time (of a step), memory (of a rank) or ranks (the number whose memory suffices)")
      .legal(one_of({"time", "memory", "ranks"}));
  command
      .add_option("--layouts", &options->layouts,
                  "number of layouts to list; default: 10. Twice as many layouts are simulated, and at least 8 with "
                  "--objective memory. To list all layouts that fit, give the number of legal layouts")
      .legal(whole_number(1, 1 << 20));
  add_routing(command, options->routing);
  command.add_flag(
      "--explain", options->explain,
      "print the changes from the best layout to the second best, and to the unchanged recipe, one by one");
  command.add_flag("--json", options->json, "print one JSON object");
  command.add_option("--out", &options->out, "file for the best layout: a recipe for hexad train").path();
  command
      .add_option(
          "--svg", &options->svg,
          "SVG file for a picture of the best layout: nodes, ranks, and the bytes that groups exchange in a step")
      .path();
  add_include_root(command, options->include_root);
  add_stage(command, options->stage);
  command.run(on_one_rank(command, [options, program] {
    return on_cluster(options->cluster, divided(options->overrides).cluster,
                      [&] { return Planner(*options, program.extensions).run(); });
  }));
}

}  // namespace hexad::app
