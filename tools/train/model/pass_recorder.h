// Records the start and end times of tasks in passes of MoE layers.
#pragma once

#include <string>
#include <vector>

#include "framework/schedule/executor.h"
#include "framework/schedule/task_graph.h"
#include "tools/train/model/model_instance.h"

namespace hexad::train {

/// Records every pass of this rank's MoE layers while the recorder exists. `instance` must outlive the recorder.
class PassRecorder {
 public:
  struct Recording {
    std::string name;           // such as "layers.0.moe forward"
    schedule::TaskGraph graph;  // its tasks have no functions
    std::vector<schedule::TaskTime> times;

    /// Returns the time at which the first task began, in seconds of std::chrono::steady_clock. Requires a task.
    double begin() const;
  };
  explicit PassRecorder(ModelInstance& instance);
  ~PassRecorder();
  PassRecorder(const PassRecorder&) = delete;
  PassRecorder& operator=(const PassRecorder&) = delete;

  void add(Recording recording) { passes_.push_back(std::move(recording)); }
  /// Returns the passes, ordered by their end time. Passes without tasks are omitted.
  const std::vector<Recording>& passes() const { return passes_; }

 private:
  ModelInstance& instance_;
  std::vector<Recording> passes_;
};

}  // namespace hexad::train
