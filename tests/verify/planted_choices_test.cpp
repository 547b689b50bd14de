// Bugs in single choices of the schedule, of the order of axes, of routers, layers and optimizers, planted one by one.
// Each bug exists only under one choice. verify finds the bug, and the search for a minimal failure keeps the choice.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "framework/kernels/kernel_table.h"
#include "framework/schedule/graph_runner.h"
#include "tests/verify/planted_bug.h"

namespace hexad::tests {

using namespace base;
using namespace train;
using namespace verify;
namespace {

using comm::Operation;
using comm::ProcessGroup;
using device::Event;
using device::Stream;
using moe::MoeSchedule;
using Kind = Operation::Kind;

// --- Ways to plant bugs.

// Executes graphs. While the work of a task is issued, `running` is the name of the task.
class NamedTasks final : public schedule::GraphRunner {
 public:
  void run(const schedule::PassName&, const schedule::TaskGraph& graph, device::DeviceContext& context) override {
    schedule::TaskGraph named;
    for (const schedule::Task& task : graph.tasks())
      named.add(task.spec, task.after, [this, &task](Stream& s) {
        running = task.spec.name;
        const Event asynchronous = task.work(s);
        running.clear();
        return asynchronous;
      });
    schedule::execute(named, context);
  }
  std::string running;
};

// Executes graphs in which the task `name` does its work twice.
class RepeatedTask final : public schedule::GraphRunner {
 public:
  explicit RepeatedTask(std::string name) : name_(std::move(name)) {}
  void run(const schedule::PassName&, const schedule::TaskGraph& graph, device::DeviceContext& context) override {
    schedule::TaskGraph repeated;
    for (const schedule::Task& task : graph.tasks())
      repeated.add(task.spec, task.after, [&task, twice = task.spec.name == name_](Stream& s) {
        if (twice) task.work(s).wait();
        return task.work(s);
      });
    schedule::execute(repeated, context);
  }

 private:
  std::string name_;
};

// Applies `wrong` to the operations of one task of MoE passes, in runs for whose schedule `applies` is true.
class InTask final : public Sabotage {
 public:
  using Applies = bool (*)(const MoeSchedule&);
  InTask(Applies applies, std::string task, Wrong wrong)
      : applies_(applies), task_(std::move(task)), wrong_(std::move(wrong)) {}
  std::unique_ptr<ProcessGroup> groups(const ProcessGroup& world, const MeshSizes&) const override {
    NamedTasks& tasks = of_rank(world);
    tasks.running.clear();
    return wrong_group(world, [this, &tasks](const ProcessGroup& right, const Operation& op, Stream& stream) {
      return tasks.running == task_ ? wrong_(right, op, stream) : std::nullopt;
    });
  }
  void initialized(TrainingRun& run) const override {
    if (applies_(run.recipe.schedule.moe.settled())) run.instance.run_passes_by(&of_rank(run.instance.mesh.world()));
  }

 private:
  NamedTasks& of_rank(const ProcessGroup& world) const { return ranks_.at(static_cast<size_t>(world.rank())); }

