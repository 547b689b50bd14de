// Time that a step saves if a resource of the cluster is faster.
#include "tools/plan/resource_gain.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "tests/plan/two_nodes.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace plan;

namespace {

const std::string yaml =
    "model: {layers: 2, hidden: 512, heads: 8, context: 512, vocab: 1024,\n"
    "        moe: {experts: 8, top_k: 2, expert_hidden: 512}}\n"
    "batch: {global: 32, micro: 1}\n"
    "train: {steps: 10, precision: bf16}\n"
    "parallel: {ep: 8}\n"
    "data: {synthetic: true}\n";

constexpr int ranks = 16;

std::map<Resource, double> gains_on(const Cluster& cluster) {
  const Recipe r = recipe_of(yaml, {}, ranks);
  const StepPrices prices(cluster, ranks);
  const RecordedStep step = record_for_forecast(r, {}, mesh::Layout(r.parallel.sizes(), ranks), prices);
  std::map<Resource, double> gains;
  double last = std::numeric_limits<double>::infinity();
  for (const ResourceGain& g : resource_gains(step, simulate_recorded(step, r, prices).seconds, r, cluster, ranks)) {
    EXPECT_LE(g.seconds, last) << "the gains are not sorted in decreasing order";
    gains[g.resource] = last = g.seconds;
  }
  return gains;
}

TEST(ResourceGains, AreLargestForTheSlowResource) {
  for (const auto& [resource, name] : enum_names(Resource{})) {
    if (resource == Resource::host) continue;
    // A hundredth of the rate makes the resource the bottleneck.
    const std::map<Resource, double> gains = gains_on(with_more(two_nodes(), resource, 0.01));
    ASSERT_GT(gains.size(), 1u);
    for (const auto& [other, seconds] : gains)
      if (other != resource) {
        EXPECT_GT(gains.at(resource), seconds) << name;
      }
  }
}

TEST(ResourceGains, AreZeroForAnUnusedResource) { EXPECT_EQ(gains_on(two_nodes()).at(Resource::host), 0); }

TEST(ResourceGains, EqualThoseOfASecondForecast) {
  const Recipe r = recipe_of(yaml, {}, ranks);
  const mesh::Layout layout(r.parallel.sizes(), ranks);
  const auto seconds = [&](const Cluster& cluster) {
    return forecast_step(r, {}, layout, StepPrices(cluster, ranks)).seconds;
  };
  const Cluster more = with_more(two_nodes(), Resource::network, unit_more);
  EXPECT_DOUBLE_EQ(gains_on(two_nodes()).at(Resource::network), seconds(two_nodes()) - seconds(more));
}

TEST(WithMore, DividesTheTimesOfMeasuredCurves) {
  Cluster cluster = default_cluster(2, 4);
  cluster.copies = {{CopyKind::copy, Curve({{1, 6}, {2, 8}})}, {CopyKind::offload, Curve({{1, 6}, {2, 8}})}};
  const auto first = [](const Curve& curve) { return curve.points.front().y; };
  for (const auto& [resource, name] : enum_names(Resource{})) {
    const Cluster more = with_more(cluster, resource, 2);
    const auto expect = [&](bool faster, const Curve& now, const Curve& before) {
      EXPECT_DOUBLE_EQ(first(now), first(before) / (faster ? 2 : 1)) << name;
    };
    for (size_t i = 0; i < more.links.size(); ++i)
      expect(resource == (more.links[i].nodes > 1 ? Resource::network : Resource::inside), more.links[i].points,
             cluster.links[i].points);
    for (size_t i = 0; i < more.products.size(); ++i)
      expect(resource == Resource::compute, more.products[i].points, cluster.products[i].points);
    expect(resource == Resource::memory, more.copies[0].points, cluster.copies[0].points);
    expect(resource == Resource::host, more.copies[1].points, cluster.copies[1].points);
  }
}

}  // namespace
}  // namespace hexad::tests
