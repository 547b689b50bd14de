#include "tools/verify/trainer_comparison.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>

#include <fmt/format.h>

#include "framework/io/checkpoint.h"
#include "tools/train/trainer.h"
#include "tools/verify/exactness.h"

namespace hexad::verify {

using namespace base;
using namespace tensor;
using namespace train;
namespace {

// Returns the name and kind under which a checkpoint stores the tensor that verify calls NAME/STATE.
std::pair<std::string, io::Kind> stored_as(const std::string& name) {
  const size_t slash = name.rfind('/');
  for (const io::Kind kind : {io::Kind::main, io::Kind::moment1, io::Kind::moment2, io::Kind::state})
    if (io::name_of(kind) == name.substr(slash + 1)) return {name.substr(0, slash), kind};
  return {name, io::Kind::state};  // state of another optimizer, such as Muon
}

// Returns a pointer to `source` that does not own it. The subject keeps the source alive.
std::shared_ptr<const data::Source> borrowed(const data::Source& source) { return {std::shared_ptr<void>(), &source}; }

// Observes the training loop through the interface of a schedule adviser. Sets a weight to NaN in the first step of an
// eventful subject.
class Observer final : public ScheduleAdviser {
 public:
  Observer(const AdvisedRun& run, const Oracle& oracle, const Exactness& exactness,
           std::vector<telemetry::StepMetrics>& seen)
      : instance_(run.instance), ruined_(oracle.ruined), seen_(seen) {
    if (exactness.follows_routing()) instance_.routing_from = &oracle.routing;
  }

  // Sets a weight to NaN before the first step of an eventful subject. The NaN makes the gradient norm NaN, so the step
  // is skipped.
  void begin_step(int64_t step) override {
    if (ruined_.empty() || step != 1) return;
    for_first([&](const Tensor& weight) {
      sound_ = Tensor::like(weight);
      pointwise().copy(stream(), sound_, weight);
      pointwise().fill(stream(), weight, std::numeric_limits<double>::quiet_NaN());
    });
  }
  void end_step(const StepResult&, telemetry::StepMetrics& metrics) override {
    seen_.push_back(metrics);
    if (ruined_.empty() || metrics.step != 1) return;
    instance_.weights.update(
        stream(), [&] { for_first([&](const Tensor& weight) { pointwise().copy(stream(), weight, sound_); }); });
  }
  void add_to(telemetry::ReportInputs&, const std::map<std::string, int64_t>&) const override {}

 private:
  Stream& stream() { return instance_.context.compute(); }
  const kernels::PointwiseKernels& pointwise() { return kernels::kernels(instance_.device()).pointwise; }
  template <class F>
  void for_first(const F& f) {
    for (const auto& p : instance_.parameters)
      if (p->name() == ruined_ && owns_first_element(*p)) f(p->owned_weights().slice(0, 0, 1));
  }

  ModelInstance& instance_;
  const std::string& ruined_;
  std::vector<telemetry::StepMetrics>& seen_;
  Tensor sound_;  // value of the weight before it was set to NaN
};

// Returns the recipe for the training loop. It uses the subject's data, and saves a checkpoint only at the end.
Recipe recipe_of_loop(const Subject& subject, const Oracle& oracle, const Variant& variant) {
  Recipe r = subject.recipe_for(variant);
  r.data = {};
  r.data.source = "verify";
  r.train.init_from = oracle.start;
  r.train.threads = std::max<int64_t>(r.train.threads.value_or(1), variant.kernel_threads());
  r.train.eval_every = 0;
  r.train.peak_flops = 1;  // any value, so that the peak is not measured
  r.checkpoint = {};
  r.checkpoint.every = 0;
  r.run.prompts.clear();
  return r;
}

}  // namespace

std::string checkpoint_folder(const Recipe& recipe, int64_t step) {
  return fmt::format("{}/checkpoints/step-{:08}", recipe.run.dir, step);
}

std::vector<Piece> saved_states(const std::string& folder, const WholeMap& expected, Device device) {
  auto checkpoint = io::Checkpoint::open(folder, io::Check::full);
  std::vector<Piece> out;
  for (const auto& [name, whole] : expected) {
    const auto& [stored, kind] = stored_as(name);
    if (!checkpoint.contains(stored, kind)) continue;  // merged() reports the tensor as not owned
    const Tensor t = checkpoint.read(stored, kind, device);
    Shape zero = t.shape();
    for (int d = 0; d < zero.rank(); ++d) zero[d] = 0;
    out.push_back({name, t.shape(), {zero, t.shape()}, 0, t, true});
  }
  return out;
}

Comparison train_on_rank(const Subject& subject, const Oracle& oracle, const Variant& variant,
                         const comm::ProcessGroup& group) {
  const Recipe recipe = recipe_of_loop(subject, oracle, variant);
  const Exactness exactness = exactness_of(recipe);
  const comm::World world(group);
  device::DeviceContext host;
  if (world.rank() == 0 && oracle.start.empty()) {
    std::filesystem::create_directories(recipe.run.dir + "/checkpoints");
    std::filesystem::copy(oracle.checkpoint, checkpoint_folder(recipe, 1), std::filesystem::copy_options::recursive);
  }
  world.group().barrier(host.compute()).wait();

  Extensions extensions = subject.extensions();
  extensions.sources.add(
      "verify", {.make = [&](const data::SourceSpec&) { return data::NamedData{borrowed(subject.source())}; }});
  std::vector<telemetry::StepMetrics> seen;
  Trainer trainer(recipe, extensions, world,
                  [&](const AdvisedRun& run) { return std::make_unique<Observer>(run, oracle, exactness, seen); });
  require(trainer.run() == ExitCode::done, "[verify] the training loop ended early; expected it to reach step ",
          recipe.train.steps);

  Comparer comparer(exactness.tolerance, exactness.measure, exactness.least_unit);
  for (const telemetry::StepMetrics& m : seen)
    comparer.reported(oracle.steps[m.step].result, m, !oracle.ruined.empty() && m.step == 1);
  const WholeMap& expected = oracle.steps.back().states;
  std::vector<Piece> saved;
  if (world.rank() == 0) saved = saved_states(checkpoint_folder(recipe, subject.steps()), expected, host);
  comparer.tensors(subject.steps(), "saved", expected, saved);
  return comparer.merged(world.group(), host);
}

Quiet::Quiet(const Variant& variant) {
  if (variant["start"] != "trained") return;
  std::fflush(nullptr);
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0) return;
  out_ = ::dup(STDOUT_FILENO), error_ = ::dup(STDERR_FILENO);
  ::dup2(nowhere, STDOUT_FILENO), ::dup2(nowhere, STDERR_FILENO);
  ::close(nowhere);
}

Quiet::~Quiet() {
  if (out_ < 0) return;
  std::fflush(nullptr);
  ::dup2(out_, STDOUT_FILENO), ::dup2(error_, STDERR_FILENO);
  ::close(out_), ::close(error_);
}

}  // namespace hexad::verify
