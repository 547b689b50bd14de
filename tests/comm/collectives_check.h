// Checks for every kind of group, on tensors of a device, with data whose sums are exact in every dtype.
#pragma once

#include "parallel/comm/process_group.h"

namespace hexad::comm {

/// Place of the tensors of a check.
using Place = device::ContextOptions;

/// Every collective in f32, f64, bf16 and i64 at sizes from nothing to several rounds; fails the running test.
void check_collectives(const ProcessGroup& group, const Place& place = {});
/// All-to-alls whose splits are uneven or zero, down to a rank that neither sends nor receives.
void check_uneven_splits(const ProcessGroup& group, const Place& place = {});
/// A ring of messages in both directions at once, larger than any eager limit.
void check_ring(const ProcessGroup& group, const Place& place = {});
/// Operations of three overlapping groups in flight together, waited for in another order on every rank.
void check_groups_in_flight_together(const ProcessGroup& world, const Place& place = {});
/// split() by colour and key.
void check_split(const ProcessGroup& world);

}  // namespace hexad::comm
