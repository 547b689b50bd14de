#include "tools/plan/cluster.h"
#include "framework/base/ordinal.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "framework/base/error.h"
#include "tests/telemetry/temporary_folder.h"

namespace hexad::plan {
namespace {

using schedule::Lane;
using schedule::LaneSet;
using schedule::TaskKind;
using telemetry::TemporaryFolder;

// Profile of 2 nodes with 4 ranks each. The seconds of every link differ, so that tests can identify the link that was
// used.
const std::string text = R"(measured: {date: "2025-01-01T00:00:00Z", hexad: 0.1.0, nodes: 2, ranks_per_node: 4}
links:
  - {operation: all_to_all, group: intra, ranks: 2, nodes: 1, points: [[4096, 0.001], [8192, 0.0015]]}
  - {operation: all_to_all, group: intra, ranks: 4, nodes: 1, points: [[4096, 0.002], [8192, 0.0025]]}
  - {operation: all_to_all, group: inter, ranks: 2, nodes: 2, points: [[4096, 0.003], [8192, 0.0035]]}
  - {operation: all_to_all, group: all, ranks: 8, nodes: 2, points: [[4096, 0.004], [8192, 0.0045]]}
products:
  - {element: f32, pass: forward, experts: 8, inputs: 10, outputs: 50, points: [[16, 1e-5], [32, 2e-5]]}
  - {element: f32, pass: weight_gradient, experts: 8, inputs: 10, outputs: 50, points: [[16, 3e-5], [32, 6e-5]]}
  - {element: f32, pass: forward, experts: 4, inputs: 100, outputs: 50, points: [[16, 8e-5], [32, 16e-5]]}
  - {element: bf16, pass: forward, experts: 8, inputs: 10, outputs: 50, points: [[16, 4e-6], [32, 5e-6]]}
copies:
  - {kind: copy, points: [[65536, 1e-5], [131072, 2e-5]]}
  - {kind: offload, points: [[65536, 1e-4], [131072, 2e-4]]}
slowdowns:
  - {of: compute, beside: [inter], speed: 0.75}
  - {of: inter, beside: [compute], speed: 1.02}
  - {of: compute, beside: [inter, copy], speed: 0.5}
)";

Cluster load_text(const std::string& yaml) {
  const TemporaryFolder folder;
  telemetry::write_text(folder / "c.yaml", yaml);
  return load_cluster((folder / "c.yaml").string());
}

// Replaces `was` by `is` in `text`, and loads the result. Returns the error message without the temporary folder, or
// "accepted" if there is no error.
std::string refusal(const std::string& was, const std::string& is) {
  std::string changed = text;
  const size_t at = changed.find(was);
  if (at == changed.npos) return "the test's own text has no " + was;
  changed.replace(at, was.size(), is);
  try {
    load_text(changed);
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::usage);
    const std::string message = e.what();
    return message.substr(message.find("c.yaml"));
  }
  return "accepted";
}

TEST(Cluster, RoundTripsThroughItsFile) {
  const Cluster cluster = load_text(text);
  const std::string written = to_yaml(cluster);
  EXPECT_EQ(to_yaml(load_text(written)), written);
  EXPECT_EQ(cluster.measured.ranks_per_node, 4);
  ASSERT_EQ(cluster.links.size(), 4u);
  EXPECT_EQ(cluster.links[2].group, GroupKind::inter);
  EXPECT_EQ(cluster.links[2].points, Curve({{4096, 0.003}, {8192, 0.0035}}));
  ASSERT_EQ(cluster.products.size(), 4u);
  EXPECT_EQ(cluster.products[1].pass, GemmPass::weight_gradient);
  ASSERT_EQ(cluster.slowdowns.size(), 3u);
  EXPECT_EQ(cluster.slowdowns[2].beside, (std::vector{Lane::inter, Lane::copy}));
}

