// Measures whole training steps of a recipe on the ranks of the job, under several schedules of its MoE layers in turn.
// tools/bench/papers/{whole_step,mesh_step,monta_step,parm_step,mpmoe_choice}.sh make their tables from the output.
//
//   mpirun -np 8 train_schedules RECIPE [key.path=value...] --schedule plain --schedule n4:chunk_by=tokens,chunks=4
//
// --schedule: a name and keys of schedule.moe, or keys of the whole recipe if they contain a dot. In every round, each
// schedule trains one step. Before the rounds, each schedule trains one step that is not counted. Open choices of a
// schedule (auto) are made as in `hexad train`: predicted, then tried in at most --trials steps before the rounds.
// Schedules whose recipes differ only in schedule.moe (but not in schedule.moe.order) and in distributed.priority train
// the same weights. Before each counted step, all links are idle for --rest seconds, so that every step begins with the
// full bursts of shaped links. The default is the longest burst that the file of --profile states; 0 without a file.
//
// For each schedule with open choices, first prints "chosen", the schedule, and the choices. Then prints one line per
// step, with fields separated by tabs:
//   round, schedule
//   seconds of the step on the slowest rank
//   seconds of all passes through the experts, on the rank that has the most
//   seconds of one layer's forward, mean over layers and micro-batches, on the slowest rank
//   seconds of one layer's forward and backward, with the router and the exchanges outside of the passes, mean over
//   layers and micro-batches, on the slowest rank
//   the previous value as predicted by the simulator with the rates of --profile; "-" without a profile. Links that the
//   profile lacks are those of a default machine; the program names them on standard error
//   means over the ranks:
//     seconds of one layer's forward in which an all-to-all or an all-gather runs, or waits for its peers
//     three values, summed over all passes: seconds with an all-to-all, seconds with an all-to-all or an all-gather,
//     and seconds with communication but no computation
//   tokens per second
//   peak bytes of activations, temporaries and communication, of the rank that needs the most
//   for each class of traffic (control, tp, ep, pp, cp, dp), means over the ranks:
//     bytes sent
//     seconds in which any operation is in flight
//     seconds in which a thread of the rank waits for this class while the rank's own thread is blocked
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "framework/base/clock.h"
#include "framework/kernels/cpu/parallel.h"
#include "optim/lr_schedule.h"
#include "parallel/comm/world.h"
#include "tools/bench/resting_links.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/plan/schedule_choice.h"
#include "tools/train/model/train_step.h"
#include "tools/train/recipe/data_on_ranks.h"
#include "tools/train/recipe/recipe.h"
#include "tools/train/recipe/traffic_options.h"
#include "tools/train/recipe/training_stages.h"

namespace hexad::bench {

using device::Category;

namespace {

using base::now;
using plan::PassRecorder;
using schedule::TaskKind;
using tensor::Tensor;

struct Options {
  std::string recipe;
  std::vector<std::string> overrides, schedules;
  int rounds = 3, trials = 8;
  std::string profile;
  std::optional<double> rest;  // seconds for which links are idle before a counted step
};

struct NamedSchedule {
  std::string name;
  std::vector<std::string> overrides;

  explicit NamedSchedule(std::string_view text) : name(text.substr(0, text.find(':'))) {
    for (size_t at = name.size(); at < text.size();) {
      const size_t end = std::min(text.find(',', at + 1), text.size());
      const std::string_view setting = text.substr(at + 1, end - at - 1);
      const bool whole = setting.substr(0, setting.find('=')).find('.') != std::string_view::npos;
      overrides.push_back(base::cat(whole ? "" : "schedule.moe.", setting));
      at = end;
    }
  }
};

train::Recipe recipe_of(const Options& o, const NamedSchedule& schedule, int world) {
  std::vector<std::string> overrides = o.overrides;
  // Trials take at most half of the run's steps, so the run has twice as many steps as trials.
  for (const std::string& fixed : {base::cat("train.steps=", std::max(1, 2 * o.trials)),
                                   std::string("schedule.moe.trial_share=0.5"), std::string("train.threads=1")})
    overrides.push_back(fixed);
  overrides.insert(overrides.end(), schedule.overrides.begin(), schedule.overrides.end());
  if (!o.profile.empty()) overrides.push_back("schedule.profile=" + o.profile);
  return train::load_recipe(config::load(o.recipe, overrides), layers::Registry(), world);
}

/// A model in training, which all schedules with the same shared_part() share.
class Training {
 public:
  Training(train::Recipe recipe, const comm::ProcessGroup& world)
      : recipe_(std::move(recipe)),
        instance_(recipe_, layers::Registry(), world),
        data_(train::open_data_on_ranks(recipe_, layers::Registry(), world, {})),
        optimizer_(recipe_.optim, instance_.parameters, recipe_.offload.optimizer, {}, &instance_.mesh),
        step_(recipe_, instance_, optimizer_) {}

