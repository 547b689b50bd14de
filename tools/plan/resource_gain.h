// Seconds that a step would gain from a faster resource of the cluster, such as its network.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/plan/step_forecast.h"

namespace hexad::plan {

/// A resource whose rate limits steps.
///   - compute: rate of products and attention
///   - memory: bandwidth of a device's memory
///   - inside: bandwidth of the link between the ranks of a domain (Machine::inside)
///   - network: bandwidth of the link between domains
///   - host: bandwidth of the link to the host's memory
enum class Resource : uint8_t { compute, memory, inside, network, host };
constexpr auto enum_names(Resource) {
  return std::to_array<std::pair<Resource, std::string_view>>({{Resource::compute, "compute"},
                                                               {Resource::memory, "memory"},
                                                               {Resource::inside, "inside"},
                                                               {Resource::network, "network"},
                                                               {Resource::host, "host"}});
}

/// Returns the cluster with the rate of `resource` multiplied by `factor`. For a described cluster, raises the rate and
/// keeps latencies and efficiencies. For a measured cluster, divides all times of the resource's curves by `factor`.
/// Measured groups inside one node belong to `inside`, other groups to `network`.
Cluster with_more(const Cluster& cluster, Resource resource, double factor);

/// Factor by which a rate is multiplied to simulate a gain.
inline constexpr double unit_more = 1.1;

/// Seconds that a step saves if a resource's rate is multiplied by unit_more. The gain may be negative, because shorter
/// operations may overlap less well.
struct ResourceGain {
  Resource resource;
  double seconds;
};

/// Returns the gain of every resource, the largest first, for a recorded step of `world` ranks that takes `seconds` on
/// the cluster. Simulates the step once for each resource that it uses.
std::vector<ResourceGain> resource_gains(const RecordedStep& step, double seconds, const train::Recipe& recipe,
                                         const Cluster& cluster, int world);

}  // namespace hexad::plan
