#include "tools/plan/prices.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>

#include "framework/base/error.h"
#include "tests/telemetry/temporary_folder.h"

namespace hexad::plan {
namespace {

using base::Dtype;
using schedule::Lane;
using schedule::LaneSet;
using telemetry::TemporaryFolder;

Cluster shipped(const std::string& name) {
  return load_cluster(HEXAD_SOURCE_DIR "/recipes/clusters/" + name + ".yaml");
}

Cluster load_text(const std::string& yaml) {
  const TemporaryFolder folder;
  telemetry::write_text(folder / "c.yaml", yaml);
  return load_cluster((folder / "c.yaml").string());
}

double tflops(const Product& p, double seconds) { return 2 * p.rows * p.inputs * p.outputs / seconds / 1e12; }
double tflops(const Prices& prices, const Product& p) { return tflops(p, prices.product(p)); }

std::string complaint(const std::function<void()>& f) {
  try {
    f();
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::usage);
    return e.what();
  }
  return "nothing";
}

// Expects that `price` never falls from size 1 to size 2^36, and that the last price is more than twice the first.
void expect_rising(const std::string& what, const std::function<double(double)>& price) {
  double before = 0;
  for (double size = 1; size <= 0x1p36; size *= 1.7) {
    const double seconds = price(size);
    ASSERT_TRUE(std::isfinite(seconds) && seconds > 0) << what << " of " << size;
    ASSERT_GE(seconds, before * (1 - 1e-9)) << what << " of " << size;
    before = seconds;
  }
  EXPECT_GT(before, 2 * price(1)) << what;
}

TEST(Prices, IncreaseWithSizeOnEveryDescribedCluster) {
  int described = 0;
  for (const auto& entry : std::filesystem::directory_iterator(HEXAD_SOURCE_DIR "/recipes/clusters")) {
    const Cluster cluster = load_cluster(entry.path().string());
    if (!cluster.machine) continue;  // measured times are noisy
    ++described;
    const Prices prices(cluster);
    const std::string name = entry.path().filename().string();
    for (const auto& [pass, word] : enum_names(GemmPass{}))
      for (const double groups : {1.0, 32.0}) {
        Product p{.pass = pass, .rows = 4096, .inputs = 2048, .outputs = 1024, .groups = groups};
        expect_rising(name + " rows", [&](double n) { return p.rows = n, prices.product(p); });
        p.rows = 4096;
        expect_rising(name + " inputs", [&](double n) { return p.inputs = n, prices.product(p); });
        p.inputs = 2048;
        expect_rising(name + " outputs", [&](double n) { return p.outputs = n, prices.product(p); });
      }
    for (const AttentionPass pass : {AttentionPass::forward, AttentionPass::backward})
      expect_rising(name + " attention",
                    [&](double n) { return prices.attention({.pass = pass, .flops = n * 1e6, .sequence = 4096}); });
    expect_rising(name + " memory", [&](double n) { return prices.memory_bound(n); });
    for (const auto& [kind, word] : enum_names(CopyKind{}))
      expect_rising(name + " copy", [&, kind = kind](double n) { return prices.copy(kind, n); });
    const int64_t nodes = prices.nodes(), ranks = prices.ranks_per_node();
    for (const auto& [operation, word] : enum_names(Collective{}))
      for (const GroupPlace& place :
           {GroupPlace{ranks, 1, ranks}, {nodes, nodes, 1, ranks}, {nodes * ranks, nodes, ranks}})
        if (place.ranks > 1)
          expect_rising(name + " " + std::string(word),
                        [&, operation = operation](double n) { return prices.collective(operation, place, n); });
  }
  EXPECT_GT(described, 0);
}

TEST(Prices, AreZeroForNoWork) {
  const Prices prices(shipped("h100-dgx"));
  EXPECT_EQ(prices.product({.rows = 0, .inputs = 8, .outputs = 8}), 0);
  EXPECT_EQ(prices.attention({.flops = 0}), 0);
  EXPECT_EQ(prices.memory_bound(0), 0);
  EXPECT_EQ(prices.copy(CopyKind::offload, 0), 0);
  EXPECT_EQ(prices.collective(Collective::all_gather, {8, 1, 8}, 0), 0);
  EXPECT_EQ(prices.collective(Collective::all_gather, {1, 1, 1}, 1e9), 0) << "a group of one sends nothing";
}

TEST(PricesOfH100, DenseProductsRunNearTheirMeasuredRate) {
  const double rate = tflops(Prices(shipped("h100-dgx")), {.rows = 8192, .inputs = 8192, .outputs = 8192});
  std::cout << "8192^3 in bf16: " << rate << " TFLOP/s\n";
  EXPECT_GT(rate, 600);
  EXPECT_LT(rate, 800);
  EXPECT_EQ(rate, tflops(Prices(shipped("one-h100")), {.rows = 8192, .inputs = 8192, .outputs = 8192}));
}

// Compares the prices, which include the factor `sustained` of 0.93, with measured TFLOP/s of grouped products in one
// kernel. The rates are from docs/reports/gpu-h100.md and other measurements of that H100.
TEST(PricesOfH100, GroupedProductsRunNearTheirMeasuredRates) {
  const Prices prices(shipped("h100-dgx"));
  struct Case {
    double rows, inputs, outputs, groups, measured;
  };
  for (const Case& c : {Case{16384, 4096, 14336, 8, 785},
                        {65536, 2048, 768, 128, 581},
                        {262144, 2048, 768, 128, 661},
                        {49152, 2048, 1408, 64, 618},
                        {65536, 2048, 2048, 32, 703},
                        {65536, 1024, 2048, 32, 640},
                        {8191, 2048, 768, 128, 143}}) {
    const double rate = tflops(prices, {.rows = c.rows, .inputs = c.inputs, .outputs = c.outputs, .groups = c.groups});
    EXPECT_NEAR(rate / (0.93 * c.measured), 1, 0.1) << c.rows << " rows, " << c.groups << " groups";
  }
}

// The products alone must be 1 to 1.5 times as fast as the whole layer, which also gathers, weights and combines rows.
// The TFLOP/s of forward and backward are from SonicMoE, arXiv 2512.14080, Fig. 14.
TEST(PricesOfH100, ProductsOfALayerAreUpTo50PercentFasterThanSonicMoe) {
  const Prices prices(shipped("h100-dgx"));
  struct Layer {
    double tokens, hidden, width, experts, top_k, measured;
  };
  for (const Layer& l : {Layer{32768, 4096, 2048, 64, 4, 590},
                         {32768, 4096, 1024, 128, 8, 564},
                         {32768, 4096, 512, 128, 8, 509},
                         {24576, 1536, 512, 64, 4, 436}}) {
    const double rows = l.tokens * l.top_k;
    double seconds = 0;
    for (const auto& [pass, name] : enum_names(GemmPass{})) {
      seconds +=
          prices.product({.pass = pass, .rows = rows, .inputs = l.hidden, .outputs = 2 * l.width, .groups = l.experts});
      seconds +=
          prices.product({.pass = pass, .rows = rows, .inputs = l.width, .outputs = l.hidden, .groups = l.experts});
    }
    const double ratio = 18 * rows * l.hidden * l.width / seconds / 1e12 / l.measured;
    std::cout << "products over SonicMoE's layer of " << l.experts << " experts of " << l.width << ": " << ratio
              << "\n";
    EXPECT_GT(ratio, 1);
    EXPECT_LT(ratio, 1.5);
  }
}

TEST(PricesOfH100, SkewCostsAFewPercent) {
  const Prices prices(shipped("h100-dgx"));
  const Product p{.rows = 65536, .inputs = 2048, .outputs = 2048, .groups = 32};
  EXPECT_EQ(prices.product(p, 2048), prices.product(p))
      << "if all groups are equal, the largest one must not change the price";
  EXPECT_NEAR(prices.product(p, 6 * 2048) / prices.product(p), 1.08, 0.01);
}

TEST(PricesOfH100, SmallResultsDoNotFillTheGpu) {
  const Prices prices(shipped("h100-dgx"));
  EXPECT_LT(tflops(prices, {.rows = 1024, .inputs = 8192, .outputs = 128}), 50);
  EXPECT_GT(tflops(prices, {.rows = 16384, .inputs = 8192, .outputs = 2048}), 600);
}

TEST(PricesOfH100, ExtraBytesAddTheirTime) {
  const Prices prices(shipped("h100-dgx"));
  Product p{.pass = GemmPass::weight_gradient, .rows = 65536, .inputs = 2048, .outputs = 2048, .groups = 32};
  const double plain = prices.product(p);
  p.extra_bytes = 1e9;
  EXPECT_NEAR(prices.product(p) - plain, 1e9 / (3.35e12 * 0.87), 1e-9);
}

// The measured seconds are from a dispatch by all-to-all (arXiv 2603.07685, Table 7). The dispatch sends 4096 tokens of
// 7168 bf16 elements with 8 experts each.
TEST(PricesOfH100, AllToAllsAreWithin40PercentOfHybridEpsTable) {
  const Prices prices(shipped("h100-dgx"));
  for (const auto& [ranks, measured] : {std::pair{8, 1265e-6}, {16, 5774e-6}, {32, 8059e-6}, {64, 9164e-6}}) {
    const double sent = 4096.0 * 8 * 7168 * 2 * (ranks - 1) / ranks;
    const double ratio = prices.collective(Collective::all_to_all, {ranks, ranks / 8, 8}, sent) / measured;
    std::cout << "all-to-all, EP " << ranks << ": " << ratio << " of the table\n";
    EXPECT_NEAR(ratio, 1, 0.4) << "EP " << ranks;
  }
}

TEST(PricesOfH100, RingsReachTheirMeasuredBusBandwidth) {
  const Prices prices(shipped("h100-dgx"));  // NCCL issue 2169: 335 GB/s on four GPUs
  EXPECT_NEAR(4e9 / prices.collective(Collective::all_gather, {4, 1, 4}, 4e9) / 335e9, 1, 0.1);
}

TEST(PricesOfMonta, MatchTable8) {
  const Prices prices(shipped("monta-a800"));
  const auto all_to_all = [&](double volume) {
    return 1e3 * prices.collective(Collective::all_to_all, {2, 2, 1, 8}, volume / 2);
  };
  const auto all_gather = [&](double volume) {
    return 1e3 * prices.collective(Collective::all_gather, {8, 1, 8}, volume * 7 / 8);
  };
  EXPECT_NEAR(all_to_all(256e6), 6.909, 0.001);
  EXPECT_NEAR(all_to_all(32e6), 1.012, 0.001);
  EXPECT_NEAR(all_to_all(8e6), 0.374, 0.001);
  EXPECT_NEAR(all_gather(256e6), 1.443, 0.001);
  EXPECT_NEAR(all_gather(64e6), 0.385, 0.001);
}

TEST(PricesOfLinks, StayInsideADomainOfSeveralNodes) {
  const Prices racks(shipped("gb200-nvl72")), boxes(shipped("b200-dgx"));
  const double bytes = 400e6;
  EXPECT_GT(boxes.collective(Collective::all_to_all, {64, 8, 8}, bytes),
            5 * racks.collective(Collective::all_to_all, {64, 16, 4}, bytes));
  EXPECT_GT(racks.collective(Collective::all_to_all, {144, 36, 4}, bytes),
            3 * racks.collective(Collective::all_to_all, {72, 18, 4}, bytes))
      << "two racks exchange over the network, one rack does not";
}

TEST(PricesOfLinks, ShareTheAdaptersOfANode) {
  const auto price = [](const std::string& cluster, int64_t groups) {
    return Prices(shipped(cluster)).collective(Collective::send, {4, 4, 1, groups}, 1e9);
  };
  EXPECT_NEAR(price("mpmoe-valor", 4) / price("mpmoe-valor", 1), 4, 0.01) << "the ranks of a node share one adapter";
  EXPECT_EQ(price("mpmoe-adira", 4), price("mpmoe-adira", 1)) << "each rank has its own adapter";
}

TEST(PricesOfLinks, AllReduceIsAReduceScatterAndAnAllGather) {
  const Prices prices(shipped("h100-dgx"));
  const GroupPlace place{64, 8, 8};
  const double both =
      prices.collective(Collective::reduce_scatter, place, 1e9) + prices.collective(Collective::all_gather, place, 1e9);
  const double sum = prices.collective(Collective::all_reduce, place, 2e9);
  EXPECT_LE(sum, both);
  EXPECT_GT(sum, 0.9 * both);
}

TEST(PricesOfLinks, IncludeOversubscriptionBeyondALeafSwitch) {
  Cluster cluster = shipped("h100-dgx");
  cluster.machine->topology.oversubscription = 2;
  const Prices prices(cluster);
  const auto send = [&](int64_t nodes) { return prices.collective(Collective::send, {nodes, nodes, 1, 8}, 1e9); };
  EXPECT_NEAR(send(33) / send(32), 2, 0.01);
}

TEST(Slowdowns, FollowFromTheSmsOfCommunication) {
  Cluster cluster = shipped("h100-dgx");
  const Prices prices(cluster);
  EXPECT_DOUBLE_EQ(prices.slowdown(Lane::compute, {Lane::inter}), 1 - 20.0 / 132);
  EXPECT_DOUBLE_EQ(prices.slowdown(Lane::intra, {Lane::compute}), 0.9);
  EXPECT_DOUBLE_EQ(prices.slowdown(Lane::compute, {Lane::copy}), 0.875);
  EXPECT_DOUBLE_EQ(prices.slowdown(Lane::copy, {Lane::inter}), 1);
  EXPECT_LT(prices.slowdown(Lane::compute, {Lane::inter, Lane::copy}), 1 - 20.0 / 132);
  cluster.slowdowns = {{Lane::compute, {Lane::inter}, 0.5}};
  EXPECT_DOUBLE_EQ(Prices(cluster).slowdown(Lane::compute, {Lane::inter}), 0.5)
      << "the file's slowdown takes precedence";
  EXPECT_DOUBLE_EQ(Prices(cluster).slowdown(Lane::compute, {Lane::intra}), 1 - 20.0 / 132);
}

TEST(SpeedOfShare, EqualsTheSpeedOfItsThreadsOrMultiprocessors) {
  EXPECT_DOUBLE_EQ(Prices(shipped("h100-dgx")).speed_of_share(0.25, Dtype::bf16), 0.25);
  Cluster cluster = default_cluster(1, 2);
  EXPECT_DOUBLE_EQ(Prices(cluster).speed_of_share(0.5, Dtype::f32), 1) << "a single thread cannot be shared";
  cluster.measured.threads = 4, cluster.fewer_threads = {{2, 0.6}};
  EXPECT_DOUBLE_EQ(Prices(cluster).speed_of_share(0.5, Dtype::f32), 0.6);
}

TEST(Cores, AreThoseThatTheClusterStates) {
  EXPECT_FALSE(Prices(shipped("h100-dgx")).cores(8));
  Cluster cluster = default_cluster(1, 4);
  EXPECT_FALSE(Prices(cluster).cores(4));
  cluster.measured.node_cores = 2, cluster.measured.waiting = 0.5;
  const auto cores = Prices(cluster).cores(3);
  ASSERT_TRUE(cores);
  EXPECT_EQ(cores->cores, 2);
  EXPECT_EQ(cores->ranks, 3);
  EXPECT_EQ(cores->measured_ranks, 4);
  EXPECT_EQ(cores->waiting, 0.5);
}

// Profile of 2 nodes with 2 ranks each, with numbers that are easy to divide.
const std::string measured = R"(measured: {nodes: 2, ranks_per_node: 2}
links:
  - {operation: all_to_all, group: intra, ranks: 2, nodes: 1, points: [[4096, 0.001], [8192, 0.0015]]}
  - {operation: all_to_all, group: all, ranks: 4, nodes: 2, points: [[4096, 0.004], [8192, 0.0045]]}
products:
  - {element: f32, pass: forward, experts: 8, inputs: 10, outputs: 50, points: [[16, 8e-5], [32, 16e-5]]}
  - {element: f32, pass: weight_gradient, experts: 8, inputs: 10, outputs: 50, points: [[16, 24e-5], [32, 48e-5]]}
  - {element: f32, pass: forward, experts: 1, inputs: 20, outputs: 50, points: [[16, 1e-4], [32, 2e-4]]}
copies:
  - {kind: copy, points: [[65536, 1e-5], [131072, 2e-5]]}
slowdowns:
  - {of: compute, beside: [inter], speed: 0.75}
)";

