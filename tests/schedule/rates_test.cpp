#include "framework/schedule/rates.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/schedule/sample_graphs.h"

namespace hexad::schedule {
namespace {

const TimeCurve measured{{{10, 4}, {20, 6}, {40, 18}}};

TEST(TimeCurve, IsLinearBetweenMeasuredPoints) {
  EXPECT_EQ(measured.seconds(10), 4);
  EXPECT_EQ(measured.seconds(15), 5);
  EXPECT_EQ(measured.seconds(20), 6);
  EXPECT_EQ(measured.seconds(30), 12);
  EXPECT_EQ(measured.seconds(40), 18);
}

TEST(TimeCurve, CostsItsLatencyBelowTheFirstPoint) {
  EXPECT_EQ(measured.seconds(1), 4);
  EXPECT_EQ(measured.seconds(0), 0);
}

TEST(TimeCurve, ContinuesAlongItsLastSegment) {
  EXPECT_EQ(measured.seconds(50), 24);
  EXPECT_EQ((TimeCurve{{{10, 4}}}.seconds(30)), 12) << "the line of a single point goes through the origin";
  EXPECT_EQ((TimeCurve{{{10, 4}, {20, 3}}}.seconds(1000)), 3) << "noise at the end does not make more work cheaper";
}

TEST(TimeCurve, IsExactOverManySizesForLatencyAndRate) {
  const TimeCurve curve = TimeCurve::linear(20e-6, 1e11);
  for (double size : {2.0, 1e3, 1e6, 1e9, 1e12, 1e15})
    EXPECT_NEAR(curve.seconds(size), 20e-6 + size / 1e11, rounding(20e-6 + size / 1e11)) << "size " << size;
}

TEST(Alpha, IsOneAloneAndWithoutAMeasurement) {
  const Rates rates{.slowdowns = {{Lane::compute, {Lane::inter}, 0.5}}};
  EXPECT_EQ(rates.alpha(Lane::compute, {}), 1);
  EXPECT_EQ(rates.alpha(Lane::compute, {Lane::copy}), 1);
  EXPECT_EQ(rates.alpha(Lane::inter, {Lane::compute}), 1) << "each direction has its own measurement";
  EXPECT_EQ(rates.alpha(Lane::compute, {Lane::inter}), 0.5);
  EXPECT_EQ(rates.alpha(Lane::compute, {Lane::inter, Lane::compute}), 0.5) << "a lane does not slow itself down";
}

TEST(Alpha, CappedComputationPrefersValuesMeasuredWithCapping) {
  const Rates rates{.slowdowns = {{Lane::inter, {Lane::compute}, 0.5},
                                  {Lane::inter, {Lane::compute}, 0.9, true},
                                  {Lane::inter, {Lane::copy}, 0.8},
                                  {Lane::inter, {Lane::compute, Lane::copy}, 0.4}}};
  EXPECT_EQ(rates.alpha(Lane::inter, {Lane::compute}), 0.5);
  EXPECT_EQ(rates.alpha(Lane::inter, {Lane::compute}, true), 0.9);
  EXPECT_EQ(rates.alpha(Lane::inter, {Lane::compute, Lane::copy}, true), 0.4)
      << "no value of this set of lanes was measured with capped computation";
}

TEST(Rates, ProductsOnFewerThreadsTakeLonger) {
  Rates rates = unit_rates();
  rates.speed_of_threads = {0.3, 0.5, 0.75, 1};
  const auto seconds = [&](double share) {
    return rates.seconds({.lane = Lane::compute, .name = "E", .cost = {.flops = 3, .share = share}});
  };
  EXPECT_NEAR(seconds(1), 3, rounding(3));
  EXPECT_NEAR(seconds(0.75), 4, rounding(4));
  EXPECT_NEAR(seconds(0.5), 6, rounding(6));
  EXPECT_NEAR(seconds(0.6), 6, rounding(6)) << "0.6 of four threads are two threads";
  EXPECT_NEAR(seconds(0.1), 10, rounding(10)) << "at least one thread computes";
  rates.speed_of_threads = {1};
  EXPECT_NEAR(seconds(0.5), 3, rounding(3)) << "a single thread cannot be shared";
}

TEST(Rates, SpeedOfNoThreadIsRefused) {
  Rates rates = unit_rates();
  rates.speed_of_threads = {0, 1};
  EXPECT_THROW(rates.check(), base::Error);
}

TEST(Alpha, PrefersTheMeasuredSet) {
  const Rates rates{.slowdowns = {{Lane::inter, {Lane::compute}, 0.5},
                                  {Lane::inter, {Lane::copy}, 0.5},
                                  {Lane::inter, {Lane::compute, Lane::copy}, 0.375}}};
  EXPECT_EQ(rates.alpha(Lane::inter, {Lane::copy, Lane::compute}), 0.375);
}

TEST(Alpha, AddsUpDelaysOfSeparatelyMeasuredLanes) {
  const Rates rates{.slowdowns = {{Lane::inter, {Lane::compute}, 0.5},
                                  {Lane::inter, {Lane::copy}, 0.5},
                                  {Lane::inter, {Lane::intra}, 0.8}}};
  // Each of three equal users of a resource has a third of the resource.
  EXPECT_NEAR(rates.alpha(Lane::inter, {Lane::compute, Lane::copy}), 1.0 / 3, rounding(1));
  const double all = rates.alpha(Lane::inter, {Lane::compute, Lane::copy, Lane::intra});
  EXPECT_NEAR(all, 1 / (1 + 1 + 1 + 0.25), rounding(1));
  EXPECT_LT(all, 0.5) << "the alpha of three lanes must be below the smallest alpha of a single lane";
  EXPECT_GT(all, 0.5 * 0.5 * 0.8) << "the alpha of three lanes must be above the product of the single lanes' alphas";
}

TaskSpec exchange(int64_t bytes) {
  return {Lane::inter, "D0", {.wire_bytes = bytes, .group = "ep", .group_size = 4}, TaskKind::all_to_all};
}

TEST(Seconds, AddUpTheCostsOfATask) {
  Rates rates = unit_rates();
  rates.links = {{TaskKind::all_to_all, "ep", 4, false, TimeCurve::linear(0, 0.5)}};
  EXPECT_NEAR(rates.seconds({Lane::compute, "E", {.flops = 3, .copy_bytes = 4}}), 7, rounding(7));
  EXPECT_NEAR(rates.seconds(exchange(8)), 16, rounding(16)) << "the group has its own link";
  rates.compute = {TimeCurve{{{2, 5}, {4, 7}}}, TimeCurve{{{2, 10}, {4, 14}}}, TimeCurve{{{2, 1}, {4, 2}}}};
  const auto products = [&](int64_t forward, int64_t of_inputs, int64_t of_weights) {
    return rates.seconds({Lane::compute, "E", {.flops = 6, .products = {forward, of_inputs, of_weights}}});
  };
  EXPECT_NEAR(products(2, 0, 0), 12, rounding(12)) << "two products of 3 FLOPs take 12 s";
  EXPECT_NEAR(products(6, 0, 0), 30, rounding(30)) << "six small products take 30 s";
  EXPECT_NEAR(products(1, 0, 1), 7.5, rounding(7.5)) << "each pass has its own rate";
  EXPECT_NEAR(products(0, 2, 0), 24, rounding(24));
  const auto dense = [&] {
    return rates.seconds({Lane::compute, "E", {.flops = 6, .products = {1, 0, 1}, .dense = true}});
  };
  EXPECT_NEAR(dense(), 7.5, rounding(7.5)) << "dense products without rates are priced like grouped products";
  rates.dense[0] = TimeCurve{{{2, 1}, {4, 2}}};
  EXPECT_NEAR(dense(), 3, rounding(3)) << "the pass without a dense rate keeps its grouped rate";
  EXPECT_NEAR(products(1, 0, 1), 7.5, rounding(7.5)) << "grouped products do not use the dense rate";
  TaskSpec between_nodes = exchange(8);
  between_nodes.cost.crosses_nodes = true;
  EXPECT_NEAR(rates.seconds(between_nodes), 8, rounding(8)) << "a group across nodes uses another link";
  TaskSpec hot = exchange(8);
  hot.cost.received_bytes = 10;
  EXPECT_NEAR(rates.seconds(hot), 20, rounding(20)) << "the busier direction determines the time";
  EXPECT_EQ(Rates{}.seconds(exchange(0)), 0) << "zero bytes need no link";
}

TEST(Bursts, BelongToTheLinksOfATask) {
  Rates rates = unit_rates();
  rates.links = {{TaskKind::all_to_all, "ep", 4, false, {{{2, 3}, {4, 9}}}}};
  rates.bursts = {.between_nodes = 7, .within_node = 5};
  TaskSpec task = exchange(4);
  EXPECT_EQ(rates.burst_of(task), 5);
  task.cost.copy_bytes = 10;
  EXPECT_NEAR(rates.seconds(task), 19, rounding(19));
  EXPECT_NEAR(rates.seconds_in_burst(task), 13, rounding(13)) << "the burst does not shorten the copy";
  task.cost.crosses_nodes = true;
  EXPECT_EQ(rates.burst_of(task), 7);
  EXPECT_EQ(rates.burst_of(exchange(0)), 0);
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::usage);
    return e.what();
  }
  return "no error";
}