  train::ModelInstance& instance() { return instance_; }

  /// Trains a step. Returns its number of tokens.
  int64_t step() {
    const int64_t first_sequence = steps_ * recipe_.batch.global;
    ++steps_;
    const train::StepResult result = step_.run(*data_.train, first_sequence, steps_, steps_,
                                               optim::learning_rate(recipe_.optim, steps_, recipe_.train.steps));
    // A measured step must contain all of its communication, because the next step may use another schedule.
    instance_.weights.complete(instance_.context.compute());
    base::require(!result.skipped, "[train_schedules] step ", steps_, " was skipped, because its loss (", result.loss,
                  ") or gradient is not finite; expected finite values");
    return result.tokens;
  }

 private:
  const train::Recipe recipe_;
  train::ModelInstance instance_;
  const data::TrainingData data_;
  optim::Optimizer optimizer_;
  train::TrainStep step_;
  int64_t steps_ = 0;
};

/// Returns the text of the settings that all schedules of one Training must share.
std::string shared_part(train::Recipe recipe) {
  moe::MoeScheduleConfig usual;
  usual.order = recipe.schedule.moe.order;
  recipe.schedule.moe = usual;
  recipe.distributed.priority = {};
  return config::write(recipe);
}

/// Times of this rank's passes in one step, in seconds.
struct PassTimes {
  double forward = 0, forward_exchange = 0;  // seconds of one layer: means over layers and micro-batches
  double all = 0, all_to_all = 0, exchange = 0, exposed = 0;  // sums over all passes
};

/// Returns the seconds in which at least one task of the given kinds runs.
double seconds_of(const schedule::Timeline& t, const std::vector<TaskKind>& kinds) {
  std::vector<std::pair<double, double>> spans;
  for (const schedule::Timeline::Span& s : t.spans)
    if (std::find(kinds.begin(), kinds.end(), s.task.kind) != kinds.end()) spans.emplace_back(s.begin, s.end);
  std::sort(spans.begin(), spans.end());
  double seconds = 0, until = 0;
  for (const auto& [begin, end] : spans) {
    seconds += std::max(0.0, end - std::max(begin, until));
    until = std::max(until, end);
  }
  return seconds;
}

PassTimes times_of(const std::vector<PassRecorder::Recording>& passes) {
  PassTimes sum;
  double forwards = 0;
  for (const PassRecorder::Recording& pass : passes) {
    const schedule::Timeline t = schedule::measured(pass.graph, pass.times);
    const double exchange = seconds_of(t, {TaskKind::all_to_all, TaskKind::all_gather});
    sum.all += t.total(), sum.exposed += t.exposed(), sum.exchange += exchange;
    sum.all_to_all += seconds_of(t, {TaskKind::all_to_all});
    if (pass.name.kind != schedule::PassKind::forward) continue;
    ++forwards, sum.forward += t.total(), sum.forward_exchange += exchange;
  }
  if (forwards > 0) sum.forward /= forwards, sum.forward_exchange /= forwards;
  return sum;
}

/// Results of one step over all ranks. The comment at the top of this file defines the values.
/// - maxima over the ranks: seconds of the step, of all passes, of one layer's forward, and of one layer's forward and
///   backward; bytes without weights, gradients and optimizer states
/// - means over the ranks: seconds of exchanges in one layer's forward; seconds in all passes with an all-to-all, with
///   an all-to-all or an all-gather, and with communication but no computation
struct Measurement {
  double step = 0, passes = 0, forward = 0, layer = 0, peak_bytes = 0;
  double forward_exchange = 0, all_to_all = 0, exchange = 0, exposed = 0;
  int64_t tokens = 0;  // tokens of the step, of all ranks
  std::array<comm::TrafficStats, comm::traffic_class_count> traffic{};
};

std::vector<double> all_reduced(const std::vector<double>& mine, comm::Reduce op, const comm::ProcessGroup& world,
                                device::DeviceContext& context) {
  const Tensor all =
      Tensor::from<double>(mine, {static_cast<int64_t>(mine.size())}, context, device::Category::communication);
  world.all_reduce(all, op, context.compute()).wait();
  return all.to_vector<double>();
}

/// One of the compared schedules.
class Contestant {
 public:
  /// Makes the contestant. The constructor and the accessors are not collective; all other members are.
  /// `rest`: seconds for which links are idle before each step.
  Contestant(std::string name, train::Recipe recipe, Training& training, comm::World& world, double rest)
      : name_(std::move(name)), recipe_(std::move(recipe)), training_(training), world_(world), rest_(rest) {}

