// Compares three values of the idle time of each pipeline schedule: measured, simulated, and by formula. In the
// measurement, ranks are threads and stages are sleeps. Sleeps need no core, so many ranks on few cores wait only for
// each other.
//
//   pipeline_bubble [MILLISECONDS [RANKS...]]
//
// MILLISECONDS: duration of a rank's forward of one micro-batch; default 6. RANKS: numbers of stages, each with four
// times as many micro-batches; default 4 8.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "parallel/comm/thread_group.h"
#include "parallel/pp/pipeline_runner.h"
#include "parallel/pp/price.h"
#include "parallel/pp/program_check.h"

namespace hexad::pp {
namespace {

using Clock = std::chrono::steady_clock;
using device::Device;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

class Sleeping final : public StageWork {
 public:
  Sleeping(const StageTimes& times, Device device) : times_(times), device_(device) {}

  Boundary boundary(int) const override { return {{16, 16}, Dtype::f32}; }
  Tensor forward(int, int, const Tensor&) override { return sleep(times_.forward); }
  Tensor backward(int, int, const Tensor&, Replay::Weights weights) override {
    return sleep(times_.backward_input + (weights == Replay::Weights::at_once ? times_.backward_weight : 0));
  }
  void weights(int, int) override { sleep(times_.backward_weight); }

  double busy() const { return busy_; }

 private:
  Tensor sleep(double seconds) {
    const auto begin = Clock::now();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    busy_ += seconds_since(begin);
    return Tensor::zeros({16, 16}, Dtype::f32, device_);
  }

  const StageTimes times_;
  const Device device_;
  double busy_ = 0;
};

struct Measured {
  double step = 0, bubble = 0;  // seconds of a step, and mean idle share over the ranks
};

Measured measure(const Schedule& schedule, const StageTimes& times) {
  std::mutex mutex;
  double step = 0, busy = 0;
  comm::with_ranks(schedule.stages.ranks, [&](const comm::ProcessGroup& pp) {
    device::DeviceContext context;
    Sleeping work(times, context);
    pp.barrier(context.compute()).wait();
    const auto begin = Clock::now();
    run(schedule, pp, work, context);
    const double seconds = seconds_since(begin);
    std::lock_guard lock(mutex);
    step = std::max(step, seconds);
    busy += work.busy();
  });
  return {step, 1 - busy / (step * schedule.stages.ranks)};
}

// Returns the times of one virtual stage. `rank` has the times of a rank's whole part of the model, which do not depend
// on the number of virtual stages.
StageTimes times_of_stage(const StageTimes& rank, int stages) {
  return {rank.forward / stages, rank.backward_input / stages, rank.backward_weight / stages};
}

void compare(const PipelineConfig& config, int ranks, int micro_batches, const StageTimes& times) {
  const Schedule schedule = make_schedule(config, ranks, micro_batches);
  const StageTimes stage = times_of_stage(times, schedule.stages.stages_a_rank);
  const Price simulated = price(schedule, stage);
  const auto idle = bubble_seconds(schedule, stage);
  const auto formula =
      idle ? fmt::format("{:9.2f}", 100 * *idle / (simulated.busy[0] + *idle)) : fmt::format("{:>9}", "-");
  const Measured measured = measure(schedule, stage);
  const auto peaks = peak_activations(schedule);
  const double kept =
      static_cast<double>(*std::max_element(peaks.begin(), peaks.end())) / schedule.stages.stages_a_rank;
  fmt::print("{:3} {:12} {:6} {:5} {:9.1f} {:10.1f} {:10.2f} {:10.2f} {} {:7.1f}\n", ranks, name_of(config.kind),
             schedule.stages.stages_a_rank, micro_batches, 1e3 * measured.step, 1e3 * simulated.step,
             100 * measured.bubble, 100 * simulated.bubble(), formula, kept);
  std::fflush(stdout);
}

void compare_all(double forward, const std::vector<int>& ranks) {
  for (const StageTimes& times :
       {StageTimes{forward, forward, forward}, StageTimes{forward, forward * 7 / 6, forward * 5 / 6}}) {
    fmt::print(
        "Milliseconds of one micro-batch on a rank: forward {:.1f}, input gradient {:.1f}, weight gradient {:.1f}\n",
        1e3 * times.forward, 1e3 * times.backward_input, 1e3 * times.backward_weight);
    fmt::print("                          step [ms]                bubble [%]                   kept\n");
    fmt::print(" pp kind         stages micro  measured  simulated   measured  simulated   formula forwards\n");
    for (const int n : ranks)
      for (const auto& [kind, name] : enum_names(PipelineKind{}))
        compare({.kind = kind, .virtual_stages = 2, .split = {}}, n, 4 * n, times);
    fmt::print("\n");
  }
}

}  // namespace
}  // namespace hexad::pp

int main(int argc, char** argv) {
  const double milliseconds = argc > 1 ? std::strtod(argv[1], nullptr) : 6;
  std::vector<int> ranks;
  for (int i = 2; i < argc; ++i) ranks.push_back(static_cast<int>(std::strtol(argv[i], nullptr, 10)));
  if (ranks.empty()) ranks = {4, 8};
  if (!(milliseconds > 0) || *std::min_element(ranks.begin(), ranks.end()) < 2) {
    fmt::print(
        stderr,
        "usage: pipeline_bubble [MILLISECONDS [RANKS...]]; MILLISECONDS of a rank's forward must be > 0, RANKS >= 2\n");
    return 2;
  }
  hexad::pp::compare_all(milliseconds / 1e3, ranks);
}