TEST(Seconds, NameTheMissingAndTheMeasuredRates) {
  Rates rates;
  EXPECT_EQ(error_of([&] { rates.seconds(exchange(1)); }),
            "rates: task 'D0' needs all_to_all of ep, 4 ranks, within a node, which was not measured (measured: no "
            "link); `hexad profile` measures links");
  rates.links = {{TaskKind::all_to_all, "ep", 4, true, TimeCurve::linear(0, 1)},
                 {TaskKind::all_gather, "etp", 2, false, TimeCurve::linear(0, 1)}};
  EXPECT_EQ(error_of([&] { rates.seconds(exchange(1)); }),
            "rates: task 'D0' needs all_to_all of ep, 4 ranks, within a node, which was not measured (measured: "
            "all_to_all of ep, 4 ranks, between nodes; all_gather of etp, 2 ranks, within a node); `hexad profile` "
            "measures links");
  EXPECT_EQ(error_of([&] {
              rates.seconds({Lane::compute, "E0", {.flops = 1}});
            }),
            "rates: task 'E0' has computations, whose speed was not measured; `hexad profile` measures it");
  EXPECT_EQ(error_of([&] {
              rates.seconds({Lane::copy, "M0", {.copy_bytes = 1}, TaskKind::copy});
            }),
            "rates: task 'M0' has copies, whose speed was not measured; `hexad profile` measures it");
  EXPECT_EQ(error_of([&] {
              rates.seconds({Lane::inter, "S", {.wire_bytes = 1}});
            }),
            "rates: task 'S' transfers bytes, but its kind is compute; expected a kind of communication");
}

