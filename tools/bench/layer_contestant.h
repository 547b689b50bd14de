// An MoE layer under one of several compared schedules: its measurements and predictions.
#pragma once

#include <array>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/device/memory.h"
#include "framework/schedule/graph_runner.h"
#include "framework/schedule/timeline.h"
#include "layers/block.h"
#include "layers/moe/router/router_statistics.h"
#include "parallel/mesh/mesh.h"
#include "tools/plan/rank_graphs.h"
#include "tools/plan/schedule_trace.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::bench {

/// Results of a pass, or of a part of forward, combined over all ranks. The comment at the top of moe_layer.cpp
/// describes the members.
struct Measurement {
  double seconds = 0, graph = 0, communication = 0, computation = 0, ep_bytes = 0, tp_bytes = 0, peak_bytes = 0;
};

inline constexpr std::array<std::string_view, 2> pass_names{name_of(schedule::PassKind::forward),
                                                            name_of(schedule::PassKind::backward)};
inline constexpr std::array<std::string_view, 2> part_names{"dispatch", "combine"};  // parts of forward

struct Prediction {
  double graph = 0, outside = 0;  // seconds of the pass's graphs; seconds outside the graphs
};

struct PassResult {
  std::string_view name;
  Measurement measured{};
  std::optional<Prediction> predicted{};  // unset without a profile, and on all ranks but the first
};

class LayerContestant final : public schedule::GraphRunner {
 public:
  struct Options {
    bool forward;   // true: the layer is evaluated without backward
    bool exchange;  // true: the parts of forward also have results
    bool block;     // true: the layer runs in its block
    double rest;    // seconds for which the links are idle before each pass
  };
  /// Keeps a pointer to `mesh`, which must outlive this object.
  LayerContestant(std::string name, const train::Recipe& recipe, const mesh::Mesh& mesh, const Options& options);

  const std::string& name() const { return name_; }
  const train::Recipe& recipe() const { return recipe_; }
  size_t passes() const { return passes_; }
  /// Returns the results of the last step: forward; backward if Options::forward is false; and the parts of forward if
  /// Options::exchange is true.
  const std::vector<PassResult>& results() const { return results_; }
  double step_seconds() const;
  /// Returns the peak bytes of the last pass by category of memory, each on the rank where it is highest. Collective.
  std::array<int64_t, device::category_count> peaks();

  /// Runs forward, and backward if Options::forward is false. Collective.
  void step();
  /// Predicts the timelines of the last step from the task graphs of all ranks. If `predictor` is null, only sends this
  /// rank's graphs. Collective.
  void predict(const plan::Predictor* predictor);
  /// Returns the links that the last predict() took from a default machine (schedule::unmeasured_links()); none if its
  /// `predictor` was null.
  const std::set<std::string>& assumed_links() const { return assumed_links_; }

  /// Returns an SVG picture of a pass of the last step on this rank. `pass` is an index of pass_names.
  std::string picture(size_t pass, std::string_view title) const;
  /// Writes a line to `out` for each task of a pass of the last step on this rank: `head`, name, lane, and the measured
  /// start and end in seconds. If the step was predicted here, the predicted start and end follow. `pass` is an index
  /// of pass_names.
  void list(size_t pass, std::string_view head, std::ostream& out) const;

  void run(const schedule::PassName& name, const schedule::TaskGraph& graph, device::DeviceContext& context) override;

 private:
  device::Stream& stream() { return context_.compute(); }
  autograd::Value forward(autograd::Tape& tape, const autograd::Value& x,
                          const layers::ForwardContext& forward_context) const;
  tensor::Tensor normals(const tensor::Shape& shape, std::string_view name);
  /// Returns the gathering of tensor-parallel ranks outside the graphs of a pass, as a task that may have 0 bytes.
  schedule::TaskSpec outside_of(size_t pass) const;
  Measurement timed(size_t pass, const std::function<void()>& work);
  /// Measures the parts of the last forward pass.
  void measure_parts();
  /// Predicts the parts of forward from the predicted timelines of all ranks.
  void predict_parts(std::span<const schedule::Timeline> timelines);
  /// Combines the results of all ranks: means of the sent bytes, maxima of the other members. `t` is the timeline of
  /// this rank's tasks, and `own` has the other results of this rank. Collective.
  Measurement over_ranks(const schedule::Timeline& t, const Measurement& own);

  const std::string name_;
  const Options options_;
  const size_t passes_;
  const train::Recipe recipe_;
  const mesh::Mesh& mesh_;
  device::DeviceContext context_;
  autograd::ParameterSet parameters_;
  layers::StateSet states_;
  std::unique_ptr<moe::MoeLayer> alone_;  // set if the layer runs without its block
  std::unique_ptr<layers::Block> block_;
  layers::ModelStatistics statistics_;
  layers::MicroBatch batch_;
  tensor::Tensor x_, dy_;
  std::vector<PassResult> results_;  // results of the passes, then any results of the parts of forward
  // Graphs and timelines of forward and backward. pass_ is the index of the pass that runs. If a pass has several
  // graphs, the timelines omit the work between the graphs: the tasks of the later graph directly follow the tasks of
  // the earlier graph.
  size_t pass_ = 0;
  std::array<std::vector<schedule::TaskGraph>, 2> graphs_;
  std::array<schedule::Timeline, 2> seen_;
  std::array<std::optional<schedule::Timeline>, 2> foreseen_;
  std::set<std::string> assumed_links_;
};

}  // namespace hexad::bench
