#include "tools/plan/traffic_estimate.h"

#include <numeric>

#include "tools/plan/step_on_meta.h"

namespace hexad::plan {

using namespace train;

double TrafficEstimate::total() const { return std::accumulate(bytes.begin(), bytes.end(), 0.0); }

TrafficEstimate estimate_traffic(const Recipe& r, const mesh::Layout& layout, int rank,
                                 const train::Extensions& extensions) {
  return {step_on_meta(r, extensions, layout, rank, RoutingLoad::even, Wanted::all).sent};
}

TrafficEstimate estimate_traffic(const Recipe& r, const mesh::Layout& layout, const train::Extensions& extensions) {
  TrafficEstimate most;
  for (const int rank : ranks_that_differ(layout)) {
    const TrafficEstimate t = estimate_traffic(r, layout, rank, extensions);
    if (t.total() > most.total()) most = t;
  }
  return most;
}

}  // namespace hexad::plan
