// Records the start and end times of MoE layers, and of the tasks in their passes.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "framework/schedule/executor.h"
#include "framework/schedule/layer_clock.h"
#include "framework/schedule/task_graph.h"
#include "tools/train/model/model_instance.h"

namespace hexad::train {

/// Records every pass of this rank's MoE layers while the recorder exists. The host does not wait for recorded passes
/// until passes() is called. `instance` must outlive the recorder.
class PassRecorder {
 public:
  struct Recording {
    schedule::PassName name;
    schedule::TaskGraph graph;  // its tasks have no functions
    std::vector<schedule::TaskTime> times;

    /// Returns the time at which the first task began, in seconds of std::chrono::steady_clock. Requires a task.
    double begin() const;
  };
  /// Time of a layer's forward or backward, with the exchanges and kernels before and after its pass.
  struct LayerTime {
    schedule::PassName name;  // name of the pass
    schedule::TaskTime time;
  };
  explicit PassRecorder(ModelInstance& instance);
  ~PassRecorder();
  PassRecorder(const PassRecorder&) = delete;
  PassRecorder& operator=(const PassRecorder&) = delete;

  /// Adds a pass whose times are not known yet. passes() calls `times` to read them.
  void add(Recording recording, schedule::ReadTimes times);
  /// Adds the forward or the backward of a layer, which `timer` has timed. layers() reads the timer, which must have
  /// been stopped by then.
  void add(const schedule::PassName& name, std::shared_ptr<const schedule::StreamTimer> timer);
  /// Returns the times of the layers, in the order in which the layers began. Blocks like passes().
  std::vector<LayerTime> layers() const;
  /// Returns the passes, in the order in which their last tasks were issued. Passes without tasks are omitted. Blocks
  /// until the passes are done. Call it after the step.
  const std::vector<Recording>& passes() const;

 private:
  ModelInstance& instance_;
  std::vector<std::pair<schedule::PassName, std::shared_ptr<const schedule::StreamTimer>>> timers_;
  mutable std::vector<Recording> passes_;
  mutable std::vector<schedule::ReadTimes> unread_;  // functions that read the times of the last elements of passes_
};

}  // namespace hexad::train
