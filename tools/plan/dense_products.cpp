#include "tools/plan/dense_products.h"

#include <algorithm>
#include <cmath>

namespace hexad::plan {
namespace {

// Returns the grouped measurement with the element type, pass and shape of `dense`; null if there is none.
const MeasuredProduct* grouped_twin(const Cluster& cluster, const MeasuredProduct& dense) {
  const auto twin = std::ranges::find_if(cluster.products, [&](const MeasuredProduct& p) {
    return p.element == dense.element && p.pass == dense.pass && p.experts == dense.experts &&
           p.inputs == dense.inputs && p.outputs == dense.outputs;
  });
  return twin == cluster.products.end() ? nullptr : &*twin;
}

}  // namespace

DenseAndGrouped nearest_dense(const Cluster& cluster, Element element, double weight) {
  DenseAndGrouped best;
  double least = 0;
  for (const MeasuredProduct& dense : cluster.dense_products) {
    const MeasuredProduct* grouped = grouped_twin(cluster, dense);
    if (dense.element != element || !grouped) continue;
    const double area = static_cast<double>(dense.inputs) * static_cast<double>(dense.outputs);
    const double distance = weight > 0 ? std::abs(std::log2(area / weight)) : -area;
    if (!best.dense || distance < least) best = {&dense, grouped}, least = distance;
  }
  return best;
}

}  // namespace hexad::plan