TEST(Cluster, BadFilesAreRefusedWithTheLine) {
  EXPECT_EQ(refusal("group: inter, ranks: 2, nodes: 2", "group: outer, ranks: 2, nodes: 2"),
            "c.yaml:5: links.2.group (outer) must be one of intra, inter, all");
  EXPECT_EQ(refusal("group: intra, ranks: 2, nodes: 1", "group: intra, ranks: 2, nodes: 2"),
            "c.yaml:3: links.0.nodes (2) must be 1 for the group intra; nearest: 1");
  EXPECT_EQ(refusal("group: inter, ranks: 2", "group: inter, ranks: 4"),
            "c.yaml:5: links.2.nodes (2) must be equal to ranks (4) for the group inter; nearest: 4");
  EXPECT_EQ(
      refusal("group: all, ranks: 8, nodes: 2", "group: all, ranks: 8, nodes: 1"),
      "c.yaml:6: links.3.nodes (1) must be at least 2 for the group all; for ranks of one node, set the group intra");
  EXPECT_EQ(refusal("group: all, ranks: 8", "group: all, ranks: 7"),
            "c.yaml:6: links.3.ranks (7) must be divisible by nodes (2); nearest: 6, 8");
  EXPECT_EQ(refusal("[8192, 0.0015]", "[4096, 0.0015]"),
            "c.yaml:3: links.0.points.1 (a list) must have a larger x than the previous point");
  EXPECT_EQ(refusal("[[4096, 0.004], [8192, 0.0045]]", "0.004"),
            "c.yaml:6: links.3.points (0.004) must be a list of points [[size, seconds], ...]");
  EXPECT_EQ(refusal("[[65536, 1e-5]", "[[-1, 1e-5]"),
            "c.yaml:13: copies.0.points ([[-1, 1e-05], [131072, 2e-05]]) must have sizes above 0, but the first is -1; "
            "remove this point");
  EXPECT_EQ(refusal("beside: [inter, copy]", "beside: [inter, compute]"),
            "c.yaml:18: slowdowns.2.beside ([inter, compute]) must list each lane once, and must not list compute, "
            "which is `of`");
  EXPECT_EQ(refusal("speed: 0.75", "speed: 0"), "c.yaml:16: slowdowns.0.speed (0) must be greater than 0");
  EXPECT_EQ(refusal("kind: offload", "knd: offload"),
            "c.yaml:14: copies.1.knd is not a key; did you mean kind?; keys of copies.1: kind, points");
}

TEST(Cluster, CurvesInOtherUnitsAreRefused) {
  EXPECT_EQ(refusal("[[4096, 0.001], [8192, 0.0015]]", "[[4096, 1000], [8192, 1500]]"),
            "c.yaml:3: links.0.points.1.1 (1500) must be at most 0.8192 seconds for the size 8192, which is a rate of "
            "10000 bytes/s; nearest: 0.8192; if the value is in microseconds, write 0.0015");
  EXPECT_EQ(
      refusal("[[16, 1e-5], [32, 2e-5]]", "[[16, 10], [32, 20]]"),
      "c.yaml:8: products.0.points.0.1 (10) must be at most 0.016 seconds for the size 16, which is a rate of 1e+06 "
      "FLOP/s; nearest: 0.016; if the value is in microseconds, write 1e-05");
  EXPECT_EQ(refusal("[[65536, 1e-5], [131072, 2e-5]]", "[[65536, 1e-12], [131072, 2e-12]]"),
            "c.yaml:13: copies.0.points.0.1 (1e-12) must be at least 6.554e-10 seconds for the size 65536, which is a "
            "rate of 1e+14 bytes/s; nearest: 6.554e-10");
}

