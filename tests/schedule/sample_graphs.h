// Graphs of empty tasks whose seconds are easy to compute by hand.
#pragma once

#include "framework/base/dtype.h"
#include "framework/base/error.h"
#include "framework/base/tolerance.h"
#include "framework/schedule/simulator.h"

namespace hexad::schedule {

inline Event nothing(Stream&) { return {}; }

/// Returns rates of one second for each FLOP, copied byte and sent byte. The cost of a task is then its time in
/// seconds.
inline Rates unit_rates() {
  const TimeCurve one = TimeCurve::linear(0, 1);
  return {.compute = {one, one, one}, .copy = one, .other_links = Rates::OtherLinks{one, one}};
}

inline TaskId computes(TaskGraph& g, std::string name, double seconds, std::vector<TaskId> after = {}) {
  return g.add({Lane::compute, std::move(name), {.flops = seconds}}, std::move(after), nothing);
}
inline TaskId copies(TaskGraph& g, std::string name, int64_t seconds, std::vector<TaskId> after = {}) {
  return g.add({Lane::copy, std::move(name), {.copy_bytes = seconds}, TaskKind::copy}, std::move(after), nothing);
}
/// Adds a task that sends in the group "ep" (lane inter) or "tp" (lane intra) of two ranks. The task takes `seconds`
/// under unit_rates().
inline TaskId sends(TaskGraph& g, Lane lane, std::string name, int64_t seconds, std::vector<TaskId> after = {},
                    TaskKind kind = TaskKind::all_to_all) {
  const Cost cost{.wire_bytes = seconds, .group = lane == Lane::inter ? "ep" : "tp", .group_size = 2};
  return g.add({lane, std::move(name), cost, kind}, std::move(after), nothing);
}

/// Returns MPMoE's pipeline of chunks (Fig. 4b): S0 S1 R0 S2 R1 ... on lane inter, and E0 E1 ... on lane compute. One
/// dispatch S is in flight ahead of the experts E. Each S and each R takes `send` seconds, and each E takes `experts`
/// seconds.
inline TaskGraph pipeline(int chunks, int64_t send, int64_t experts) {
  TaskGraph g;
  std::vector<TaskId> sent;
  const auto dispatch = [&](int i) { sent.push_back(sends(g, Lane::inter, base::cat("S", i), send)); };
  dispatch(0);
  for (int i = 0; i < chunks; ++i) {
    if (i + 1 < chunks) dispatch(i + 1);
    const TaskId e = computes(g, base::cat("E", i), static_cast<double>(experts), {sent[i]});
    sends(g, Lane::inter, base::cat("R", i), send, {e});
  }
  return g;
}

/// Returns the rounding tolerance, in seconds, for sums of up to 16 durations.
inline double rounding(double seconds) { return seconds * base::tolerance(base::Dtype::f64, 16); }

}  // namespace hexad::schedule