  const std::string& name() const { return name_; }
  /// Returns the predicted seconds; nullopt without a profile.
  std::optional<double> predicted() const { return predicted_; }
  /// Returns the profile; empty if there is none.
  const std::string& profile() const { return recipe_.schedule.profile; }
  /// Returns the links that the predictions took from a default machine.
  const std::vector<std::string>& assumed_links() const { return assumed_links_; }
  /// Returns what the predictions assume about rates that the profile lacks (Predictor::assumed_rates).
  const std::vector<std::string>& assumed_rates() const { return assumed_rates_; }

  /// Predicts the passes, makes the open choices, and warms up.
  void prepare() {
    const plan::Predictor predictor(recipe_, instance().mesh);
    assumed_rates_ = predictor.assumed_rates;
    step();  // warm-up step, which allocates memory
    if (recipe_.schedule.moe.open()) {
      plan::ScheduleChoice choice(recipe_, instance(), predictor, world_.group());
      while (!choice.made()) {
        choice.begin_trial();
        const PassRecorder recorder(instance());
        training_.step();
        choice.end_trial(recorder.layers());
      }
      schedule_ = choice.current().schedule;
      predicted_ = choice.current().predicted;
      assumed_links_ = plan::assumed_links(choice.candidates());
      if (world_.rank() == 0) fmt::print("chosen\t{}\t{}\n", name_, plan::ScheduleChoice::to_string(choice.current()));
    } else {
      const plan::ScheduleCandidate candidate =
          plan::predicted_schedule(recipe_, instance().extensions, predictor, world_.group(), schedule_);
      predicted_ = candidate.predicted;
      assumed_links_ = plan::assumed_links({&candidate, 1});
    }
    if (recipe_.schedule.profile.empty()) predicted_.reset();
  }

  Measurement step() {
    instance().reschedule(schedule_);
    train::order_traffic(world_, recipe_.distributed);
    device::DeviceContext& context = instance().context;
    const comm::ProcessGroup& world = world_.group();
    context.allocator()->reset_peaks();
    const PassRecorder recorder(instance());
    std::this_thread::sleep_for(std::chrono::duration<double>(rest_));
    world.barrier(context.compute()).wait();
    for (int c = 0; c < comm::traffic_class_count; ++c) world.take(static_cast<comm::TrafficClass>(c));
    const double begin = now();
    const int64_t tokens = [&] {
      const comm::RankThread rank_thread(*world.meter());
      return training_.step();
    }();
    const double seconds = now() - begin;
    return over_ranks(recorder, seconds, tokens);
  }

 private:
  train::ModelInstance& instance() { return training_.instance(); }

  Measurement over_ranks(const PassRecorder& recorder, double seconds, int64_t tokens) {
    using device::Category;
    const comm::ProcessGroup& world = world_.group();
    device::DeviceContext& context = instance().context;
    const PassTimes times = times_of(recorder.passes());
    const device::MemoryStats memory = context.allocator()->stats();
    const int64_t held =
        memory.used_in(Category::parameter) + memory.used_in(Category::gradient) + memory.used_in(Category::optimizer);
    std::vector<double> means{times.forward_exchange, times.all_to_all, times.exchange, times.exposed};
    for (int c = 0; c < comm::traffic_class_count; ++c) {
      const comm::TrafficStats t = world.take(static_cast<comm::TrafficClass>(c));
      means.insert(means.end(), {static_cast<double>(t.bytes), t.seconds, t.exposed_seconds});
    }
    const std::vector<double> most =
        all_reduced({seconds, times.all, times.forward, plan::layer_seconds(recorder.layers()),
                     static_cast<double>(memory.peak_total - held)},
                    comm::Reduce::max, world, context);
    means = all_reduced(means, comm::Reduce::sum, world, context);
    for (double& mean : means) mean /= world.size();

    Measurement m{.step = most[0], .passes = most[1], .forward = most[2], .layer = most[3], .peak_bytes = most[4]};
    m.forward_exchange = means[0], m.all_to_all = means[1], m.exchange = means[2], m.exposed = means[3];
    m.tokens = tokens;
    for (size_t c = 0; c < m.traffic.size(); ++c)
      m.traffic[c] = {std::llround(means[3 * c + 4]), means[3 * c + 5], means[3 * c + 6]};
    return m;
  }

