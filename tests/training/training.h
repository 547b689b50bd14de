// Small training runs through the library: recipes from text, sources with known sequences, and what a run leaves
// behind put together from all ranks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/data/source.h"
#include "tests/support/compare.h"
#include "tools/hexad/checkpointing.h"
#include "tools/hexad/train_step.h"

namespace hexad::tests {

using namespace app;

/// A recipe from YAML with "key.path=value" overrides. Throws Error(usage) as `hexad train` does.
Recipe recipe_of(const std::string& yaml, const std::vector<std::string>& overrides = {}, int64_t world = 0);
/// A mixture-of-experts decoder of a few thousand parameters, in f64: 2 layers, hidden 16, 4 experts top-2, context 8,
/// vocabulary 31; 8 sequences a step in micro-batches of 2. Initial weights are large, so that experts matter.
Recipe small_recipe(const std::vector<std::string>& overrides = {});

/// Given sequences, repeated without end.
class FixedSource final : public data::Source {
 public:
  explicit FixedSource(data::Batch rows) : rows_(std::move(rows)) {}
  int64_t context() const override { return rows_.context; }
  int64_t size() const override { return endless; }
  int64_t epoch(int64_t index) const override { return index / rows_.count; }
  void fill(int64_t index, const data::Row& row) const override;

 private:
  data::Batch rows_;
};

/// Random sequences cut into documents of 1 .. context tokens that do not see each other; nothing follows a document's
/// last token. Every fifth sequence, from the second on, has no target at all. Sequences 2i and 2i + 1 have no id twice
/// (vocab >= 2 context): equal tokens tie, and rounding alone would decide whom a full expert drops.
FixedSource documents(int64_t sequences, int64_t context, int64_t vocab, uint64_t seed = 5);
/// The documents that small_recipe() reads.
FixedSource documents_of(const Recipe& recipe);

/// Whole tensors by name. Equal on all ranks, in the memory of the run they come from.
using TensorMap = std::map<std::string, Tensor>;

/// One rank's side of a training run.
class TrainingRun {
 public:
  TrainingRun(const Recipe& recipe, const comm::ProcessGroup& world);

  /// The next step, at the learning rate of the recipe's schedule. Collective.
  StepResult step(const data::Source& source);
  /// Collective: sharded ones are gathered, all are copied.
  TensorMap weights() const;
  TensorMap gradients() const;
  /// Main weights, moments and router states: "NAME/moment1", "NAME/state".
  TensorMap states() const;
  /// Through the recipe's run.dir. Collective.
  void save();
  void load(const std::string& checkpoint_folder);

  Recipe recipe;
  ModelInstance instance;
  optim::Optimizer optimizer;
  TrainStep train;
  Progress progress;

 private:
  Tensor whole(const Parameter& p, const Tensor& local) const;
  const comm::ProcessGroup& world_;
};

/// What some steps gave.
struct Trajectory {
  struct Step {
    StepResult result;
    TensorMap gradients;
  };
  std::vector<Step> steps;
  TensorMap weights, states;
};
Trajectory trajectory(TrainingRun& run, const data::Source& source, int steps);
/// The same on one rank, alone.
Trajectory trajectory_alone(const Recipe& recipe, const data::Source& source, int steps);

/// Runs `body` on n ranks that are threads, each with one OpenMP thread: there are more ranks than cores.
void on_ranks(int n, const std::function<void(const comm::ProcessGroup& world)>& body);

void expect_close(const TensorMap& expected, const TensorMap& actual, double allowed);
void expect_bitwise(const TensorMap& expected, const TensorMap& actual);
/// Loss, norm, router statistics, every gradient of every step, final weights and states.
void expect_close(const Trajectory& expected, const Trajectory& actual, double allowed);
void expect_bitwise(const Trajectory& expected, const Trajectory& actual);

/// Runs f, which must throw Error with `code`; returns its message.
std::string message_of(ExitCode code, const std::function<void()>& f);

}  // namespace hexad::tests