TEST(RatesCheck, RefusesImpossibleMeasurements) {
  const auto with_compute = [](std::vector<TimeCurve::Point> points) {
    return Rates{.compute = {TimeCurve{std::move(points)}}};
  };
  EXPECT_EQ(error_of([&] {
              with_compute({{2, 1}, {2, 3}}).check();
            }),
            "rates: the sizes of forward products must be finite, above 0 and ascending, but 2 follows 2");
  EXPECT_EQ(error_of([&] {
              with_compute({{0, 1}}).check();
            }),
            "rates: the sizes of forward products must be finite, above 0 and ascending, but 0 follows 0");
  EXPECT_EQ(error_of([&] {
              with_compute({{2, -1}}).check();
            }),
            "rates: forward products: -1 s for size 2; expected a finite time of at least 0 s");
  EXPECT_EQ(
      error_of([&] {
        Rates{.slowdowns = {{Lane::copy, {Lane::inter, Lane::compute}, 0}}}.check();
      }),
      "rates: lane copy runs at 0 times its speed during inter, compute; expected a factor above 0 and at most 1");
  EXPECT_EQ(error_of([&] {
              Rates{.slowdowns = {{Lane::copy, {Lane::inter}, 1.5}}}.check();
            }),
            "rates: lane copy runs at 1.5 times its speed during inter; expected a factor above 0 and at most 1");
  EXPECT_EQ(error_of([&] {
              Rates{.links = {{TaskKind::send, "pp", 2, true, {}}}}.check();
            }),
            "rates: no point was measured for send of pp, 2 ranks, between nodes; expected at least one");
  EXPECT_EQ(error_of([&] {
              Rates{.bursts = {0, -1}}.check();
            }),
            "rates: the burst of a link is -1 s; expected a finite time of at least 0 s");
}

