// Rules that turn the measured values of all ranks into findings. Nothing is measured here, so tests can use made-up
// values.
#pragma once

#include <string>
#include <vector>

#include "framework/base/error.h"
#include "tools/check_cluster/figures.h"

namespace hexad::check_cluster {

/// A problem of the cluster. The exit code `done` marks a warning: a run would work, but slowly or less safely. Any
/// other code is the exit code that a run on this cluster would return.
struct Finding {
  base::ExitCode code = base::ExitCode::done;
  std::string kind{};     // rank, link, collective, cores, version, memory, gpu, clock or folder
  std::string message{};  // names the ranks or nodes
};

/// Requirements of the planned runs.
struct Expectations {
  bool card = false;        // true if every rank needs a GPU
  double memory_bytes = 0;  // memory that each rank needs; 0: unknown
};

/// Thresholds of the outlier rule in robust.h, as listed in docs/check-cluster.md.
inline constexpr double slow_rank_ratio = 1.5, slow_card_ratio = 1.2, slow_link_ratio = 2, slow_latency_ratio = 4,
                        slow_disk_ratio = 3, little_memory_ratio = 2;
inline constexpr double slow_latency_excess = 20e-6, slow_disk_excess = 0.02;  // seconds
/// Absolute limits, to which the outlier rule does not apply.
inline constexpr double largest_clock_offset = 1, largest_delay = 1, longest_write = 1;  // seconds
inline constexpr double least_free_bytes = 1 << 30;

/// Returns all findings, failures before warnings, except the findings of judge_programs(). `ranks` holds the report of
/// each rank in the order of the ranks.
std::vector<Finding> judge(const std::vector<RankReport>& ranks, const Expectations& expected);
/// Returns the exit code with which a run would end: the lowest exit code of the failures; `done` without failures.
base::ExitCode exit_code_of(const std::vector<Finding>& findings);

/// Compares the versions of hexad and, if they are equal, the digests of the program's file. Appends a finding if they
/// differ. Reads only `rank` and these two facts. This function is separate from judge(), because ranks with different
/// programs measure nothing.
void judge_programs(std::vector<Finding>& findings, const std::vector<RankReport>& ranks);

// Parts of judge(). Each function appends its findings.
void judge_rates(std::vector<Finding>& findings, const std::vector<RankReport>& ranks);
void judge_links(std::vector<Finding>& findings, const std::vector<RankReport>& ranks);
void judge_collectives(std::vector<Finding>& findings, const std::vector<RankReport>& ranks);
void judge_cores(std::vector<Finding>& findings, const std::vector<RankReport>& ranks);
void judge_versions(std::vector<Finding>& findings, const std::vector<RankReport>& ranks);
void judge_memory(std::vector<Finding>& findings, const std::vector<RankReport>& ranks, const Expectations& expected);
void judge_cards(std::vector<Finding>& findings, const std::vector<RankReport>& ranks, const Expectations& expected);
void judge_card_states(std::vector<Finding>& findings, const std::vector<RankReport>& ranks,
                       const Expectations& expected);
void judge_clocks(std::vector<Finding>& findings, const std::vector<RankReport>& ranks);
void judge_folder(std::vector<Finding>& findings, const std::vector<RankReport>& ranks);

/// Returns a text like "rank 3 (node b)".
std::string name_of(const RankReport& rank);
/// Returns a text like "rank 3" or "ranks 1, 2 and 5". Names the first eight ranks, and counts the remaining ranks.
std::string names_of(const std::vector<int>& ranks);

}  // namespace hexad::check_cluster
