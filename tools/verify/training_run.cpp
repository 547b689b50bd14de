#include "tools/verify/training_run.h"

#include <algorithm>
#include <limits>

#include "framework/tensor/host_read.h"
#include "parallel/dp/owned.h"
#include "tools/train/checkpoint/initial_weights.h"

namespace hexad::verify {

using namespace base;
using namespace tensor;
using namespace train;

TrainingRun::TrainingRun(const Recipe& r, const comm::ProcessGroup& world, const Extensions& extensions,
                         GradientObserver observe)
    : recipe(r),
      instance(recipe, extensions, world),
      optimizer(recipe.optim, instance.parameters, recipe.offload.optimizer, extensions.optimizers, &instance.mesh),
      train(recipe, instance, optimizer,
            observe ? std::function<void()>([this, observe] { observe(*this); }) : nullptr),
      world_(world) {}

StepResult TrainingRun::step(const data::Source& source) {
  StepResult result = step_ahead(source);
  instance.weights.complete(stream());
  return result;
}

StepResult TrainingRun::step_ahead(const data::Source& source) { return train.run(source, progress); }

Tensor TrainingRun::on_host(const Tensor& t) const { return copy_to_host("verify", t, stream()); }

Piece TrainingRun::whole_piece(const std::string& name, const Parameter& p, const Tensor& local) const {
  return {name, p.global_shape(), p.region(),
          0,    on_host(local),   instance.mesh.layout().first_holder(p.placement(), world_.rank())};
}

Piece TrainingRun::owned_piece(const std::string& name, const Parameter& p, const Tensor& owned) const {
  return {name, p.global_shape(), p.region(), p.owned().begin, on_host(owned), dp::is_first_holder(p, instance.mesh)};
}

TensorMap TrainingRun::whole(const std::vector<Piece>& pieces) const {
  return gather(pieces, world_, instance.parameters.device().host());
}

std::vector<Piece> TrainingRun::held_weights() const {
  std::vector<Piece> out;
  for (const auto& p : instance.parameters)
    out.push_back(p->weights_are_resident() ? whole_piece(p->name(), *p, p->use(stream()))
                                            : owned_piece(p->name(), *p, p->owned_weights()));
  return out;
}

std::vector<Piece> TrainingRun::held_gradients() const {
  std::vector<Piece> out;
  for (const auto& p : instance.parameters)
    if (p->trainable()) out.push_back(owned_piece(p->name(), *p, p->owned_gradient(stream())));
  return out;
}

std::vector<Piece> TrainingRun::held_states() const {
  std::vector<Piece> out;
  for (const auto& s : optimizer.states())
    out.push_back(owned_piece(cat(s.parameter->name(), "/", s.kind), *s.parameter, s.values()));
  const bool first = instance.mesh.layout().first_holder({}, world_.rank());
  for (const auto& s : instance.states) {
    Shape zero = s.tensor.shape();
    for (int d = 0; d < zero.rank(); ++d) zero[d] = 0;
    out.push_back({s.name + "/state", s.tensor.shape(), {zero, s.tensor.shape()}, 0, on_host(s.tensor), first});
  }
  return out;
}

Stream& TrainingRun::stream() const { return instance.parameters.device().context().compute(); }

void TrainingRun::save() { Checkpointer(recipe, world_, {}).save(progress, instance, optimizer); }

void TrainingRun::load(const std::string& checkpoint_folder) {
  auto checkpoint = io::Checkpoint::open(checkpoint_folder, io::Check::full);
  progress = Checkpointer::load(checkpoint, recipe, instance, optimizer);
}

bool owns_first_element(const Parameter& p) {
  const auto [begin, size] = p.region();
  return p.owned().begin == 0 && !p.owned().empty() &&
         std::all_of(begin.begin(), begin.end(), [](int64_t at) { return at == 0; });
}

void TrainingRun::init_from(const std::string& checkpoint_folder) {
  auto checkpoint = io::Checkpoint::open(checkpoint_folder, io::Check::full);
  InitialWeights(checkpoint, recipe).load(instance, optimizer);
}

void TrainingRun::ruin_gradient(const std::string& name) {
  for (const auto& p : instance.parameters)
    if (p->name() == name && owns_first_element(*p))
      kernels::kernels(instance.device())
          .pointwise.fill(stream(), p->owned_gradient(stream()).slice(0, 0, 1),
                          std::numeric_limits<double>::quiet_NaN());
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

}  // namespace hexad::verify
