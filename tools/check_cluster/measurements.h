// Measurements of `hexad check-cluster`: facts and rates of each rank, clocks of the nodes, links and collectives
// between ranks, and a folder that the nodes share. Each section names the file that implements it.
#pragma once

#include <string>

#include "framework/device/context.h"
#include "parallel/comm/process_group.h"
#include "tools/check_cluster/figures.h"

namespace hexad::check_cluster {

// --- facts about a rank's process: cores, memory, versions, GPU (rank_facts.cpp)

/// Returns the facts of this process. `host` is the name of the node, `place` the index of the rank on the node, and
/// `threads` the number of kernel threads.
RankFacts collect_facts(const std::string& host, int place, int threads);

// --- state of a GPU, from NVIDIA's management library (NVML), which belongs to the driver (card_state.cpp)

/// Returns the state of the GPU with the identifier `id` (RankFacts::card_id). Values are unknown if NVML cannot be
/// loaded, does not find the GPU, or does not report these values. `library` is the file name of NVML.
CardState read_card_state(const std::string& id, const std::string& library = "libnvidia-ml.so.1");

// --- offsets between the nodes' clocks (clocks.cpp)

/// Largest number of nodes whose clocks are compared. On larger clusters, the compared nodes are evenly spaced.
inline constexpr int max_clocks = 256;

/// Compares the clocks of at most max_clocks nodes with the clock of rank 0's node. Sets `clock_offset` and
/// `clock_error` on the first rank of each compared node. Collective over `world`.
void measure_clocks(RankReport& report, const comm::ProcessGroup& world, device::Device device);

// --- each rank's compute and copy speed while all ranks work (rates.cpp)

/// Measures matrix products and memory copies on all ranks at the same time, in about `seconds`. A rank that shares its
/// core is therefore as slow as in a run. The kernels use `report.facts.threads` threads. Sets `product_rate` and
/// `copy_rate`. Collective over `world`.
void measure_rates(RankReport& report, const comm::ProcessGroup& world, device::Device device, double seconds);

/// Measures bf16 products on the GPUs of all ranks at the same time. Takes a fraction of a second. Sets
/// `card_product_rate` if the rank has a GPU. If the GPU fails, sets `facts` as if the rank had no GPU.
/// `options` choose the GPU; `host` is a CPU device. Collective over `world`.
void measure_card_rate(RankReport& report, const comm::ProcessGroup& world, device::Device host,
                       const device::ContextOptions& options);

// --- latency and bandwidth between pairs of ranks (links.cpp)

/// Measures messages from this rank to each of its partners in meetings_of(), in about `seconds`. Adds `links` and
/// `damaged_from` to `report`. Collective over `world`.
void measure_links(RankReport& report, const comm::ProcessGroup& world, device::Device device, double seconds);

// --- collectives on the process groups that layouts use (collectives.cpp)

/// Measures, in about `seconds`, collectives of three kinds of groups:
/// - intra: the ranks of each node; omitted if every node has one rank
/// - inter: the ranks with the same index on all nodes; omitted on a single node, and if nodes have different numbers
///   of ranks
/// - all: all ranks; omitted on a single node, and if every node has one rank
///
/// Adds `collectives` to `report`. Collective over `world`.
void measure_collectives(RankReport& report, const comm::ProcessGroup& world, device::Device device, double seconds);

// --- folder that is suitable for checkpoints and datasets (shared_folder.cpp)

/// Largest number of other ranks whose files each rank reads.
inline constexpr int max_folder_peers = 63;

/// Checks writes, fsync, renames, visibility and locks in a new folder inside `folder`. Removes the new folder
/// afterwards. The first rank of each node takes part. On a single node, the first two ranks take part. Waits at most
/// `patience` seconds for the new folder, for the new files of other ranks, and for their replaced files. Sets `folder`
/// in the reports of these ranks, or only in rank 0's report if the new folder cannot be created. Reports file system
/// errors in this member and does not throw them. Collective over `world`.
void check_folder(RankReport& report, const comm::ProcessGroup& world, device::Device device, const std::string& folder,
                  double patience);

}  // namespace hexad::check_cluster
