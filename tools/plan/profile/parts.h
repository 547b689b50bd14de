// Parts of the measurement by `hexad profile`. Each measure_*() function is collective over the timer's world, and
// fills its section of `cluster`. `seconds` is the approximate duration of a measurement.
#pragma once

#include "tools/plan/profile/profile.h"
#include "tools/plan/profile/rank_groups.h"
#include "tools/plan/profile/timer.h"

namespace hexad::plan {

void measure_links(Cluster& cluster, const std::vector<MeasuredGroup>& groups, const Timer& timer,
                   const ProfileOptions& options, double seconds, const Progress& progress);
/// Measures the rate of large products, as the mean over all ranks.
void measure_peaks(Cluster& cluster, const Timer& timer, const Progress& progress);
void measure_products(Cluster& cluster, const Timer& timer, const ProfileOptions& options, double seconds,
                      const Progress& progress);
void measure_attention(Cluster& cluster, const Timer& timer, const ProfileOptions& options, double seconds,
                       const Progress& progress);
/// Measures one representative kernel of each class.
void measure_small_kernels(Cluster& cluster, const Timer& timer, const ProfileOptions& options, double seconds,
                           const Progress& progress);
void measure_copies(Cluster& cluster, const Timer& timer, const ProfileOptions& options, double seconds,
                    const Progress& progress);
/// Measures the host's time for an operation in addition to its kernel. Also measures the additional time of an
/// operation that a thread of a lane runs. Runs a step of a tiny model on each rank alone. This step consists of
/// kernels with known prices and of the host's work. A second model has chunks, so threads of lanes run some of its
/// operations. Needs measured products, attention, kernels and copies.
void measure_host(Cluster& cluster, const Timer& timer, double seconds, const Progress& progress);
/// Returns the cores that a waiting rank uses, from 0 to 1. `all` is the time in seconds of a product on all ranks of a
/// node. `some` is the time of the same product on `computing` of these ranks while the other ranks wait. All ranks
/// together must have more threads than the node has cores. The threads of the computing ranks must need all cores.
double waiting_cores(const Origin& measured, int64_t computing, double all, double some);
/// Measures the cores that a rank uses while it waits, if ranks share cores. Measures nothing if all ranks of a node
/// but one together have fewer threads than the node has cores. Needs measured products.
void measure_waiting(Cluster& cluster, const Timer& timer, double seconds, const Progress& progress);
/// Measures slowdowns. Must be called last, because the sizes of the loads depend on the results of the other
/// measurements.
void measure_slowdowns(Cluster& cluster, const std::vector<MeasuredGroup>& groups, const Timer& timer,
                       const ProfileOptions& options, double seconds, const Progress& progress);

}  // namespace hexad::plan
