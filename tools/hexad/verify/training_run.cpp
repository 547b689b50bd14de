#include "tools/hexad/verify/training_run.h"

#include <algorithm>

#include "optim/lr_schedule.h"
#include "parallel/comm/self_group.h"

namespace hexad::verify {

TrainingRun::TrainingRun(const Recipe& r, const comm::ProcessGroup& world, const Registry& registry)
    : recipe(r),
      instance(recipe, registry, world),
      optimizer(recipe.optim, instance.parameters, recipe.offload.optimizer),
      train(recipe, instance, optimizer),
      world_(world) {}

StepResult TrainingRun::step(const data::Source& source) {
  const int64_t step = progress.step + 1;
  const double lr = optim::learning_rate(recipe.optim, step, recipe.train.steps);
  StepResult result = train.run(source, progress.next_sequence, step, step - progress.skipped, lr);
  progress.step = step;
  progress.tokens += result.tokens;
  progress.next_sequence += recipe.batch.global;
  progress.skipped += result.skipped;
  return result;
}

namespace {

// Whether tensors are held whole by everyone who holds a piece of the parameter, or dealt to those who sum its
// gradient.
enum class Dealt : uint8_t { no, yes };

// Of all ranks that hold the same elements, the first one speaks for them.
bool speaks(const mesh::Layout& layout, const Placement& placement, int rank, Dealt dealt) {
  const std::vector<int> holders = layout.holders(placement, rank);
  if (dealt == Dealt::no) return holders.front() == rank;
  const auto place = [&](int r) {
    const std::vector<int> reducers = layout.reducers(placement, r);
    return std::find(reducers.begin(), reducers.end(), r) - reducers.begin();
  };
  const auto first = std::find_if(holders.begin(), holders.end(), [&](int r) { return place(r) == place(rank); });
  return *first == rank;
}

}  // namespace

Piece TrainingRun::piece(const std::string& name, const Parameter& p, const Tensor& values, bool dealt) const {
  return {name,       p.global_shape(),
          p.region(), dealt ? p.owned().begin : 0,
          values,     speaks(instance.mesh.layout(), p.placement(), world_.rank(), dealt ? Dealt::yes : Dealt::no)};
}

TensorMap TrainingRun::whole(const std::vector<Piece>& pieces) const {
  return gather(pieces, world_, instance.parameters.device());
}

std::vector<Piece> TrainingRun::held_weights() const {
  const bool dealt = recipe.parallel.zero == 3;
  std::vector<Piece> out;
  for (const auto& p : instance.parameters)
    out.push_back(piece(p->name(), *p, dealt ? p->owned_weights() : p->local(), dealt));
  return out;
}

std::vector<Piece> TrainingRun::held_gradients() const {
  const bool dealt = recipe.parallel.zero > 0;
  std::vector<Piece> out;
  for (const auto& p : instance.parameters)
    out.push_back(piece(p->name(), *p, dealt ? p->owned_gradient(stream()) : p->gradient(), dealt));
  return out;
}

std::vector<Piece> TrainingRun::held_states() const {
  const bool dealt = recipe.parallel.zero > 0;
  std::vector<Piece> out;
  for (const auto& s : optimizer.states())
    out.push_back(piece(cat(s.parameter->name(), "/", s.kind), *s.parameter, s.tensor, dealt));
  const bool first = instance.mesh.layout().first_holder({}, world_.rank());
  for (const auto& s : instance.states) {
    Shape zero = s.tensor.shape();
    for (int d = 0; d < zero.rank(); ++d) zero[d] = 0;
    out.push_back({s.name + "/state", s.tensor.shape(), {zero, s.tensor.shape()}, 0, s.tensor, first});
  }
  return out;
}

Stream& TrainingRun::stream() const { return instance.parameters.device().context().compute(); }

void TrainingRun::save() { Checkpointer(recipe, world_, {}, {}).save(progress, instance, optimizer); }

void TrainingRun::load(const std::string& checkpoint_folder) {
  auto checkpoint = io::Checkpoint::open(checkpoint_folder, io::Check::full);
  progress = Checkpointer::load(checkpoint, recipe, instance, optimizer);
}

Trajectory trajectory(TrainingRun& run, const data::Source& source, int steps) {
  Trajectory t;
  for (int s = 0; s < steps; ++s) {
    StepResult result = run.step(source);
    t.steps.push_back({std::move(result), run.gradients()});
  }
  t.weights = run.weights();
  t.states = run.states();
  return t;
}

Trajectory trajectory_alone(const Recipe& recipe, const data::Source& source, int steps) {
  const comm::SelfGroup self;
  TrainingRun run(recipe, self);
  return trajectory(run, source, steps);
}

}  // namespace hexad::verify
