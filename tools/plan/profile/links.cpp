#include <fmt/format.h>

#include "framework/base/enum_names.h"
#include "framework/base/units.h"
#include "tools/plan/profile/parts.h"
#include "tools/plan/profile/repeated_collective.h"

namespace hexad::plan {
namespace {

std::vector<int64_t> message_sizes(const ProfileOptions& options) {
  std::vector<int64_t> sizes;
  for (int64_t bytes = 4096; bytes <= options.largest_bytes; bytes <<= options.octaves) sizes.push_back(bytes);
  return sizes;
}

}  // namespace

void measure_links(Cluster& cluster, const std::vector<MeasuredGroup>& groups, const Timer& timer,
                   const ProfileOptions& options, double seconds, const Progress& progress) {
  const std::vector<int64_t> sizes = message_sizes(options);
  constexpr auto operations = enum_names(Collective{});
  const auto operands =
      std::make_shared<Operands>(std::max(bytes_of_exchange(options.largest_bytes, timer.world().size()),
                                          bytes_beyond_caches(cluster.measured.ranks_per_node, options.max_in_use)),
                                 timer.device());
  const Budget budget(timer, seconds);
  size_t open = groups.size() * operations.size();
  for (const MeasuredGroup& g : groups)
    for (const auto& [operation, name] : operations) {
      const auto prepare = [&, op = operation](int64_t bytes) -> Timer::Work {
        const Exchange exchange = make_exchange(op, *g.group, bytes, operands, timer.device());
        return {static_cast<double>(exchange.wire_bytes), [exchange] { exchange.start().wait(); }};
      };
      const Curve curve = timer.curve(sizes, budget.left() / static_cast<double>(open--), prepare);
      cluster.links.push_back({operation, g.kind, g.ranks, g.nodes, curve});
      const Curve::Point& last = curve.points.back();
      progress(fmt::format("{} of {} ranks, {}: largest size {} at {}", name, g.ranks, base::enum_name(g.kind),
                           base::human_bytes(last.x), base::human_quantity(last.x / last.y, "B/s")));
    }
}

}  // namespace hexad::plan
