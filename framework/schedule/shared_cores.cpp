#include "framework/schedule/shared_cores.h"

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"

namespace hexad::schedule {

bool SharedCores::shared(double needed) const { return cores < std::max(ranks, measured_together()) * needed; }

double SharedCores::speed(double own, double mean) const {
  const auto share = [this](double needed) { return std::min(1.0, cores / needed); };
  return share(ranks * mean) / share(measured_together() * own);
}

void SharedCores::check() const {
  if (!(cores > 0) || !std::isfinite(cores))
    base::fail(base::ExitCode::usage, "rates: ranks of a node share ", cores,
               " cores; expected a finite number above 0");
  if (ranks < 1 || measured_ranks < 1 || threads < 1)
    base::fail(base::ExitCode::usage, "rates: the numbers of ranks, measured ranks and threads per rank of a node are ",
               ranks, ", ", measured_ranks, " and ", threads, "; expected each to be at least 1");
  if (!(waiting >= 0 && waiting <= 1))
    base::fail(base::ExitCode::usage, "rates: a rank that waits uses ", waiting,
               " cores; expected a number from 0 to 1");
}

std::optional<CoreSharing> sharing_of(const std::optional<SharedCores>& cores, std::vector<int> nodes,
                                      CoreNeeds needs) {
  if (!cores) return {};
  SharedCores of_job = *cores;
  for (const int node : nodes)
    if (node != CoreSharing::no_node)
      of_job.ranks = std::max(of_job.ranks, static_cast<int>(std::ranges::count(nodes, node)));
  if (!of_job.shared(needs.most)) return {};
  return CoreSharing{
      .node = std::move(nodes), .needed = needs.cores, .speed = [of_job, needs](int queue, size_t active, double mean) {
        return needs.local(queue) ? of_job.speed(needs.cores(active), mean) : 1.0;
      }};
}

}  // namespace hexad::schedule
