#include "tools/train/process/cores.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <numeric>

#include "framework/device/context.h"

namespace hexad::train {
namespace {

using base::cat;

constexpr size_t word_bits = 64, words_of_set = CPU_SETSIZE / word_bits;

CoreMask own_mask() {
  cpu_set_t set;
  CoreMask mask;
  // The call fails if the machine has more cores than a cpu_set_t can hold. In this case, assumes a single core.
  if (sched_getaffinity(0, sizeof set, &set) != 0) return mask.set(0);
  for (size_t core = 0; core < mask.size(); ++core) mask[core] = CPU_ISSET(core, &set);
  return mask;
}

// Returns the affinity masks of all ranks of a group, in rank order. Collective.
std::vector<CoreMask> gather_masks(const comm::ProcessGroup& group) {
  const CoreMask mine = own_mask(), low(~uint64_t{0});
  std::vector<int64_t> sent;
  for (size_t w = 0; w < words_of_set; ++w)
    sent.push_back(static_cast<int64_t>(((mine >> w * word_bits) & low).to_ullong()));
  device::DeviceContext host;
  const auto got = group.all_gather_values(sent, host);
  std::vector<CoreMask> masks(got.size() / words_of_set);
  for (size_t i = 0; i < got.size(); ++i)
    masks[i / words_of_set] |= CoreMask(static_cast<uint64_t>(got[i])) << i % words_of_set * word_bits;
  return masks;
}

// Returns the quota, in cores, of the control group whose files are in `folder`; none without a limit. Version 2 of
// control groups has one file with a text such as "150000 100000", or "max 100000" without a limit. Version 1 has two
// files; -1 means no limit.
std::optional<double> quota_in(const std::filesystem::path& folder) {
  double quota = 0, period = 0;
  if (std::ifstream(folder / "cpu.max") >> quota >> period && period > 0) return quota / period;
  if (std::ifstream(folder / "cpu.cfs_quota_us") >> quota && quota > 0 &&
      std::ifstream(folder / "cpu.cfs_period_us") >> period && period > 0)
    return quota / period;
  return {};
}

std::optional<double> own_quota() { return control_group_quota("/proc/self/cgroup", "/sys/fs/cgroup"); }

}  // namespace

Cores share_cores(const std::vector<CoreMask>& ranks, size_t mine, std::optional<double> quota) {
  const auto count = static_cast<int64_t>(ranks.size());
  const CoreMask all = std::accumulate(ranks.begin(), ranks.end(), CoreMask(), std::bit_or());
  double share = 0;
  for (size_t core = 0; core < all.size(); ++core)
    if (ranks[mine][core])
      share += 1.0 / static_cast<double>(std::count_if(ranks.begin(), ranks.end(), [&](auto& r) { return r[core]; }));
  auto node_cores = static_cast<double>(all.count());
  if (quota) node_cores = std::min(node_cores, *quota), share = std::min(share, *quota / static_cast<double>(count));
  const auto whole = [](double cores) { return std::max<int64_t>(1, static_cast<int64_t>(cores + 1e-9)); };
  return {.ranks = count, .node_cores = whole(node_cores), .rank_cores = whole(share)};
}

Cores find_cores(const comm::ProcessGroup& world) {
  const std::vector<int>& nodes = world.node_of_rank();
  std::vector<int> here;  // ranks of this node
  for (int r = 0; r < world.size(); ++r)
    if (nodes[r] == nodes[world.rank()]) here.push_back(r);
  const auto node = world.subgroup(here, comm::TrafficClass::control, "ranks of a node");
  return share_cores(gather_masks(*node), node->rank(), own_quota());
}

Cores find_cores() { return share_cores({own_mask()}, 0, own_quota()); }

std::optional<double> control_group_quota(const std::filesystem::path& membership,
                                          const std::filesystem::path& mounted) {
  std::optional<double> least;
  const auto take = [&](const std::filesystem::path& folder) {
    if (const auto quota = quota_in(folder)) least = std::min(least.value_or(*quota), *quota);
  };
  std::ifstream groups(membership);
  for (std::string line; std::getline(groups, line);) {  // NUMBER:CONTROLLERS:/PATH; version 2: 0::/PATH
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers != ",," && controllers.find(",cpu,") == std::string::npos) continue;
    const auto top = controllers == ",," ? mounted : mounted / "cpu";
    // In a container, the path may exist only on the host, so folders that do not exist are ignored.
    std::filesystem::path path = line.substr(second + 1);
    for (; path.has_relative_path(); path = path.parent_path()) take(top / path.relative_path());
    take(top);
  }
  return least;
}

int64_t core_of(int64_t processor, const std::filesystem::path& folder) {
  std::ifstream file(folder / cat("cpu", processor) / "topology/thread_siblings_list");
  int64_t first = 0;  // the list, such as "0,4" or "0-1", is in ascending order
  return file >> first ? first : processor;
}

std::string warn_of_threads(const Cores& cores, int64_t threads) {
  if (cores.ranks * threads <= cores.node_cores) return {};
  const auto plural = [](int64_t n, const char* what) { return cat(n, " ", what, n == 1 ? "" : "s"); };
  const std::string advice = threads > cores.rank_cores
                                 ? cat("set train.threads=", cores.rank_cores)
                                 : cat("start at most ", plural(cores.node_cores, "rank"), " on this node");
  return cat(plural(cores.ranks, "rank"), " x ", plural(threads, "kernel thread"), " share ",
             plural(cores.node_cores, "core"), " of this node and will wait for each other: ", advice);
}

}  // namespace hexad::train
