// Timelines of dispatch, experts and combine, as measured and as predicted.
#pragma once

#include "framework/schedule/timeline.h"

namespace hexad::telemetry {

struct SampleTimelines {
  static schedule::Timeline timeline(double dispatched, double computed, double returned) {
    using schedule::Cost, schedule::Lane, schedule::TaskKind;
    const Cost wire{.wire_bytes = 1 << 20, .group = "ep", .group_size = 4, .crosses_nodes = true};
    return {{{{Lane::inter, "D0", wire, TaskKind::all_to_all}, 0, dispatched},
             {{Lane::compute, "E0", {.flops = 1e9}, TaskKind::compute}, dispatched, computed},
             {{Lane::inter, "C0", wire, TaskKind::all_to_all}, computed - 1, returned}}};
  }
  schedule::Timeline measured = timeline(2, 5, 8), predicted = timeline(2, 4, 7);
};

}  // namespace hexad::telemetry
