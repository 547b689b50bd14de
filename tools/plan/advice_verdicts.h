// Comparison of the papers' advice with the schedule that a run chose.
#pragma once

#include "framework/telemetry/metrics.h"
#include "tools/plan/advisers.h"
#include "tools/plan/schedule_choice.h"

namespace hexad::plan {

/// Returns the MoE layer of a recipe on this rank, with the groups of `mesh`.
AdvisedLayer advised_layer(const train::Recipe& recipe, const mesh::Mesh& mesh);

/// True if `advised` does the same work as `chosen`, or is not slower. Compares measured times if both schedules were
/// measured, and predicted times otherwise. Measured times that are indistinct() count as equal.
bool as_good_as(const ScheduleCandidate& chosen, const ScheduleCandidate& advised);

/// Asks all advisers and compares their schedules with the chosen schedule (choice.current()). Collective over `world`.
///
/// An adviser is right if the chosen schedule has the advised values of all keys that the adviser decides. It is also
/// right if the advised schedule is as_good_as() the chosen schedule. There is no verdict if the adviser is silent, or
/// if the advised schedule is illegal in this layout. There is also no verdict if the recipe sets a key to another
/// value than the advised schedule.
telemetry::ChoiceMetrics compare_advice(const train::Recipe& recipe, const train::ModelInstance& instance,
                                        const Predictor& predictor, const comm::ProcessGroup& world,
                                        const ScheduleChoice& choice);

/// Returns the verdict as text, such as "MoNTA: wrong; the advised schedule (duplicates drop, ...) is 12.0% slower
/// (measured) than the chosen schedule" or "MoNTA: no advice: " and the reason.
std::string to_string(const telemetry::AdviceMetrics& advice);

}  // namespace hexad::plan