TEST(Cluster, CurvesThatFallAreRefused) {
  EXPECT_EQ(refusal("[8192, 0.0015]", "[8192, 0.00049]"),
            "c.yaml:3: links.0.points.1.1 (0.00049) must be at least 0.0005 seconds, 1/2 of the 0.001 seconds for the "
            "smaller size 4096, because the noise of a measurement is smaller; nearest: 0.0005");
  EXPECT_EQ(refusal("[8192, 0.0015]", "[8192, 0.0005]"), "accepted") << "noise of a measurement";
  EXPECT_EQ(refusal("[[4096, 0.001], [8192, 0.0015]]", "[[4096, 0.00123446], [8192, 0.0006]]"),
            "c.yaml:3: links.0.points.1.1 (0.0006) must be at least 0.00061723 seconds, 1/2 of the 0.00123446 seconds "
            "for the smaller size 4096, because the noise of a measurement is smaller; nearest: 0.00061723")
      << "four digits would round to a number that is refused";
  EXPECT_EQ(refusal("[[4096, 0.001], [8192, 0.0015]]", "[[4096, 0.00123446], [8192, 0.00061723]]"), "accepted");
  EXPECT_EQ(refusal("[[16, 1e-5], [32, 2e-5]]", "[[16, 1e-5], [32, 2e-5], [64, 9e-6]]"),
            "c.yaml:8: products.0.points.2.1 (9e-06) must be at least 1e-05 seconds, 1/2 of the 2e-05 seconds for the "
            "smaller size 32, because the noise of a measurement is smaller; nearest: 1e-05");
}

TEST(Cluster, RepeatedMeasurementsAreRefused) {
  EXPECT_EQ(refusal("kind: offload", "kind: copy"),
            "c.yaml:14: copies.1.kind (copy) must not repeat the kind of copies.0; remove one of the two");
  EXPECT_EQ(
      refusal("group: intra, ranks: 4", "group: intra, ranks: 2"),
      "c.yaml:4: links.1.operation (all_to_all) must not repeat the operation, group, ranks and nodes of links.0; "
      "remove one of the two");
  EXPECT_EQ(refusal("pass: weight_gradient", "pass: forward"),
            "c.yaml:9: products.1.element (f32) must not repeat the element, pass, experts, inputs and outputs of "
            "products.0; remove one of the two");
  EXPECT_EQ(refusal("beside: [inter, copy]", "beside: [inter]"),
            "c.yaml:18: slowdowns.2.of (compute) must not repeat the lanes of slowdowns.0; remove one of the two");
}

TEST(Cluster, GroupsBeyondTheMeasuredRanksAreRefused) {
  EXPECT_EQ(refusal("group: intra, ranks: 4", "group: intra, ranks: 8"),
            "c.yaml:4: links.1.ranks (8) must be at most nodes x measured.ranks_per_node (4); nearest: 4");
  EXPECT_EQ(refusal("group: inter, ranks: 2, nodes: 2", "group: inter, ranks: 3, nodes: 3"),
            "c.yaml:5: links.2.nodes (3) must be at most measured.nodes (2); nearest: 2");
}

TEST(Cluster, PositionOfAKeyIsThatOfTheInnermostSectionOfTheFile) {
  const TemporaryFolder folder;
  telemetry::write_text(folder / "c.yaml", "measured: {nodes: 2}\nmachine:\n  nodes: 4\n  peak: {bf16: 1e12}\n");
  const std::string path = (folder / "c.yaml").string();
  EXPECT_EQ(position_in_cluster(path, {}, "machine.nodes"), path + ":3");
  EXPECT_EQ(position_in_cluster(path, {}, "machine.peak.f64"), path + ":4") << "the file has no f64";
  EXPECT_EQ(position_in_cluster(path, {}, "machine.network"), path + ":2");
  EXPECT_EQ(position_in_cluster(path, {}, "links"), path);
  EXPECT_EQ(position_in_cluster(path, {}, ""), path);
  EXPECT_EQ(position_in_cluster(path, {"machine.nodes=3"}, "machine.nodes"), "command line: cluster.machine.nodes=3");
}

TEST(Cluster, ProblemsOfOverridesNameTheKeyOfTheCommandLine) {
  const TemporaryFolder folder;
  telemetry::write_text(folder / "c.yaml", text);
  try {
    load_cluster((folder / "c.yaml").string(), {"operaton=1"});
    FAIL() << "expected an error, because operaton is not a key";
  } catch (const base::Error& e) {
    const std::string_view message = e.what();
    EXPECT_TRUE(message.starts_with("command line: cluster.operaton=1: operaton is not a key")) << message;
  }
}

