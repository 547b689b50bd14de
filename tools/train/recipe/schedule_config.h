// The recipe's section `schedule`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/config/constraints.h"
#include "layers/moe/schedule/moe_schedule_config.h"
#include "parallel/pp/pipeline_kind.h"

namespace hexad::train {

/// Keys of the section that depend on the layout. A stage of training may replace them.
struct StageSchedule {
  pp::PipelineConfig pipeline;
  moe::MoeScheduleConfig moe;
  std::optional<bool> worker_lanes;

  bool lanes_have_threads(const moe::MoeSchedule& s) const { return worker_lanes.value_or(s.uses_lanes()); }

  template <class V>
  void fields(V& v) {
    v("pipeline", pipeline, "pipeline schedule over the stages of parallel.pp");
    v("moe", moe, "schedule of an MoE layer; results do not depend on it, except for wire: fp8, which rounds");
    v("worker_lanes", worker_lanes,
      "give each lane of communication and copies its own thread; false: all work runs inline; auto: true if the "
      "schedule overlaps something",
      config::automatic);
  }
};

struct ScheduleConfig : StageSchedule {
  int64_t trace = 0;
  std::string profile;

  template <class V>
  void fields(V& v) {
    v("trace", trace,
      "step whose MoE passes are recorded, with their predicted times, in trace.json.gz, metrics.jsonl, the log and "
      "the "
      "report; 0: none",
      config::at_least(0));
    v("profile", profile,
      "cluster file, made by `hexad profile`, on which predictions are based; empty: predictions assume a default "
      "machine",
      config::file_path);
    StageSchedule::fields(v);
  }
};

}  // namespace hexad::train