  const std::string name_;
  const train::Recipe recipe_;
  Training& training_;
  comm::World& world_;
  const double rest_;
  moe::MoeSchedule schedule_ = recipe_.schedule.moe.settled();
  std::optional<double> predicted_;
  std::vector<std::string> assumed_links_;
  std::vector<std::string> assumed_rates_;
};

class Bench {
 public:
  Bench(const Options& o, comm::World& world) : options_(o), world_(world) {
    const double rest = o.rest ? *o.rest : longest_burst(o.profile);
    for (const std::string& text : o.schedules) {
      const NamedSchedule schedule(text);
      train::Recipe recipe = recipe_of(o, schedule, world.size());
      auto& training = trainings_[shared_part(recipe)];
      if (!training) training = std::make_unique<Training>(recipe, world.group());
      contestants_.emplace_back(schedule.name, std::move(recipe), *training, world, rest);
    }
  }

  void run() {
    for (Contestant& c : contestants_) c.prepare();
    if (world_.rank() == 0) name_assumptions();
    for (int round = 1; round <= options_.rounds; ++round)
      for (Contestant& c : contestants_) {
        const Measurement m = c.step();
        if (world_.rank() == 0) print(round, c, m);
      }
  }

 private:
  // Prints the links and rates that the profiles lack, on standard error.
  void name_assumptions() const {
    std::set<std::string> texts;
    for (const Contestant& c : contestants_) texts.insert(c.assumed_rates().begin(), c.assumed_rates().end());
    for (const std::string& text : texts) fmt::print(stderr, "train_schedules: {}\n", text);
    std::map<std::string, std::set<std::string>> by_profile;
    for (const Contestant& c : contestants_)
      if (!c.profile().empty()) by_profile[c.profile()].insert(c.assumed_links().begin(), c.assumed_links().end());
    for (const auto& [profile, links] : by_profile)
      if (!links.empty())
        fmt::print(stderr, "train_schedules: {}\n", plan::text_of_assumed(profile, {links.begin(), links.end()}));
  }

  static void print(int round, const Contestant& c, const Measurement& m) {
    fmt::print("{}\t{}\t{:.6f}\t{:.6f}\t{:.6f}\t{:.6f}\t{}\t{:.6f}\t{:.6f}\t{:.6f}\t{:.6f}\t{:.1f}\t{:.0f}", round,
               c.name(), m.step, m.passes, m.forward, m.layer,
               c.predicted() ? fmt::format("{:.6f}", *c.predicted()) : "-", m.forward_exchange, m.all_to_all,
               m.exchange, m.exposed, static_cast<double>(m.tokens) / m.step, m.peak_bytes);
    for (const comm::TrafficStats& t : m.traffic)
      fmt::print("\t{}\t{:.6f}\t{:.6f}", t.bytes, t.seconds, t.exposed_seconds);
    fmt::print("\n");
    std::fflush(stdout);
  }

  const Options& options_;
  comm::World& world_;
  std::map<std::string, std::unique_ptr<Training>> trainings_;
  std::deque<Contestant> contestants_;
};

int run(int argc, char** argv) {
  Options o;
  CLI::App app("Times training steps under each schedule");
  app.add_option("recipe", o.recipe, "YAML recipe")->required();
  app.add_option("overrides", o.overrides, "key.path=value, applied to the recipe");
  app.add_option("--schedule", o.schedules,
                 "schedule to time: NAME:key=value,... with keys of schedule.moe; may be repeated")
      ->required()
      ->expected(1)
      ->take_all();
  app.add_option("--rounds", o.rounds, "number of counted steps of each schedule")->check(CLI::PositiveNumber);
  app.add_option(
      "--trials", o.trials,
      "maximum number of trial steps that choose the values of auto keys; with fewer than eight (six if only "
      "chunks is auto), the prediction alone decides");
  app.add_option("--profile", o.profile, "cluster file of `hexad profile`, for predictions");
  app.add_option("--rest", o.rest,
                 "seconds for which links are idle before each counted step; default: the longest burst of --profile")
      ->check(CLI::Range(0.0, 60.0));
  CLI11_PARSE(app, argc, argv);
  kernels::cpu::set_thread_count(1);
  return comm::with_world([&](comm::World& world) {
    train::require_no_stages(train::load_recipe(config::load(o.recipe, o.overrides), layers::Registry(), 0), o.recipe);
    Bench(o, world).run();
    return 0;
  });
}

}  // namespace
}  // namespace hexad::bench

int main(int argc, char** argv) { return hexad::bench::run(argc, argv); }