TEST(Cluster, LinksWhoseRateCollapsesAreRefused) {
  const std::string points = "[[4096, 0.001], [8192, 0.0015]]";
  EXPECT_EQ(
      refusal(points, "[[4096, 0.001], [8192, 0.3]]"),
      "c.yaml:3: links.0.points.1.1 (0.3) must be at most 100 times the seconds that the rate of a smaller message "
      "gives (4.096e+06 bytes/s at 4096 bytes); nearest: 0.2");
  EXPECT_EQ(refusal(points, "[[4096, 0.001], [8192, 0.1]]"), "accepted") << "a small message fits a burst";
  EXPECT_EQ(
      refusal(points, "[[4096, 0.001], [1048576, 0.01], [2097152, 0.17]]"),
      "c.yaml:3: links.0.points.2.1 (0.17) must be at most 8 times the seconds that the rate of a smaller message "
      "gives (1.049e+08 bytes/s at 1.04858e+06 bytes); nearest: 0.16");
  EXPECT_EQ(refusal(points, "[[4096, 0.001], [1048576, 0.01], [2097152, 0.15]]"), "accepted");
}

// Returns the text of the cluster with four threads per rank, `fewer` as its fewer_threads, and a capped slowdown.
std::string with_threads(const std::string& fewer) {
  std::string changed = text;
  const std::string ranks = "ranks_per_node: 4";
  changed.insert(changed.find(ranks) + ranks.size(), ", threads: 4");
  return changed + "fewer_threads: " + fewer + "\ncapped_slowdowns:\n  - {of: compute, beside: [inter], speed: 0.98}\n";
}

TEST(Cluster, HasSpeedsOnFewerThreads) {
  const Cluster cluster = load_text(with_threads("[{threads: 1, speed: 0.25}, {threads: 3, speed: 0.75}]"));
  const std::string written = to_yaml(cluster);
  EXPECT_EQ(to_yaml(load_text(written)), written);
  const schedule::Rates rates = rates_of(cluster, {.groups = {}});
  EXPECT_EQ(rates.speed_of_threads, (std::vector{0.25, 0.5, 0.75, 1.0}));
  EXPECT_EQ(rates.alpha(Lane::compute, {Lane::inter}), 0.75);
  EXPECT_EQ(rates.alpha(Lane::compute, {Lane::inter}, true), 0.98);
  EXPECT_EQ(rates_of(load_text(with_threads("[]")), {.groups = {}}).speed_of_threads,
            (std::vector{0.25, 0.5, 0.75, 1.0}))
      << "without measurements, the speed is proportional to the number of threads";
}

TEST(Cluster, BadNumbersOfFewerThreadsAreRefusedWithTheNearestLegalOne) {
  const auto refused = [](int threads, const std::string& fewer) {
    return refusal("ranks_per_node: 4}",
                   base::cat("ranks_per_node: 4, threads: ", threads, "}\nfewer_threads: [", fewer, "]"));
  };
  EXPECT_EQ(refused(4, "{threads: 4, speed: 0.9}"),
            "c.yaml:2: fewer_threads.0.threads (4) must be less than measured.threads (4); nearest: 3");
  EXPECT_EQ(refused(4, "{threads: 2, speed: 0.5}, {threads: 2, speed: 0.6}"),
            "c.yaml:2: fewer_threads.1.threads (2) must be above the previous number (2); nearest: 3");
  EXPECT_EQ(refused(4, "{threads: 3, speed: 0.5}, {threads: 3, speed: 0.6}"),
            "c.yaml:2: fewer_threads.1.threads (3) must be above 3 and less than measured.threads (4), which no number "
            "is; remove this entry");
  EXPECT_EQ(refused(1, "{threads: 1, speed: 0.9}"),
            "c.yaml:2: fewer_threads.0.threads (1) must be above 0 and less than measured.threads (1), which no number "
            "is; remove this entry");
}