TEST(PricesOfMeasurements, PeakIsTheHighestMeasuredRate) {
  const auto with_peak = [](double rate) {
    return Prices(load_text(measured + fmt::format("peaks:\n  - {{element: f32, flops_per_second: {}}}\n", rate)));
  };
  // 16 rows of the product of one expert are 32,000 FLOPs and take 1e-4 s.
  EXPECT_DOUBLE_EQ(Prices(load_text(measured)).peak(Dtype::f32), 3.2e8);
  EXPECT_DOUBLE_EQ(with_peak(5e8).peak(Dtype::f32), 5e8);
  EXPECT_DOUBLE_EQ(with_peak(1e8).peak(Dtype::f32), 3.2e8) << "a product was faster than the measured peak";
  EXPECT_EQ(with_peak(5e8).peak(Dtype::bf16), 0) << "not measured";
}

TEST(PricesOfMeasurements, FollowTheMeasuredCurves) {
  const Prices prices(load_text(measured));
  const auto product = [&](GemmPass pass, double rows, double outputs, double groups) {
    return prices.product(
        {.dtype = Dtype::f32, .pass = pass, .rows = rows, .inputs = 10, .outputs = outputs, .groups = groups});
  };
  // Two rows of one of the 8 experts take 1e-5 s.
  EXPECT_DOUBLE_EQ(product(GemmPass::forward, 16, 50, 8), 8e-5);
  EXPECT_DOUBLE_EQ(product(GemmPass::forward, 8, 50, 4), 4e-5) << "half as many experts take half the time";
  EXPECT_DOUBLE_EQ(product(GemmPass::weight_gradient, 16, 50, 8), 24e-5);
  EXPECT_DOUBLE_EQ(product(GemmPass::input_gradient, 16, 50, 8), 8e-5)
      << "an unmeasured pass takes the time of a measured one";
  EXPECT_DOUBLE_EQ(product(GemmPass::forward, 16, 50, 1), 0.5e-4)
      << "a dense product takes half the time of that measured with one expert, which has twice the weight";
  EXPECT_DOUBLE_EQ(product(GemmPass::forward, 16, 25, 8), 4e-5) << "half the weight takes half the time";
  EXPECT_DOUBLE_EQ(prices.memory_bound(131072), 1e-5) << "a copy reads and writes its bytes";
  EXPECT_DOUBLE_EQ(prices.copy(CopyKind::copy, 65536), 1e-5);
  EXPECT_DOUBLE_EQ(prices.copy(CopyKind::gather, 65536), 1e-5);
  EXPECT_DOUBLE_EQ(prices.collective(Collective::all_to_all, {2, 1, 2}, 4096), 0.001);
  EXPECT_DOUBLE_EQ(prices.collective(Collective::all_to_all, {4, 2, 2}, 8192), 0.0045);
  EXPECT_DOUBLE_EQ(prices.slowdown(Lane::compute, {Lane::inter}), 0.75);
  // The largest product takes 1e-4 s for 2 x 16 x 1000 FLOP. Attention has half the product's rate.
  EXPECT_DOUBLE_EQ(prices.attention({.dtype = Dtype::f32, .flops = 32000}), 2e-4);
  EXPECT_EQ(prices.nodes(), 2);
  EXPECT_EQ(prices.ranks_per_node(), 2);
}

