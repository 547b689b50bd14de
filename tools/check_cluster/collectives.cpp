#include "tools/check_cluster/measurements.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "framework/base/clock.h"
#include "framework/base/enum_names.h"
#include "framework/base/median.h"
#include "parallel/comm/node_groups.h"
#include "tools/plan/profile/repeated_collective.h"

namespace hexad::check_cluster {
namespace {

using base::now;
using plan::Collective;
using plan::GroupKind;

constexpr int64_t sent_bytes = 1 << 20;  // bytes that a rank sends in a collective
constexpr double max_repeats = 5;
constexpr Collective operations[] = {Collective::all_to_all, Collective::all_gather, Collective::reduce_scatter,
                                     Collective::all_reduce};

struct Group {
  GroupKind kind;
  int first;  // lowest rank
  std::unique_ptr<comm::ProcessGroup> ranks;
};

std::vector<Group> groups_of(const comm::ProcessGroup& world) {
  const comm::NodeGrid grid(world.node_of_rank());
  const int rank = world.rank(), node = grid.node(rank), place = grid.place(rank);
  std::vector<Group> groups;
  const auto add = [&](GroupKind kind, int first, int color) {
    const std::string name(base::enum_name(kind));
    groups.push_back({kind, first, world.split(color, rank, comm::TrafficClass::ep, name)});
  };
  if (grid.nodes() < world.size()) add(GroupKind::intra, grid.ranks(node).front(), node);
  if (grid.nodes() > 1 && grid.places() > 0) add(GroupKind::inter, grid.rank(0, place), place);
  if (grid.nodes() > 1 && grid.nodes() < world.size()) add(GroupKind::all, 0, 0);
  return groups;
}

// Returns the number of repeats, at most max_repeats, that fit into `seconds` after the first two runs. A run takes
// `once` seconds. If two runs already take `seconds`, returns 0.
int repeats_within(double seconds, double once) {
  return static_cast<int>(std::clamp(seconds / once - 2, 0.0, max_repeats));
}

// Returns the median time of the collective on this rank. All groups of a kind run at the same time.
double timed(const comm::ProcessGroup& world, const Group& group, Collective operation, device::Device device,
             double seconds) {
  const plan::Exchange exchange = plan::make_exchange(operation, *group.ranks, sent_bytes, device);
  exchange.start().wait();
  world.barrier(device.context().compute()).wait();
  double began = now();
  exchange.start().wait();
  std::vector<double> times{now() - began};
  const double once = std::max(1e-6, world.all_reduce_value(times.front(), comm::Reduce::max, device));
  const int repeats = repeats_within(seconds, once);
  for (int i = 0; i < repeats; ++i) {
    world.barrier(device.context().compute()).wait();
    began = now();
    exchange.start().wait();
    times.push_back(now() - began);
  }
  return base::lower_median(std::move(times));
}

// Takes part in the collectives over `world` that other ranks run in timed(). Called by a rank that is alone in its
// group.
void accompany(const comm::ProcessGroup& world, device::Device device, double seconds) {
  world.barrier(device.context().compute()).wait();
  const double once = std::max(1e-6, world.all_reduce_value(0, comm::Reduce::max, device));
  const int repeats = repeats_within(seconds, once);
  for (int i = 0; i < repeats; ++i) world.barrier(device.context().compute()).wait();
}

}  // namespace

void measure_collectives(RankReport& report, const comm::ProcessGroup& world, device::Device device, double seconds) {
  const std::vector<Group> groups = groups_of(world);
  const double share = seconds / (static_cast<double>(groups.size() * std::size(operations)) + 1e-9);
  for (const Group& group : groups)
    for (const Collective operation : operations) {
      if (group.ranks->size() == 1) {
        accompany(world, device, share);
        continue;
      }
      report.collectives.push_back({.operation = std::string(base::enum_name(operation)),
                                    .group = std::string(base::enum_name(group.kind)),
                                    .first = group.first,
                                    .ranks = group.ranks->size(),
                                    .seconds = timed(world, group, operation, device, share)});
    }
}

}  // namespace hexad::check_cluster