TEST(Cluster, HasTheCoresThatRanksShare) {
  EXPECT_FALSE(rates_of(load_text(text), {.groups = {}}).cores) << "the profile does not have the number of cores";
  std::string changed = text;
  const std::string ranks = "ranks_per_node: 4";
  changed.insert(changed.find(ranks) + ranks.size(), ", threads: 2, node_cores: 3, by: one_rank, waiting: 0.25");
  const Cluster cluster = load_text(changed);
  const std::string written = to_yaml(cluster);
  EXPECT_EQ(to_yaml(load_text(written)), written);
  const auto cores = rates_of(cluster, {.groups = {}}).cores;
  ASSERT_TRUE(cores);
  EXPECT_EQ(cores->cores, 3);
  EXPECT_EQ(cores->ranks, 4);
  EXPECT_EQ(cores->measured_ranks, 4);
  EXPECT_EQ(cores->threads, 2);
  EXPECT_EQ(cores->waiting, 0.25);
  EXPECT_EQ(cores->by, schedule::MeasuredBy::one_rank);
  EXPECT_EQ(rates_of(cluster, {.groups = {}, .ranks_per_node = 2}).cores->ranks, 2);
  EXPECT_EQ(rates_of(cluster, {.groups = {}, .ranks_per_node = 2}).cores->measured_ranks, 4);
}

TEST(Cluster, BadCoresAreRefused) {
  const std::string ranks = "ranks_per_node: 4";
  EXPECT_EQ(refusal(ranks, ranks + ", waiting: 0.5"),
            "c.yaml:1: measured.waiting (0.5) must be 0 unless measured.node_cores is set");
  EXPECT_EQ(refusal(ranks, ranks + ", by: one_rank"),
            "c.yaml:1: measured.by (one_rank) must be all_ranks unless measured.node_cores is set");
  EXPECT_EQ(refusal(ranks, ranks + ", node_cores: 0"), "c.yaml:1: measured.node_cores (0) must be at least 1");
  EXPECT_EQ(refusal(ranks, ranks + ", node_cores: 2, by: nobody"),
            "c.yaml:1: measured.by (nobody) must be one of all_ranks, one_rank");
}

TEST(Cluster, HasTheBurstsOfItsLinks) {
  const std::string bursts = "bursts: [{group: inter, seconds: 0.03}, {group: intra, seconds: 0.004}]\n";
  Cluster cluster = load_text(text + bursts);
  const std::string written = to_yaml(cluster);
  EXPECT_EQ(to_yaml(load_text(written)), written);
  const schedule::Rates rates = rates_of(cluster, {.groups = {}, .inputs = 10, .outputs = 40});
  EXPECT_EQ(rates.bursts.between_nodes, 0.03);
  EXPECT_EQ(rates.bursts.within_node, 0.004);
  cluster.bursts.clear();
  EXPECT_EQ(rates_of(cluster, {.groups = {}, .inputs = 10, .outputs = 40}).bursts.between_nodes, 0);
}

TEST(Cluster, BadBurstsAreRefused) {
  const std::string last = "speed: 0.5}\n";
  EXPECT_EQ(refusal(last, last + "bursts: [{group: all, seconds: 0.03}]\n"),
            "c.yaml:19: bursts.0.group (all) must be inter or intra; to set both, list two bursts");
  EXPECT_EQ(refusal(last, last + "bursts: [{seconds: 0.03}, {group: inter, seconds: 0.1}]\n"),
            "c.yaml:19: bursts.1.group (inter) must not repeat the group of an earlier burst; remove one of the two");
  EXPECT_EQ(refusal(last, last + "bursts: [{group: intra, seconds: -1}]\n"),
            "c.yaml:19: bursts.0.seconds (-1) must be at least 0");
}

TEST(NearestLink, MatchesTheKindBeforeTheSize) {
  const Cluster cluster = load_text(text);
  const auto first_seconds = [&](int64_t ranks, int64_t nodes) {
    const MeasuredLink* link = nearest_link(cluster, Collective::all_to_all, {"ep", ranks, nodes});
    return link ? link->points.points.front().y : 0;
  };
  EXPECT_EQ(first_seconds(2, 1), 0.001);
  EXPECT_EQ(first_seconds(4, 1), 0.002);
  EXPECT_EQ(first_seconds(3, 1), 0.002) << "the ratio of 3 to 4 is nearer to 1 than that of 3 to 2";
  EXPECT_EQ(first_seconds(8, 1), 0.002);
  EXPECT_EQ(first_seconds(2, 2), 0.003);
  EXPECT_EQ(first_seconds(16, 16), 0.003) << "groups with one rank on each node use the link inter";
  EXPECT_EQ(first_seconds(4, 2), 0.004) << "groups with several ranks on each node use the link all";
  EXPECT_EQ(first_seconds(32, 8), 0.004);
  EXPECT_EQ(nearest_link(cluster, Collective::all_reduce, {"dp", 2, 1}), nullptr);
}