TEST(PricesOfMeasurements, UseTheDescriptionForUnmeasuredPrices) {
  const Prices prices(load_text(measured + R"(machine:
  nodes: 2
  ranks_per_node: 2
  memory: 8GB
  peak: {bf16: 100e12}
  sms: 10
  memory_bandwidth: 1e12
  inside: {bandwidth: 10e9}
  network: {bandwidth: 1e9}
)"));
  EXPECT_GT(prices.product({.rows = 16, .inputs = 10, .outputs = 50}), 0)
      << "bf16 was not measured, so the description gives its price";
  EXPECT_DOUBLE_EQ(prices.copy(CopyKind::copy, 65536), 1e-5) << "copies are priced as measured";
  EXPECT_GT(prices.copy(CopyKind::offload, 65536), 0);
  EXPECT_DOUBLE_EQ(prices.collective(Collective::all_to_all, {2, 1, 2}, 4096), 0.001);
}

TEST(Prices, NameTheMissingRate) {
  EXPECT_EQ(complaint([] { Prices{Cluster{}}; }),
            "the cluster has neither measurements nor a section machine; measure with hexad profile, or add a section "
            "machine");
  const Prices attention_only(load_text(
      "measured: {nodes: 1, ranks_per_node: 1}\n"
      "attention: [{element: f32, pass: forward, heads: 8, head_size: 64, points: [[64, 1e-4], [128, 3e-4]]}]\n"));
  EXPECT_GT(attention_only.attention({.dtype = Dtype::f32, .flops = 32000, .sequence = 64}), 0);
  EXPECT_EQ(complaint([&] { attention_only.memory_bound(1); }),
            "the cluster has no measured copies and no section machine; measure with hexad profile, or add a section "
            "machine");
  const Prices kernels_only(
      load_text("measured: {nodes: 1, ranks_per_node: 1}\n"
                "kernels: [{class: norm, element: f32, points: [[4096, 1e-5], [8192, 2e-5]]}]\n"));
  EXPECT_DOUBLE_EQ(kernels_only.kernel(KernelClass::norm, Dtype::f32, 4096), 1e-5);
  const Prices prices(load_text(measured));
  EXPECT_EQ(complaint([&] { prices.product({.rows = 1, .inputs = 1, .outputs = 1}); }),
            "the cluster has no measured products of bf16 and no section machine; measure with hexad profile, or add a "
            "section machine");
  EXPECT_EQ(
      complaint([&] { prices.product({.dtype = Dtype::f64, .rows = 1, .inputs = 1, .outputs = 1}); }),
      "the cluster has no section machine, which predictions of f64 need, because hexad profile measures only f32 "
      "and bf16; add this section, or predict with train.precision=f32");
  EXPECT_EQ(complaint([&] { prices.copy(CopyKind::offload, 1); }),
            "the cluster has no measured offload copies and no section machine; measure with hexad profile, or add a "
            "section machine");
  EXPECT_EQ(complaint([&] {
              prices.collective(Collective::all_reduce, {2, 1, 2}, 1);
            }),
            "the cluster has no measured all_reduce for a group of 2 ranks on 1 node; to measure it, run hexad profile "
            "on such ranks");
  Cluster h100 = shipped("one-h100");
  h100.machine->peak.f64.reset();
  EXPECT_EQ(complaint([&] { Prices(h100).product({.dtype = Dtype::f64, .rows = 1, .inputs = 1, .outputs = 1}); }),
            "the cluster has no machine.peak.f64; add it, in FLOP/s, from the data sheet of the processor");
}

TEST(Assumptions, AreNamedForMeasuredAndDescribedClusters) {
  const auto has = [](const Cluster& cluster, const std::string& part) {
    int found = 0;
    for (const std::string& a : assumptions(cluster)) found += a.find(part) != a.npos;
    return found;
  };
  const Cluster profile = load_text(measured);
  EXPECT_EQ(has(profile, "attention in f32: half the rate"), 1);
  EXPECT_EQ(has(profile, "dense products"), 0) << "dense products were measured with one expert";
  EXPECT_EQ(has(profile, "gather: priced like the measured copy"), 1);
  EXPECT_EQ(has(default_cluster(1, 2), "a default machine"), 1);
  Cluster forward_only = default_cluster(1, 2);
  EXPECT_EQ(has(forward_only, "passes that were not measured"), 0);
  std::erase_if(forward_only.products, [](const MeasuredProduct& p) { return p.pass != GemmPass::forward; });
  EXPECT_EQ(has(forward_only, "passes that were not measured"), 2) << "of f32 and of bf16";
  Cluster without_slowdowns = profile;
  without_slowdowns.slowdowns.clear();
  EXPECT_EQ(has(without_slowdowns, "slowdowns: none, because none was measured"), 1);
  EXPECT_EQ(has(profile, "slowdowns"), 0);
  Cluster described = profile;
  EXPECT_EQ(has(described, "an operation takes no time"), 1);
  described.machine = shipped("one-h100").machine;
  EXPECT_EQ(has(described, "an operation takes no time"), 0) << "the description has the host's time";
  EXPECT_TRUE(assumptions(shipped("h100-dgx")).empty());
  EXPECT_EQ(has(shipped("mpmoe-adira"), "operation: 3.8 us of host time for each operation"), 1);
  EXPECT_EQ(has(shipped("mpmoe-adira"), "host_memory"), 0) << "the file gives this value";
  EXPECT_EQ(has(shipped("one-h100"), "host_memory: none for offloading"), 1);
  EXPECT_EQ(has(shipped("mpmoe-adira"), "as measured on one H100"), 7)
      << "one each for sustained, dense, grouped, attention, memory, launch and contention";
}

}  // namespace
}  // namespace hexad::plan
