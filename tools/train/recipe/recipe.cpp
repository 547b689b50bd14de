#include "tools/train/recipe/recipe.h"

#include <algorithm>
#include <cmath>

#include "framework/base/enum_names.h"
#include "framework/base/units.h"
#include "framework/config/constraints.h"
#include "framework/config/nearest.h"
#include "framework/io/checkpoint_store.h"
#include "optim/lr_schedule.h"
#include "tools/train/recipe/device_choice.h"
#include "tools/train/recipe/layout_check.h"
#include "tools/train/recipe/recipe_rules.h"
#include "tools/train/recipe/renamed_keys.h"
#include "tools/train/recipe/schedule_check.h"
#include "tools/train/recipe/stage_documents.h"
#include "tools/train/recipe/step_range.h"

namespace hexad::train {

using base::cat;
using config::Problems;

Recipe::Recipe() = default;
Recipe::Recipe(const Recipe&) = default;
Recipe::Recipe(Recipe&&) noexcept = default;
Recipe& Recipe::operator=(const Recipe&) = default;
Recipe& Recipe::operator=(Recipe&&) noexcept = default;
Recipe::~Recipe() = default;

base::Dtype dtype_of(Precision precision) {
  switch (precision) {
    case Precision::bf16:
      return base::Dtype::bf16;
    case Precision::f64:
      return base::Dtype::f64;
    case Precision::f32:
      break;
  }
  return base::Dtype::f32;
}

std::optional<base::Dtype> TrainConfig::dtype_of_logits() const {
  if (logits_dtype == LogitsDtype::bf16) return base::Dtype::bf16;
  return {};
}

std::string MemoryConfig::limit_text() const {
  if (limit() > 0) return base::human_bytes(static_cast<double>(limit()));
  return limit_bytes ? "0: no limit" : "none: no limit";
}

namespace {

void check_moments(const Recipe& r, Problems& problems) {
  if (r.train.precision == Precision::f64 && r.optim.moment_dtype == optim::MomentDtype::bf16)
    problems.add("optim.moment_dtype", "must be f32 for train.precision: f64, because f32 then means moments in f64");
}

// Rejects the keys of train.init_* that have no effect without train.init_from or train.init_experts.
void check_init(const TrainConfig& t, Problems& problems) {
  constexpr std::string_view without = "is given, but train.init_from names no weights to start from";
  if (t.init_from.empty() && t.init_experts != InitExperts::none) problems.add("train.init_experts", without);
  if (t.init_from.empty() && t.init_vocabulary != InitVocabulary::none) problems.add("train.init_vocabulary", without);
  if (t.init_noise > 0 && t.init_experts == InitExperts::none)
    problems.add("train.init_noise", "must be 0 for train.init_experts: none, which copies no weights");
}

void check_main_weights(const Recipe& r, Problems& problems) {
  if (r.train.precision != Precision::bf16 && r.optim.main_weights == optim::MainWeights::rest)
    problems.add("optim.main_weights", cat("must be f32 for train.precision: ", base::enum_name(r.train.precision),
                                           ", because rest stores only the bits that bf16 weights lack"));
}

void check_logits(const TrainConfig& t, Problems& problems) {
  if (t.precision != Precision::bf16 && t.logits_dtype == LogitsDtype::bf16)
    problems.add("train.logits_dtype", cat("must be f32 for train.precision: ", base::enum_name(t.precision),
                                           ", because only runs in bf16 can have logits in bf16"));
}

void check_objective(const Recipe& r, Problems& problems) {
  const bool masked = r.data.mlm_probability > 0;
  if (r.model.kind == layers::ModelKind::encoder && !masked && !r.data.registered())
    problems.add("data.mlm_probability",
                 "must be above 0 for model.kind: encoder, which sees the next token; usual: 0.15");
  if (r.model.kind == layers::ModelKind::decoder && masked)
    problems.add("data.mlm_probability", "must be 0 for model.kind: decoder, which predicts the next token");
  if (r.data.registered() && r.model.vocab == 0)
    problems.add_missing("model.vocab",
                         cat("must be given with ", r.data.synthetic ? "data.synthetic" : "data.source"));
}

void check_profile(const Recipe& r, Problems& problems) {
  if (r.profile.steps.empty()) return;
  const auto steps = parse_steps(r.profile.steps);
  if (!steps)
    problems.add("profile.steps", "must be a step such as 5, or a range of steps such as 3..5");
  else if (steps->last > r.train.steps)
    problems.add("profile.steps", cat("goes beyond the last step (", r.train.steps, "); nearest: ",
                                      to_string(StepRange{std::min(steps->first, r.train.steps), r.train.steps})));
}

void check_trace(const Recipe& r, Problems& problems) {
  const int64_t step = r.schedule.trace;
  if (step > 0 && r.model.moe_layers() == 0)
    problems.add("schedule.trace", "records MoE layers, but the model has none; set 0 to record nothing");
  else if (step > r.train.steps)
    problems.add("schedule.trace",
                 cat("is after the last step (train.steps is ", r.train.steps, "); set 0 to record nothing"));
}

// Reads the recipe and checks all rules, so that all problems are reported at once. Most rules are checked only if all
// keys that they read have legal values. `device` or, if `device` is none, HEXAD_DEVICE replaces the recipe's device.
Recipe read_checked(const config::Document& document, const Extensions& extensions, int64_t world, Problems& problems,
                    std::optional<device::DeviceKind> device = {}) {
  Recipe r = config::read<Recipe>(document, problems);
  if (!device) device = device_of_environment(problems);
  if (device) replace_device(r, *device);
  check_device(r, problems);
  check_model(r.model, problems);
  check_names(r, extensions, problems);
  if (problems.good({"train"})) check_init(r.train, problems);
  if (problems.good({"train.precision", "train.logits_dtype"})) check_logits(r.train, problems);
  if (problems.good({"train.precision", "optim.moment_dtype"})) check_moments(r, problems);
  if (problems.good({"train.precision", "optim.main_weights"})) check_main_weights(r, problems);
  if (problems.good({"model", "data"})) {
    data::check(r.data, problems);
    check_objective(r, problems);
  }
  check_layout(r, world, problems);
  check_moe_schedule(r, extensions, problems);
  check_micro_batch_overlap(r, world, problems);
  check_moe_order(r, extensions, problems);
  if (problems.good({"train.steps", "profile.steps"})) check_profile(r, problems);
  if (problems.good({"model", "train.steps", "schedule.trace"})) check_trace(r, problems);
  std::vector<comm::TrafficClass> classes = r.distributed.priority;
  std::sort(classes.begin(), classes.end());
  if (std::adjacent_find(classes.begin(), classes.end()) != classes.end())
    problems.add("distributed.priority", "must name each class of traffic at most once");
  if (r.distributed.network_classes.size() > r.distributed.priority.size())
    problems.add("distributed.network_classes",
                 cat("has ", r.distributed.network_classes.size(), " numbers, but distributed.priority lists only ",
                     r.distributed.priority.size(), "; expected at most one number for each listed class"));
  try {
    io::Resume::parse(r.checkpoint.resume);
  } catch (const base::Error&) {
    problems.add("checkpoint.resume", "must be auto, none or a step");
  }
  check_freeze(r, extensions, problems);
  return r;
}

// Fills in optimizer settings that the recipe does not contain: the states of the registered optimizer, and the seed.
Recipe completed(Recipe r, const Extensions& extensions) {
  r.optim.states = extensions.optimizers.make(r.optim)->fewest_states();
  r.optim.seed = r.train.seed;
  return r;
}

void rename(config::Document& document, const std::function<void(const std::string&)>& warn) {
  for (const std::string& line : rename_keys(document))
    if (warn) warn(line);
}

// Rejects optim.warmup > train.steps, except in a short trial of a long recipe: the command line gives train.steps, but
// not optim.warmup.
void check_warmup(const Recipe& r, Problems& problems) {
  const bool trial = problems.on_command_line("train.steps") && !problems.on_command_line("optim.warmup");
  if (trial || !problems.good({"optim.warmup", "train.steps"}) || r.optim.warmup <= r.train.steps) return;
  problems.add("optim.warmup", cat("must be at most train.steps (", r.train.steps,
                                   "): the learning rate would only rise and never reach optim.lr"));
}

// Rejects a decay that begins before the warm-up ends, because the learning rate would drop suddenly when the decay
// takes over.
void check_decay(const Recipe& r, Problems& problems) {
  const optim::OptimConfig& o = r.optim;
  if (!problems.good({"optim", "train.steps"})) return;
  const int64_t steps = r.train.steps;
  if (o.schedule != optim::ScheduleKind::wsd || o.warmup > steps) return;
  const double decay = o.decay_fraction * static_cast<double>(steps);
  const auto room = static_cast<double>(steps - o.warmup);
  if (decay <= room * (1 + 1e-9)) return;
  constexpr double digits = 1e4;
  const double fraction = std::floor(room / static_cast<double>(steps) * digits) / digits;
  std::string text = cat("of train.steps (", steps, ") gives ", decay, " steps of decay, which begin before the ",
                         o.warmup, " steps of optim.warmup end");
  if (o.warmup < steps)
    text += cat(": the learning rate would fall from ", optim::learning_rate(o, o.warmup, steps), " to ",
                optim::learning_rate(o, o.warmup + 1, steps), " in one step");
  problems.add("optim.decay_fraction", cat(text, "; the largest legal value is ", fraction));
}

// Calls `read` for the recipe, or for each of its stages. Throws Error(usage) with the problems that `read` adds.
Recipe read_all(const config::Document& document,
                const std::function<Recipe(const config::Document&, Problems&)>& read) {
  if (const auto stages = stage_documents(document); !stages.empty()) return read_stages(stages, read);
  Problems problems;
  Recipe r = read(document, problems);
  problems.throw_if_any();
  return r;
}

}  // namespace

Recipe load_recipe(config::Document document, const Extensions& extensions, int64_t world,
                   const std::function<void(const std::string&)>& warn, std::optional<device::DeviceKind> device) {
  rename(document, warn);
  return completed(
      read_all(document, [&](const config::Document& d,
                             Problems& problems) { return read_checked(d, extensions, world, problems, device); }),
      extensions);
}

Recipe load_to_train(config::Document document, const Extensions& extensions, int64_t world,
                     const std::function<void(const std::string&)>& warn) {
  rename(document, warn);
  const auto read = [&](const config::Document& d, Problems& problems) {
    Recipe r = read_checked(d, extensions, world, problems);
    check_warmup(r, problems);
    check_decay(r, problems);
    return r;
  };
  const auto read_and_suggest = [&](const config::Document& d, Problems& problems) {
    Recipe r = read(d, problems);
    config::suggest_nearest(d, problems, [&](const config::Document& changed) {
      Problems left;
      read(changed, left);
      return left;
    });
    return r;
  };
  return completed(read_all(document, read_and_suggest), extensions);
}

}  // namespace hexad::train
