// Checks for every kind of group, on tensors of a device. The sums of their data are exact in every dtype.
#pragma once

#include "parallel/comm/process_group.h"

namespace hexad::comm {

/// Location of the tensors of a check.
using Place = device::ContextOptions;

/// Checks all_reduce, reduce_scatter, all_gather and broadcast in f32, bf16, f64 and i64, at sizes of up to several
/// rounds, and in f32 and bf16 also of zero. Checks the barrier and the collectives of single values, too. On an error,
/// fails the running test.
void check_collectives(const ProcessGroup& group, const Place& place = {});
/// Checks all-to-alls with uneven or zero splits, including a rank that neither sends nor receives.
void check_uneven_splits(const ProcessGroup& group, const Place& place = {});
/// Checks a ring of messages in both directions at the same time, larger than any eager limit.
void check_ring(const ProcessGroup& group, const Place& place = {});
/// Checks operations of three overlapping groups in flight together. Each rank waits for the operations in a different
/// order.
void check_groups_in_flight_together(const ProcessGroup& world, const Place& place = {});
/// Checks split() by colour and key.
void check_split(const ProcessGroup& world);

}  // namespace hexad::comm