TEST(DefaultRates, PriceExchangesComputationsAndCopies) {
  const Rates rates = Rates::defaults();
  rates.check();
  for (int64_t bytes : {1L, 1L << 14, 1L << 20, 1L << 30}) {
    TaskSpec task = exchange(bytes);
    const double within = rates.seconds(task);
    task.cost.crosses_nodes = true;
    EXPECT_GT(within, 0);
    EXPECT_GT(rates.seconds(task), within) << "networks are slower than memory";
  }
  EXPECT_GT(rates.seconds({Lane::compute, "E", {.flops = 1e9}}), 0);
  EXPECT_GT(rates.seconds({Lane::copy, "M", {.copy_bytes = 1}, TaskKind::copy}), 0);
}

TEST(UnmeasuredLinks, AreNamedOnce) {
  TaskGraph g;
  sends(g, Lane::inter, "D0", 1);
  sends(g, Lane::inter, "D1", 1);
  sends(g, Lane::intra, "G0", 1, {}, TaskKind::all_gather);
  sends(g, Lane::intra, "A0", 0, {}, TaskKind::all_reduce);
  Rates rates = unit_rates();
  rates.links = {{TaskKind::all_gather, "tp", 2, false, TimeCurve::linear(0, 1)}};
  EXPECT_EQ(unmeasured_links(g, rates), std::vector<std::string>{"all_to_all of ep, 2 ranks, within a node"});
  EXPECT_EQ(unmeasured_links(g, {}).size(), 2u);
  EXPECT_EQ(unmeasured_links(g.tasks().front().spec, rates), unmeasured_links(g, rates));
}

TaskSpec computation_with(std::vector<Transfer> transfers) {
  return {Lane::compute, "H", {.flops = 10, .transfers = std::move(transfers)}, TaskKind::compute};
}

TEST(Transfers, AddTheirTimesToTheComputation) {
  Rates rates = unit_rates();
  rates.links = {{TaskKind::all_reduce, "tp", 2, false, TimeCurve::linear(1, 4)},
                 {TaskKind::send, "tp", 4, true, TimeCurve::linear(3, 1)}};
  const double alone = rates.seconds(computation_with({}));
  const Transfer sums{.kind = TaskKind::all_reduce, .wire_bytes = 8, .times = 3, .group = "tp", .group_size = 2};
  const Transfer message{
      .kind = TaskKind::send, .wire_bytes = 5, .group = "tp", .group_size = 4, .crosses_nodes = true};
  EXPECT_DOUBLE_EQ(rates.seconds(computation_with({sums, message})) - alone, 3 * (1 + 8.0 / 4) + (3 + 5));
  TaskGraph g;
  g.add(computation_with({sums, message}), {}, [](Stream&) { return Event{}; });
  EXPECT_TRUE(unmeasured_links(g, rates).empty());
  rates.links.pop_back();
  EXPECT_EQ(unmeasured_links(g, rates), std::vector<std::string>{"send of tp, 4 ranks, between nodes"});
}

}  // namespace
}  // namespace hexad::schedule
