#include "tools/plan/traffic_estimate.h"

#include <numeric>

#include "tools/plan/step_on_meta.h"

namespace hexad::plan {

using namespace train;

double TrafficEstimate::total() const { return std::accumulate(bytes.begin(), bytes.end(), 0.0); }

TrafficEstimate estimate_traffic(const Recipe& r, const train::Extensions& extensions, const mesh::Layout& layout,
                                 int rank) {
  return {step_on_meta(r, extensions, layout, rank, RoutingLoad::even, Wanted::all).sent};
}

}  // namespace hexad::plan
