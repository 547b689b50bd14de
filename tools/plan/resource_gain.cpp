#include "tools/plan/resource_gain.h"

#include <algorithm>
#include <functional>

namespace hexad::plan {
namespace {

Resource resource_of(const MeasuredLink& link) { return link.nodes > 1 ? Resource::network : Resource::inside; }

Resource resource_of(const MeasuredCopy& copy) {
  return copy.kind == CopyKind::offload || copy.kind == CopyKind::restore ? Resource::host : Resource::memory;
}

void divide(Curve& seconds, double factor) {
  for (Curve::Point& point : seconds.points) point.y /= factor;
}

void raise(std::optional<double>& rate, double factor) {
  if (rate) *rate *= factor;
}
void raise(std::optional<MachineLink>& link, double factor) {
  if (link) link->bandwidth *= factor;
}

void raise(Machine& m, Resource resource, double factor) {
  switch (resource) {
    case Resource::compute:
      return raise(m.peak.bf16, factor), raise(m.peak.f32, factor), raise(m.peak.f64, factor);
    case Resource::memory:
      m.memory_bandwidth *= factor;
      return;
    case Resource::inside:
      return raise(m.inside, factor);
    case Resource::network:
      return raise(m.network, factor);
    case Resource::host:
      if (m.host) m.host->to_host *= factor, m.host->to_device *= factor;
      return;
  }
}

// Returns the total seconds of all operations. The step does not use a resource if raising the resource's rate does not
// change this sum.
double seconds_of_operations(const RecordedStep& step, const StepPrices& prices) {
  double seconds = 0;
  for (const StepRecord& record : step.longer.stages) {
    const RecordPrices priced(prices, record);
    for (const device::Issue& issue : record.issues) seconds += priced.seconds(issue);
  }
  return seconds;
}

}  // namespace

Cluster with_more(const Cluster& cluster, Resource resource, double factor) {
  Cluster more = cluster;
  for (MeasuredLink& link : more.links)
    if (resource_of(link) == resource) divide(link.points, factor);
  if (resource == Resource::compute)
    for (std::vector<MeasuredProduct>* products : {&more.products, &more.dense_products})
      for (MeasuredProduct& product : *products) divide(product.points, factor);
  if (resource == Resource::compute)
    for (MeasuredAttention& attention : more.attention) divide(attention.points, factor);
  if (resource == Resource::memory)
    for (MeasuredKernels& kernels : more.kernels) divide(kernels.points, factor);
  for (MeasuredCopy& copy : more.copies)
    if (resource_of(copy) == resource) divide(copy.points, factor);
  if (more.machine) {
    more.machine = complete(*more.machine).machine;  // sets assumed rates, so that they can be raised, too
    raise(*more.machine, resource, factor);
  }
  return more;
}

std::vector<ResourceGain> resource_gains(const RecordedStep& step, double seconds, const train::Recipe& recipe,
                                         const Cluster& cluster, int world) {
  const double alone = seconds_of_operations(step, StepPrices(cluster, world));
  std::vector<ResourceGain> gains;
  for (const auto& [resource, name] : enum_names(Resource{})) {
    const StepPrices cheaper(with_more(cluster, resource, unit_more), world);
    const bool used = seconds_of_operations(step, cheaper) != alone;
    gains.push_back({resource, used ? seconds - simulate_recorded(step, recipe, cheaper).seconds : 0});
  }
  std::ranges::stable_sort(gains, std::greater{}, &ResourceGain::seconds);
  return gains;
}

}  // namespace hexad::plan
