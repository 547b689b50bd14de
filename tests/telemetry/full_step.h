// Metrics of a step in which every value except `stage` is set.
#pragma once

#include <cstdint>

#include "framework/telemetry/metrics.h"

namespace hexad::telemetry {

inline StepMetrics full_step(int64_t step) {
  StepMetrics s;
  s.step = step;
  s.tokens = step * 1024;
  s.loss = 3.25;
  s.prediction_loss = 4.5;
  s.lr = 1e-3;
  s.grad_norm = 0.1 + 0.2;  // needs many digits, because the round trip must be exact
  s.step_seconds = 0.5;
  s.tokens_per_second = 2048;
  s.model_flops_per_second = 1e11;
  s.mfu = 0.4;
  s.peak_flops_per_second = 2.5e11;
  s.started_after = 3;
  s.time = "2026-11-24T03:05:07.089Z";
  s.memory_peak_bytes = {{"activation", int64_t{1} << 40}, {"parameter", 7}};
  s.aux_loss = 0.01;
  s.z_loss = 0.001;
  s.router_max_load = 1.5;
  s.dropped_fraction = 0.125;
  s.shadowed_experts = 1.5;
  s.comm = {{"ep", {.bytes = 100, .seconds = 0.2, .exposed_seconds = 0.05}}, {"dp", {.bytes = 7}}};
  s.host_reads = {{"routing: ids", 4}};
  s.skipped_steps = 2;
  s.expert_load = {{}, {0.25, 0.75}};  // layer 0 is dense
  s.schedule = {.predicted_seconds = 0.25, .measured_seconds = 0.1 + 0.2, .exposed_seconds = {{"R", 0}, {"S", 0.125}}};
  s.choice = {
      .schedule = "chunks 2",
      .measured_seconds = 0.1 + 0.2,
      .advice = {{.adviser = "Parm", .schedule = "chunks 4", .verdict = "wrong", .slower = 0.25, .measured = true},
                 {.adviser = "MoNTA", .verdict = "none", .reason = "needs \"tp\""}}};
  s.ranks = {.step_seconds = {0.5, 0.5, 0.5},
             .waited_seconds = {0.1, 0.3, 0.4},
             .own_seconds = {0.1, 0.2, 0.1 + 0.3},
             .slowest = {{2, 0.1 + 0.3, 0.1}, {0, 0.2, 0.3}}};
  return s;
}

}  // namespace hexad::telemetry
