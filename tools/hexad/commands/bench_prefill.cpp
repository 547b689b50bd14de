#include "tools/hexad/commands/command.h"

#include <algorithm>
#include <iterator>
#include <memory>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "framework/base/median.h"
#include "framework/kernels/cpu/parallel.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/commands/recipe_options.h"
#include "tools/hexad/usage.h"
#include "tools/plan/memory_check.h"
#include "tools/train/model/prefill.h"
#include "tools/train/recipe/training_stages.h"

namespace hexad::app {

using namespace base;
using namespace train;

namespace {

struct PrefillArguments {
  std::string recipe, include_root;
  std::vector<std::string> overrides, prompts, schedules;
  int64_t chunk = 0;
  int rounds = 3;
  bool json = false;
};

struct NamedSchedule {
  std::string name;
  moe::MoeSchedule schedule;
};

struct Measured {
  std::string schedule;
  PromptBatch batch;
  std::vector<double> seconds{};  // time to first token in each round
};

// True if `text` has the form PROMPTSxTOKENS with two numbers of at least 1, such as "16x256".
bool is_prompts(const std::string& text) {
  const size_t x = text.find('x');
  const Legal count = whole_number(1, 1 << 30);
  return x != text.npos && count.accepts(text.substr(0, x)) && count.accepts(text.substr(x + 1));
}

std::vector<PromptBatch> batches_of(const PrefillArguments& o, int64_t context) {
  std::vector<PromptBatch> batches;
  if (o.prompts.empty()) batches.push_back({.prompts = 1, .length = context, .chunk = o.chunk});
  for (const std::string& text : o.prompts) {
    const size_t x = text.find('x');
    const PromptBatch batch{
        .prompts = std::stoll(text.substr(0, x)), .length = std::stoll(text.substr(x + 1)), .chunk = o.chunk};
    if (batch.length > context)
      fail(ExitCode::usage, "--prompts (", text, ") has prompts of ", batch.length, " tokens, expected at most ",
           context, " (model.context)");
    batches.push_back(batch);
  }
  return batches;
}

// Returns the overrides that "NAME:key=value,key=value" adds to the recipe.
std::vector<std::string> settings_of(const std::string& text) {
  std::vector<std::string> settings;
  for (size_t at = text.find(':'); at < text.size();) {
    const size_t end = std::min(text.find(',', at + 1), text.size());
    settings.push_back(cat("schedule.moe.", text.substr(at + 1, end - at - 1)));
    at = end;
  }
  return settings;
}

// True if the prompts fit in memory. The estimate takes the pass with the most tokens as the micro-batch. It adds the
// keys and values of the batch with the most tokens.
bool prompts_fit(Recipe recipe, const std::vector<PromptBatch>& batches, const Extensions& extensions,
                 const comm::World& world) {
  const auto pass_tokens = [](const PromptBatch& b) { return b.prompts * b.pass_length(); };
  const PromptBatch largest = *std::ranges::max_element(batches, {}, pass_tokens);
  int64_t cached = 0;
  for (const PromptBatch& b : batches) cached = std::max(cached, b.prompts * b.length);
  const ParallelConfig& p = recipe.parallel;
  recipe.model.context = (largest.pass_length() + p.tp - 1) / p.tp * p.tp;
  recipe.batch.micro = largest.prompts;
  recipe.batch.global = largest.prompts * std::max<int64_t>(1, world.size() / (p.pp * p.cp * p.tp));
  return plan::fits_in_memory(recipe, extensions, world, plan::ModelUse::evaluation, cached);
}

// Measures all schedules in turn, `rounds` times. The first run of each schedule is not counted, because it allocates
// memory.
std::vector<Measured> measure(ModelInstance& instance, const std::vector<NamedSchedule>& schedules,
                              const PromptBatch& batch, uint64_t seed, int rounds) {
  Prefill prefill(instance, batch, seed);
  std::vector<Measured> all;
  for (const NamedSchedule& s : schedules) all.push_back({.schedule = s.name, .batch = batch});
  for (int round = 0; round <= rounds; ++round)
    for (size_t s = 0; s < schedules.size(); ++s) {
      instance.reschedule(schedules[s].schedule);
      const double seconds = prefill.run().seconds;
      if (round > 0) all[s].seconds.push_back(seconds);
    }
  return all;
}

// Returns the total tokens per second of the data-parallel ranks.
double rate_of(const Measured& m, int64_t dp) {
  return static_cast<double>(dp * m.batch.prompts * m.batch.length) / median(m.seconds);
}

void print_json(const Recipe& recipe, const std::vector<NamedSchedule>& schedules, const std::vector<Measured>& all,
                int ranks, int64_t dp) {
  nlohmann::ordered_json names = nlohmann::ordered_json::object(), results = nlohmann::ordered_json::array();
  for (const NamedSchedule& s : schedules) names[s.name] = moe::to_string(s.schedule);
  for (const Measured& m : all)
    results.push_back({{"schedule", m.schedule},
                       {"prompts", m.batch.prompts},
                       {"length", m.batch.length},
                       {"pass_length", m.batch.pass_length()},
                       {"tokens_per_second", rate_of(m, dp)},
                       {"ttft_seconds", m.seconds}});
  const nlohmann::ordered_json json{{"ranks", ranks},
                                    {"layout", describe(recipe.parallel, ranks)},
                                    {"data_parallel", dp},
                                    {"schedules", names},
                                    {"results", results}};
  fmt::print("{}\n", json.dump(2));
}

void print_table(const Recipe& recipe, const std::vector<NamedSchedule>& schedules, const std::vector<Measured>& all,
                 int ranks, int64_t dp) {
  fmt::print("{}\n", describe(recipe.parallel, ranks));
  size_t width = std::string_view("schedule").size();
  for (const NamedSchedule& s : schedules) {
    fmt::print("{}: {}\n", s.name, moe::to_string(s.schedule));
    width = std::max(width, s.name.size());
  }
  fmt::print("{:<{}} {:>8} {:>8} {:>7} {:>10} {:>10} {:>10}\n", "schedule", width, "prompts", "length", "passes",
             "TTFT ms", "least ms", "tokens/s");
  for (const Measured& m : all)
    fmt::print("{:<{}} {:>8} {:>8} {:>7} {:>10.2f} {:>10.2f} {:>10.0f}\n", m.schedule, width, m.batch.prompts,
               m.batch.length, m.batch.passes(), 1e3 * median(m.seconds), 1e3 * *std::ranges::min_element(m.seconds),
               rate_of(m, dp));
}

ExitCode bench_prefill(const PrefillArguments& o, const Extensions& extensions, comm::World& world) {
  const Recipe recipe = load_for_ranks(world, o.recipe, o.overrides, extensions, o.include_root, "bench prefill");
  require_no_stages(recipe, o.recipe);
  if (recipe.model.kind == layers::ModelKind::encoder)
    fail(ExitCode::usage, "bench prefill: model.kind is encoder, expected decoder");
  require_whole_sequences(recipe.parallel.cp, "measure prefill");
  if (!o.schedules.empty() && recipe.model.moe.experts == 0)
    fail(ExitCode::usage,
         "--schedule: the model has no MoE layer (model.moe.experts is 0), expected at least one MoE layer");
  std::vector<NamedSchedule> schedules;
  for (const std::string& text : o.schedules) {
    const std::string name = text.substr(0, text.find(':'));
    if (name.empty() || std::ranges::find(schedules, name, &NamedSchedule::name) != schedules.end())
      fail(ExitCode::usage, "--schedule (", text, ") has the name '", name,
           "', expected NAME:key=value,... with a name that no other schedule has");
    std::vector<std::string> overrides = o.overrides;
    std::ranges::copy(settings_of(text), std::back_inserter(overrides));
    const Recipe scheduled = load_for_ranks(world, o.recipe, overrides, extensions, o.include_root, "bench prefill");
    schedules.push_back({name, scheduled.schedule.moe.settled()});
  }
  if (schedules.empty()) schedules.push_back({"recipe", recipe.schedule.moe.settled()});
  const std::vector<PromptBatch> batches = batches_of(o, recipe.model.context);
  if (!prompts_fit(recipe, batches, extensions, world)) return ExitCode::resource;

  kernels::cpu::set_thread_count(static_cast<int>(*recipe.train.threads));
  ModelInstance instance(recipe, extensions, world.group());
  std::vector<Measured> all;
  for (const PromptBatch& batch : batches)
    std::ranges::move(measure(instance, schedules, batch, recipe.train.seed, o.rounds), std::back_inserter(all));
  if (world.rank() != 0) return ExitCode::done;
  (o.json ? print_json : print_table)(recipe, schedules, all, world.size(), instance.mesh.size(Axis::dp));
  return ExitCode::done;
}

}  // namespace

void add_bench_prefill(const Command& bench, const Program& program) {
  const Command command = bench.add_command(
      "prefill", "Measure the time to the first token of answers, and tokens per second; alone or under mpirun");
  auto options = std::make_shared<PrefillArguments>();
  command.add_option("recipe", &options->recipe, "YAML recipe of a decoder, whose weights are random")
      .required()
      .path();
  command.add_option("overrides", &options->overrides, "key.path=value, applied to the recipe");
  add_include_root(command, options->include_root);
  command
      .add_option(
          "--prompts", &options->prompts,
          "number of prompts on each data-parallel rank, and tokens of a prompt, such as 8x256; may be given several "
          "times; default: one prompt of model.context tokens")
      .one_at_a_time()
      .legal({"PROMPTSxTOKENS, such as 8x256", is_prompts});
  command
      .add_option("--chunk", &options->chunk,
                  "largest number of tokens of a prompt in one forward pass (chunked prefill); 0: all")
      .legal(whole_number(0, 1 << 30));
  command
      .add_option("--schedule", &options->schedules,
                  "schedule to measure: NAME:key=value,... with keys of schedule.moe; may be given several times; "
                  "schedules run in turn; default: the recipe's schedule")
      .one_at_a_time();
  command.add_option("--rounds", &options->rounds, "measurements of each schedule").legal(whole_number(1, 1000));
  command.add_flag("--json", options->json, "print the results as one JSON object");
  command.run([program, options] {
    return on_all_ranks([&](comm::World& world) { return bench_prefill(*options, program.extensions, world); });
  });
}

}  // namespace hexad::app