TEST(NearestLink, MayBeOfTheOtherKindBetweenNodesOnly) {
  Cluster cluster = load_text(text);
  const MeasuredLink inter = cluster.links[2], all = cluster.links[3];
  cluster.links = {all};
  EXPECT_EQ(nearest_link(cluster, Collective::all_to_all, {"ep", 2, 2}), &cluster.links[0]);
  EXPECT_EQ(nearest_link(cluster, Collective::all_to_all, {"ep", 2, 1}), nullptr)
      << "a link between nodes is no substitute for a link inside a node";
  cluster.links = {inter};
  EXPECT_EQ(nearest_link(cluster, Collective::all_to_all, {"ep", 8, 2}), &cluster.links[0]);
}

// Among eight ranks on two nodes, four of a rank's seven peers are on the other node. Among four ranks, two of the
// three peers are on the other node.
TEST(Rates, CountTheBytesOfAllToAllsThatLeaveTheNode) {
  Cluster cluster = load_text(text);
  for (Collective c : {Collective::all_gather, Collective::reduce_scatter, Collective::all_reduce, Collective::send}) {
    cluster.links.push_back(cluster.links[3]);
    cluster.links.back().operation = c;
  }
  const schedule::Rates rates = rates_of(cluster, {.groups = {{"ep", 4, 2}, {"world", 8, 2}}});
  const auto seconds = [&](TaskKind kind, const char* group, int ranks, double bytes) {
    return rates.find(kind, group, ranks, true)->curve.seconds(bytes);
  };
  EXPECT_DOUBLE_EQ(seconds(TaskKind::all_to_all, "world", 8, 6144), 0.00425);
  EXPECT_DOUBLE_EQ(seconds(TaskKind::all_to_all, "ep", 4, 6144 * (4.0 / 7) / (2.0 / 3)), 0.00425);
  EXPECT_DOUBLE_EQ(seconds(TaskKind::all_gather, "ep", 4, 6144), 0.00425);
  EXPECT_EQ(size_factor(cluster.links[2], {"ep", 4, 4}), 1) << "one rank on each node: all bytes leave it";
  EXPECT_EQ(size_factor(cluster.links[1], {"tp", 2, 1}), 1) << "inside a node";
}

TEST(Rates, ComeFromLinksProductsCopiesAndSlowdowns) {
  Cluster cluster = load_text(text);
  for (Collective c : {Collective::all_gather, Collective::reduce_scatter, Collective::all_reduce, Collective::send})
    for (int i : {1, 2}) {
      cluster.links.push_back(cluster.links[i]);
      cluster.links.back().operation = c;
    }
  const schedule::Rates rates =
      rates_of(cluster, {.groups = {{"ep", 2, 2}, {"tp", 4, 1}, {"dp", 1, 1}}, .inputs = 10, .outputs = 40});
  EXPECT_EQ(rates.links.size(), 10u) << "five operations each for ep and tp; a group of one rank sends nothing";
  const auto* ep = rates.find(TaskKind::all_to_all, "ep", 2, true);
  ASSERT_TRUE(ep);
  EXPECT_EQ(ep->curve.seconds(4096), 0.003);
  const auto* tp = rates.find(TaskKind::all_gather, "tp", 4, false);
  ASSERT_TRUE(tp);
  EXPECT_EQ(tp->curve.seconds(8192), 0.0025);
  // Two rows of one of the 8 experts (10 x 40) take 1600 FLOPs. Products with 10 x 50 weights were measured. The time
  // for 10 x 40 weights is 40 / 50 of the measured time.
  const auto seconds = [&](GemmPass pass) { return rates.compute[base::ordinal(pass)].seconds(1600); };
  EXPECT_DOUBLE_EQ(seconds(GemmPass::forward), 1e-5 / 8 * 40 / 50);
  EXPECT_DOUBLE_EQ(seconds(GemmPass::weight_gradient), 3e-5 / 8 * 40 / 50);
  EXPECT_DOUBLE_EQ(seconds(GemmPass::input_gradient), 1e-5 / 8 * 40 / 50)
      << "an unmeasured pass takes the time of the first pass";
  EXPECT_EQ(rates.copy.seconds(65536), 1e-5);
  EXPECT_EQ(rates.alpha(Lane::compute, LaneSet{Lane::inter}), 0.75);
  EXPECT_EQ(rates.alpha(Lane::compute, LaneSet{Lane::inter, Lane::copy}), 0.5);
  EXPECT_EQ(rates.alpha(Lane::inter, LaneSet{Lane::compute}), 1) << "a measured 1.02 means no slowdown";
}

