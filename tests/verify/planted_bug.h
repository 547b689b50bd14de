// A planted bug, ways to plant bugs, and a function that expects verify to find a bug.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/verify/sabotage.h"

namespace hexad::tests {

using base::Axis;
using verify::MeshSizes;
using verify::TrainingRun;

struct Bug {
  std::string name;
  std::vector<std::string> overrides;  // overrides for the recipe that shows the bug
  std::string layout;                  // a layout of four ranks
  std::string where;                   // part of the name of the first reported mismatch; empty: any name
  std::string smallest;                // smallest failing layout
  std::shared_ptr<verify::Sabotage> sabotage;
  std::string error = "";  // part of the error, if the run ends instead of giving wrong results
};
inline void PrintTo(const Bug& b, std::ostream* out) { *out << b.name; }

/// Expects that the layout of `bug` agrees with the oracle without the bug and fails with the bug. Expects that the
/// failure names the bug's place, and that the search for a minimal failure finds the bug's smallest layout.
void expect_found(const Bug& bug);

/// Sabotage of groups. `wrong` returns the wrong operation for a mesh.
class Groups final : public verify::Sabotage {
 public:
  explicit Groups(std::function<Wrong(const MeshSizes&)> wrong) : wrong_(std::move(wrong)) {}
  std::unique_ptr<comm::ProcessGroup> groups(const comm::ProcessGroup& world, const MeshSizes& mesh) const override {
    return wrong_group(world, wrong_(mesh));
  }

 private:
  std::function<Wrong(const MeshSizes&)> wrong_;
};

/// Sabotage of the training data. `make` is like Sabotage::data().
class Data final : public verify::Sabotage {
 public:
  using Make = std::function<std::unique_ptr<data::Source>(const data::Source&, const TrainingRun&)>;
  explicit Data(Make make) : make_(std::move(make)) {}
  std::unique_ptr<data::Source> data(const data::Source& source, const TrainingRun& run) const override {
    return make_(source, run);
  }

 private:
  Make make_;
};

/// Sabotage by functions that change a run. Functions that are not set do nothing.
class Hooks final : public verify::Sabotage {
 public:
  using Hook = std::function<void(TrainingRun&)>;
  struct Set {
    Hook initialized{}, loaded{}, before_step{}, reduced{};
    std::function<void(TrainingRun&, train::StepResult&)> after_step{};
  };
  explicit Hooks(Set set) : set_(std::move(set)) {}
  void initialized(TrainingRun& run) const override { call(set_.initialized, run); }
  void loaded(TrainingRun& run) const override { call(set_.loaded, run); }
  void before_step(TrainingRun& run) const override { call(set_.before_step, run); }
  void reduced(TrainingRun& run) const override { call(set_.reduced, run); }
  void after_step(TrainingRun& run, train::StepResult& result) const override {
    if (set_.after_step) set_.after_step(run, result);
  }

 private:
  static void call(const Hook& hook, TrainingRun& run) {
    if (hook) hook(run);
  }
  Set set_;
};

/// Returns sabotage of groups that is the same on every mesh.
inline std::shared_ptr<verify::Sabotage> groups(Wrong wrong) {
  return std::make_shared<Groups>([wrong = std::move(wrong)](const MeshSizes&) { return wrong; });
}
/// Returns sabotage by the functions in `set`.
inline std::shared_ptr<verify::Sabotage> hooks(Hooks::Set set) { return std::make_shared<Hooks>(std::move(set)); }

inline int size_of(const TrainingRun& run, Axis axis) { return run.instance.mesh.size(axis); }

/// Calls f(parameter) for each parameter of the experts.
template <class F>
void for_each_expert_tensor(TrainingRun& run, F f) {
  for (const auto& p : run.instance.parameters)
    if (p->placement().view == base::MeshView::expert) f(*p);
}

/// Gives the experts of this rank the initial weights of the experts of ep rank `ep_rank`.
void initialize_experts_of(TrainingRun& run, int ep_rank);

/// Plants a bug: router scores of other ranks do not arrive. Zeroes the parts of other ranks in all-gathers of f64 in
/// the group "tp x cp".
std::optional<device::Event> own_scores_only(const comm::ProcessGroup& right, const comm::Operation& op,
                                             device::Stream& stream);

}  // namespace hexad::tests