  Applies applies_;
  std::string task_;
  Wrong wrong_;
  mutable std::array<NamedTasks, 4> ranks_;  // each rank uses only its own element
};

// Returns a function that applies `change` to the outputs of operations of `kind` in groups named `group`.
Wrong changed(Kind kind, std::string group, void (*change)(const Operation&)) {
  return [=](const ProcessGroup& right, const Operation& op, Stream& stream) -> std::optional<Event> {
    if (op.kind != kind || right.name() != group) return {};
    right.issue(op, stream).wait();
    change(op);
    return stream.record();
  };
}

void lose_rows(const Operation& op) { scale(op.out, 0); }

// Returns a function that omits all-reduces in group "tp" if `picks` is true for the shape of the tensor.
Wrong leave_out_in_tp(bool (*picks)(const Shape&)) {
  return [=](const ProcessGroup& right, const Operation& op, Stream& stream) -> std::optional<Event> {
    if (op.kind != Kind::all_reduce || right.name() != "tp" || !picks(op.out.shape())) return {};
    return stream.record();
  };
}

std::shared_ptr<Sabotage> in_task(InTask::Applies applies, std::string task, Wrong wrong) {
  return std::make_shared<InTask>(applies, std::move(task), std::move(wrong));
}

std::shared_ptr<Sabotage> repeated(std::string task) {
  return hooks({.initialized = [runner = std::make_shared<RepeatedTask>(std::move(task))](TrainingRun& run) {
    run.instance.run_passes_by(runner.get());
  }});
}

// --- Schedules of MoE layers.

bool overlaps(const MoeSchedule& s) { return s.overlaps_collectives(); }
bool cuts_by_tokens(const MoeSchedule& s) { return s.chunk_by == moe::ChunkBy::tokens; }
bool cuts_by_nodes(const MoeSchedule& s) { return s.chunk_by == moe::ChunkBy::nodes; }
bool cuts_by_experts(const MoeSchedule& s) { return s.chunk_by == moe::ChunkBy::experts; }
bool leaves_threads(const MoeSchedule& s) { return s.compute_share < 1; }
bool returns_last(const MoeSchedule& s) { return s.order == "returns_last"; }

// Plants a bug: rows from the first node are placed after the rows from the other nodes.
void rotate_nodes(const Operation& op) {
  if (op.out.numel() == 0) return;
  double* rows = op.out.data<double>();
  std::rotate(rows, rows + op.splits.receive[0] * op.out.dim(1), rows + op.out.numel());
}

// Plants a bug: a later chunk overwrites the results in the input of an all-to-all before they are sent.
std::optional<Event> overwrite_results(const ProcessGroup& right, const Operation& op, Stream& stream) {
  if (op.kind != Kind::all_to_all) return {};
  scale(op.in, 0);
  return right.issue(op, stream);
}

// Plants a bug: all experts of a token's row use the routing weight of the first expert.
void pack_first_weights(Stream& s, const Tensor& bytes, const Tensor& x, const Tensor& index, const Tensor& row_weights,
                        kernels::WireFormat format) {
  Tensor first = row_weights;
  if (row_weights.defined()) {
    first = Tensor::like(row_weights);
    const int64_t slots = row_weights.dim(1);
    for (int64_t i = 0; i < first.numel(); ++i) first.data<double>()[i] = row_weights.data<double>()[i / slots * slots];
  }
  kernels::cpu_table.wire.pack(s, bytes, x, index, first, format);
}
void send_first_weights(TrainingRun& run) {
  static const kernels::WireKernels wrong{.pack = pack_first_weights, .unpack = kernels::cpu_table.wire.unpack};
  for (const auto& [index, layer] : run.instance.model.moe_layers()) layer->send_rows_with(&wrong);
}

// Plants a bug: of two successive micro-batches that run in turns, both read the sequences of the first micro-batch.
std::unique_ptr<data::Source> pairs_of_equals(const data::Source& source, const TrainingRun& run) {
  if (run.recipe.schedule.pipeline.overlap != pp::Overlap::micro_batches) return nullptr;
  const int64_t micro = run.recipe.batch.micro;
  return wrong_source(source, [&source, micro](int64_t index, const data::Row& row) {
    source.fill(index / (2 * micro) * 2 * micro + index % micro, row);
  });
}

std::vector<Bug> bugs_of_schedules() {
  return {
      {"AllToAllBetweenNodesSwapsNodes",
       {},
       "dp=4,ep=4,zero=1,all_to_all=hierarchical",
       "router of MoE layer 1",
       "dp=4,ep=4,all_to_all=hierarchical",
       groups(changed(Kind::all_to_all, "ep across nodes", rotate_nodes))},
      {"OverlappedGatherLosesTheSecondChunk",
       {},
       "dp=4,ep=2,etp=2,moe=o2",
       "router of MoE layer 1",
       "dp=2,etp=2,moe=o2",
       in_task(overlaps, "dispatch.all_gather[1]", changed(Kind::receive, "etp", lose_rows))},
      {"AlternatingMicroBatchesReadTheSameSequences",
       {},
       "dp=2,tp=2,overlap=micro_batches",
       "router of MoE layer 0",
       "dp=1,overlap=micro_batches",
       std::make_shared<Data>(pairs_of_equals)},
      {"LastChunkOfTokensIsNotSent",
       {},
       "dp=4,ep=2,moe=tokens",
       "router of MoE layer 1",
       "dp=2,ep=2,moe=tokens",
       in_task(cuts_by_tokens, "dispatch.a2a[2]", changed(Kind::all_to_all, "ep", lose_rows))},
      {"ChunkOfOtherNodesDoesNotReturn",
       {},
       "dp=4,ep=2,moe=nodes",
       "router of MoE layer 1",
       "dp=2,ep=2,moe=nodes",
       in_task(cuts_by_nodes, "combine.a2a[1]", changed(Kind::all_to_all, "ep", lose_rows))},
      {"SecondChunkOfExpertsIsNotSent",
       {},
       "dp=4,ep=2,moe=experts",
       "router of MoE layer 1",
       "dp=2,ep=2,moe=experts",
       in_task(cuts_by_experts, "dispatch.a2a[1]", changed(Kind::all_to_all, "ep", lose_rows))},
      {"LastChunkBesideACappedOneIsNotSent",
       {},
       "dp=4,ep=2,compute_share=0.5,moe=tokens",
       "router of MoE layer 1",
       "dp=2,ep=2,compute_share=0.5,moe=tokens",
       in_task(leaves_threads, "dispatch.a2a[2]", changed(Kind::all_to_all, "ep", lose_rows))},
      {"BufferReusedBeforeTheFirstChunkReturns",
       {},
       "dp=4,ep=2,moe=returns_last",
       "router of MoE layer 1",
       "dp=2,ep=2,moe=returns_last",
       in_task(returns_last, "combine.a2a[0]", overwrite_results)},
      {"RowsOfTokensHaveOneWeight",
       {},
       "dp=4,ep=2,rows=token",
       "router of MoE layer 1",
       "dp=2,ep=2,rows=token",
       hooks({.initialized = send_first_weights})},
      {"SharedExpertsBesideAreAddedTwice",
       {"model.moe.shared_experts=1"},
       "dp=4,ep=2,shared=beside",
       "router of MoE layer 1",
       "dp=1,shared=beside",
       repeated("shared_experts")},
      {"DenseMlpBesideIsAddedTwice",
       {"model.moe.dense_residual=true"},
       "dp=4,ep=2,shared=beside",
       "router of MoE layer 1",
       "dp=1,shared=beside",
       repeated("shared_experts")},
  };
}

// --- The order of axes.

// Returns the coordinate that this rank would have without parallel.order.
int coordinate_without_order(const TrainingRun& run, Axis axis) {
  const ProcessGroup& world = run.instance.mesh.world();
  mesh::Sizes sizes = run.recipe.parallel.sizes();
  sizes.order.clear();
  return mesh::Layout(sizes, world.size()).coordinate(axis, world.rank());
}

// Plants a bug: ranks read the tokens of the dp coordinate that they would have without parallel.order. The document
// boundaries remain correct, so that the ranks of a cp group agree on them.
std::unique_ptr<data::Source> tokens_without_order(const data::Source& source, const TrainingRun& run) {
  const int64_t share = run.recipe.batch.global / size_of(run, Axis::dp);
  const int64_t away = coordinate_without_order(run, Axis::dp) - run.instance.mesh.coordinate(Axis::dp);
  return wrong_source(source, [&source, shift = away * share](int64_t index, const data::Row& row) {
    std::vector<int32_t> first(row.first.size()), last(row.last.size());
    const data::Row tokens{row.ids, row.targets, first, last};
    source.fill(index + shift, tokens);
  });
}

// Plants a bug: ranks initialize the experts of the ep coordinate that they would have without parallel.order.
void initialize_experts_without_order(TrainingRun& run) {
  initialize_experts_of(run, coordinate_without_order(run, Axis::ep));
}

std::vector<Bug> bugs_of_orders() {
  return {
      {"TokensOfOtherCoordinatesUnderAnOrder",
       {},
       "dp=2,cp=2,order=pp-dp-ep-cp-tp",
       "router of MoE layer 0",
       "dp=2,cp=2,order=pp-dp-ep-cp-tp",
       std::make_shared<Data>(tokens_without_order)},
      {"ExpertsOfOtherCoordinatesUnderAnOrder",
       {},
       "dp=4,ep=2,order=pp-dp-ep-cp-tp,recompute=norms",
       "initial weight",
       "dp=4,ep=2,order=pp-dp-ep-cp-tp",
       hooks({.initialized = initialize_experts_without_order})},
  };
}

// --- Routers, layers and optimizers, which are subjects of verify.

// Sizes of the subjects latent and delta_net (tools/verify/subject_kind.cpp). No other tensor of the operations below
// has these sizes.
constexpr int64_t rope_size = 2, value_size = 5;

// Plants a bug: sets the states of delta nets that come from other ranks to zero.
void lose_states(const Operation& op) {
  if (op.out.rank() == 4 && op.out.dim(3) == value_size) scale(op.out, 0);
}

std::vector<Bug> bugs_of_subjects() {
  return {
      {"ExpertsChooseAmongOneRanksTokens",
       {},
       "dp=2,cp=2,subject=expert_choice",
       "router of MoE layer 0",
       "cp=2,subject=expert_choice",
       groups(own_scores_only)},
      {"StatesOfDeltaNetsDoNotArrive",
       {},
       "dp=2,cp=2,subject=delta_net",
       "router of MoE layer 0",
       "cp=2,subject=delta_net",
       groups(changed(Kind::receive, "cp", lose_states))},
      {"RotaryPartOfLatentKeysNotSummedOverTp",
       {},
       "dp=2,tp=2,subject=latent",
       "attention.k_rope",
       "tp=2,etp=1,subject=latent",
       groups(leave_out_in_tp([](const Shape& s) { return s.rank() == 2 && s[1] == rope_size; }))},
      {"MuonTakesPiecesForMatrices",
       {},
       "dp=2,tp=2,subject=muon",
       "weight ",
       "tp=2,etp=1,subject=muon",
       groups(leave_out_in_tp([](const Shape& s) { return s.rank() == 3; }))},
  };
}

std::vector<Bug> bugs() {
  std::vector<Bug> all;
  for (const auto& list : {bugs_of_schedules(), bugs_of_orders(), bugs_of_subjects()})
    all.insert(all.end(), list.begin(), list.end());
  return all;
}

class PlantedChoices : public testing::TestWithParam<Bug> {};

TEST_P(PlantedChoices, AreFoundAndShownInTheSmallestLayout) { expect_found(GetParam()); }

INSTANTIATE_TEST_SUITE_P(, PlantedChoices, testing::ValuesIn(bugs()), [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace hexad::tests