TEST(Rates, LinksOfFurtherGroupsMayBeMissing) {
  const Cluster cluster = default_cluster(4, 1);  // links between nodes only
  const schedule::Rates rates =
      rates_of(cluster, {.groups = {{"ep", 4, 4}}, .further_groups = {{"tp x cp", 2, 2}, {"tp x cp", 4, 1}}});
  const auto* between = rates.find(TaskKind::all_gather, "tp x cp", 2, true);
  ASSERT_TRUE(between) << "the nearest measured link has four ranks";
  EXPECT_EQ(between->curve.seconds(65536), rates.find(TaskKind::all_gather, "ep", 4, true)->curve.seconds(65536));
  EXPECT_FALSE(rates.find(TaskKind::all_gather, "tp x cp", 4, false));
}

TEST(Rates, LinkRatesDoNotFallBelowTheirLastPoint) {
  const auto seconds = [](const std::string& points, double bytes) {
    Cluster cluster = load_text(text);
    for (MeasuredLink& link : cluster.links) link.points = load_text(points).links.front().points;
    for (Collective c : {Collective::all_gather, Collective::reduce_scatter, Collective::all_reduce, Collective::send})
      cluster.links.push_back(cluster.links[2]), cluster.links.back().operation = c;
    const schedule::Rates rates = rates_of(cluster, {.groups = {{"ep", 2, 2}}});
    return rates.find(TaskKind::all_to_all, "ep", 2, true)->curve.seconds(bytes);
  };
  const auto with = [](const std::string& points) {
    std::string changed = text;
    const std::string was = "[[4096, 0.001], [8192, 0.0015]]";
    return changed.replace(changed.find(was), was.size(), points);
  };
  EXPECT_DOUBLE_EQ(seconds(with("[[4096, 0.001], [8192, 0.0015]]"), 16384), 0.0025) << "the latency is added only once";
  EXPECT_DOUBLE_EQ(seconds(with("[[4096, 0.001], [8192, 0.003]]"), 16384), 0.006)
      << "beyond the last point, the time is proportional to the size; the line through both points would give 0.007";
  EXPECT_DOUBLE_EQ(seconds(with("[[4096, 0.001], [8192, 0.003]]"), 8192), 0.003);
}

TEST(Rates, ProductRatesDoNotFallBelowTheirLastPoint) {
  const auto seconds = [](double slow) {
    Cluster cluster = load_text(text);
    // Each of the four experts has 100 x 50 weights. One row of an expert takes 10,000 FLOPs.
    for (MeasuredProduct& p : cluster.products) p.points = {std::vector<Curve::Point>{{4, 4e-6}, {8, slow}}};
    return rates_of(cluster, {.groups = {}}).compute.front().seconds(40000);
  };
  EXPECT_DOUBLE_EQ(seconds(6e-6), 2.5e-6) << "a quarter of the time of 16 rows, on the line through both points";
  EXPECT_DOUBLE_EQ(seconds(12e-6), 6e-6) << "the last point's rate; the line through both points would give 7e-6";
  EXPECT_DOUBLE_EQ(seconds(4e-6), 2e-6) << "the last point's rate; the line through both points would give 1e-6";
}

