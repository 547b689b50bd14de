// Checks of groups of every kind, on tensors of a device. The sums of their data are exact in every dtype.
#pragma once

#include "parallel/comm/process_group.h"

namespace hexad::comm {

/// Location of the tensors of a check.
using Place = device::ContextOptions;

/// Checks all_reduce, reduce_scatter, all_gather and broadcast in f32, bf16, f64 and i64. Sizes are up to 300,000
/// elements, and in f32 and bf16 also zero. Also checks all_gather_values, all_reduce_value and any, and calls the
/// barrier. Fails the running test if a result is wrong.
void check_collectives(const ProcessGroup& group, const Place& place = {});
/// Checks all-to-alls with even, uneven and zero splits, including a rank that neither sends nor receives.
void check_uneven_splits(const ProcessGroup& group, const Place& place = {});
/// Checks messages around a ring, in both directions at the same time. Messages of 2 MB are too large for MPI to send
/// eagerly. Does nothing in a group of one rank.
void check_ring(const ProcessGroup& group, const Place& place = {});
/// Checks operations of three overlapping groups in flight together. Neighbouring ranks start these operations and wait
/// for them in different orders.
void check_groups_in_flight_together(const ProcessGroup& world, const Place& place = {});
/// Checks split() by colour and key, urgent(), and split() of a group that split() returned.
void check_split(const ProcessGroup& world);

}  // namespace hexad::comm