TEST(Rates, ChooseProductsByTypeAndSizeAndCopiesByKind) {
  const Cluster cluster = load_text(text);
  // The largest shape is used if no size is given: 4 rows of one of the 4 experts (100 x 50) take 40,000 FLOPs.
  EXPECT_DOUBLE_EQ(rates_of(cluster, {.groups = {}}).compute.front().seconds(40000), 2e-5);
  EXPECT_DOUBLE_EQ(rates_of(cluster, {.groups = {}, .element = Element::bf16}).compute.front().seconds(2000), 5e-7);
  EXPECT_DOUBLE_EQ(rates_of(cluster, {.groups = {}, .copy = CopyKind::offload}).copy.seconds(65536), 1e-4);
}

TEST(Rates, TakeTheTimesOfTheFirstPassForUnmeasuredPasses) {
  Cluster cluster = load_text(text);
  using enum GemmPass;
  EXPECT_EQ(unmeasured_passes(cluster, {.groups = {}}), (std::vector{input_gradient, weight_gradient}));
  const RatesQuery small{.groups = {}, .inputs = 10, .outputs = 40};
  EXPECT_EQ(unmeasured_passes(cluster, small), std::vector{input_gradient}) << "of the shape 10 x 50";
  const schedule::Rates rates = rates_of(cluster, small);
  const auto seconds = [&](GemmPass pass) { return rates.compute[base::ordinal(pass)].seconds(1600); };
  EXPECT_EQ(seconds(input_gradient), seconds(forward));
  EXPECT_NE(seconds(weight_gradient), seconds(forward));
  EXPECT_TRUE(unmeasured_passes(default_cluster(2, 4), small).empty());
}

TEST(Rates, NameTheMissingMeasurement) {
  const auto complaint = [](const Cluster& cluster, const RatesQuery& query) -> std::string {
    try {
      rates_of(cluster, query);
    } catch (const base::Error& e) {
      return e.what();
    }
    return "nothing";
  };
  const Cluster cluster = load_text(text);
  EXPECT_EQ(complaint(cluster, {.groups = {{"ep", 8, 2}}}),
            "the cluster has no measured all_gather for group ep of 8 ranks on 2 nodes; to measure it, run hexad "
            "profile on such ranks");
  EXPECT_EQ(complaint(cluster, {.groups = {}, .copy = CopyKind::gather}),
            "the cluster has no measured copies of kind gather; to measure them, run hexad profile");
  EXPECT_EQ(complaint({}, {.groups = {}}),
            "the cluster has no measured products of f32; to measure them, run hexad profile");
}

TEST(DefaultCluster, GivesTheDefaultRates) {
  const schedule::Rates defaults = schedule::Rates::defaults();
  const schedule::Rates rates = rates_of(default_cluster(2, 4), {.groups = {{"ep", 8, 2}, {"tp", 4, 1}, {"dp", 2, 2}}});
  for (double bytes : {4096.0, 65536.0, 16777216.0}) {
    EXPECT_EQ(rates.find(TaskKind::all_to_all, "ep", 8, true)->curve.seconds(bytes),
              defaults.other_links->between_nodes.seconds(bytes));
    EXPECT_EQ(rates.find(TaskKind::all_reduce, "tp", 4, false)->curve.seconds(bytes),
              defaults.other_links->within_node.seconds(bytes));
    EXPECT_EQ(rates.copy.seconds(bytes), defaults.copy.seconds(bytes));
  }
  EXPECT_TRUE(rates.slowdowns.empty());
}

TEST(DefaultCluster, CanBeWrittenAndRead) {
  const std::string written = to_yaml(default_cluster(2, 2));
  EXPECT_EQ(to_yaml(load_text(written)), written);
}

TEST(ClusterRecipes, MeasuredClustersGiveRates) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(HEXAD_SOURCE_DIR "/recipes/clusters")) {
    const Cluster cluster = load_cluster(entry.path().string());
    if (cluster.machine) continue;  // prices_test.cpp tests described clusters
    const int64_t nodes = cluster.measured.nodes, ranks = nodes * cluster.measured.ranks_per_node;
    EXPECT_NO_THROW(rates_of(cluster, {.groups = {{"world", ranks, nodes}}})) << entry.path();
    ++files;
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace hexad::plan
