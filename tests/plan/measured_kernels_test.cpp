// Prices of attention and small kernels, from curves made by hand.
#include "tools/plan/measured_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "framework/base/error.h"
#include "tests/telemetry/temporary_folder.h"
#include "tools/plan/resource_gain.h"
#include "tools/plan/step_prices.h"

namespace hexad::plan {
namespace {

using base::Dtype;
using telemetry::TemporaryFolder;

// Attention with 8 heads or one head of size 64, and with 8 heads of size 128. The first point is 16.8 GFLOP/s:
// 8 x 64 x 128^2 x 2 FLOPs in 1 ms.
const std::string text = R"(measured: {nodes: 1, ranks_per_node: 2}
products:
  - {element: f32, pass: forward, experts: 1, inputs: 20, outputs: 50, points: [[16, 1e-4], [32, 2e-4]]}
  - {element: bf16, pass: forward, experts: 1, inputs: 20, outputs: 50, points: [[16, 1e-4], [32, 2e-4]]}
attention:
  - {element: f32, pass: forward, heads: 8, head_size: 64, points: [[128, 0.001], [256, 0.002]]}
  - {element: f32, pass: backward, heads: 8, head_size: 64, points: [[128, 0.005], [256, 0.01]]}
  - {element: f32, pass: forward, heads: 1, head_size: 64, points: [[128, 0.002], [256, 0.004]]}
  - {element: f32, pass: forward, heads: 8, head_size: 128, points: [[128, 0.004], [256, 0.008]]}
kernels:
  - {class: pointwise, element: f32, points: [[4096, 1e-6], [8192, 2e-6]]}
  - {class: norm, element: f32, points: [[4096, 3e-6], [8192, 6e-6]]}
  - {class: norm, element: bf16, points: [[4096, 5e-6], [8192, 10e-6]]}
copies:
  - {kind: copy, points: [[4096, 1e-5], [8192, 2e-5]]}
operation: 7e-6
)";

Cluster load_text(const std::string& yaml) {
  const TemporaryFolder folder;
  telemetry::write_text(folder / "c.yaml", yaml);
  return load_cluster((folder / "c.yaml").string());
}

std::string with(const std::string& was, const std::string& is) {
  std::string changed = text;
  const size_t at = changed.find(was);
  EXPECT_NE(at, changed.npos) << "the test's own text has no " << was;
  return changed.replace(at, was.size(), is);
}

std::string refusal(const std::string& was, const std::string& is) {
  try {
    load_text(with(was, is));
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::usage);
    const std::string message = e.what();
    return message.substr(message.find("c.yaml"));
  }
  return "accepted";
}

constexpr double flops_of(double heads, double head_size, double positions) {
  return 2 * heads * head_size * positions * positions;
}

TEST(AttentionCurves, GiveTheMeasuredTimes) {
  const Prices prices(load_text(text));
  Attention a{.dtype = Dtype::f32, .flops = flops_of(8, 64, 128), .sequence = 128, .head_dim = 64, .heads = 8};
  EXPECT_DOUBLE_EQ(prices.attention(a), 0.001);
  a.flops *= 4, a.sequence = 256;
  EXPECT_DOUBLE_EQ(prices.attention(a), 0.002);
  a.flops *= 2.5, a.pass = AttentionPass::backward;
  EXPECT_DOUBLE_EQ(prices.attention(a), 0.01);
}

TEST(AttentionCurves, HaveALinearTimeForAPositionAlsoBeyondTheLastPoint) {
  const Prices prices(load_text(with("[[128, 0.001], [256, 0.002]]", "[[128, 0.001], [256, 0.004]]")));
  const auto seconds = [&](double positions) {
    return prices.attention(
        {.dtype = Dtype::f32, .flops = flops_of(8, 64, positions), .sequence = positions, .head_dim = 64, .heads = 8});
  };
  const double first = 0.001 / 128;  // seconds for each of 128 positions; each of 256 positions takes twice as long
  EXPECT_DOUBLE_EQ(seconds(192), 192 * 1.5 * first);
  EXPECT_DOUBLE_EQ(seconds(4096), 4096 * 32 * first);
  EXPECT_DOUBLE_EQ(seconds(64), 64 * first) << "shorter sequences take as long for each position as the shortest one";
}

TEST(AttentionCurves, AreChosenByHeadSizeThenPassThenHeads) {
  const Prices prices(load_text(text));
  const auto seconds = [&](AttentionPass pass, double head_size, double heads) {
    return prices.attention({.dtype = Dtype::f32,
                             .pass = pass,
                             .flops = flops_of(8, 64, 128),
                             .sequence = 128,
                             .head_dim = head_size,
                             .heads = heads});
  };
  EXPECT_DOUBLE_EQ(seconds(AttentionPass::forward, 64, 16), 0.001);
  EXPECT_DOUBLE_EQ(seconds(AttentionPass::forward, 48, 2), 8 * 0.002) << "one head is nearer to 2 than 8 heads";
  EXPECT_DOUBLE_EQ(seconds(AttentionPass::forward, 100, 1), 0.004 / 2) << "128 is nearer to 100 than 64";
  EXPECT_DOUBLE_EQ(seconds(AttentionPass::backward, 64, 1), 0.005 / 2.5)
      << "backward was measured with another number of heads";
}

TEST(AttentionCurves, AreUsedForTheirElementOnly) {
  // A product of 16 rows with 1000 weights takes 1e-4 s. Attention has half the product's rate.
  EXPECT_DOUBLE_EQ(Prices(load_text(text)).attention({.dtype = Dtype::bf16, .flops = 32000}), 2e-4);
}

TEST(KernelCurves, GiveTheTimesOfTheClass) {
  const Prices prices(load_text(text));
  EXPECT_DOUBLE_EQ(prices.kernel(KernelClass::pointwise, Dtype::f32, 8192), 2e-6);
  EXPECT_DOUBLE_EQ(prices.kernel(KernelClass::norm, Dtype::f32, 8192), 6e-6);
  EXPECT_DOUBLE_EQ(prices.kernel(KernelClass::norm, Dtype::bf16, 8192), 10e-6);
  EXPECT_DOUBLE_EQ(prices.kernel(KernelClass::norm, Dtype::f32, 16), 3e-6)
      << "no kernel is shorter than the first point";
  EXPECT_DOUBLE_EQ(prices.kernel(KernelClass::pointwise, Dtype::bf16, 8192), 2e-6) << "only f32 was measured";
  EXPECT_DOUBLE_EQ(prices.kernel(KernelClass::loss, Dtype::f32, 8192), 1e-5)
      << "the loss is priced as a copy of half of its bytes";
  EXPECT_EQ(prices.kernel(KernelClass::norm, Dtype::f32, 0), 0);
}

TEST(KernelClasses, CoverTheFamilies) {
  EXPECT_EQ(class_of("rms_norm", "backward"), KernelClass::norm);
  EXPECT_EQ(class_of("pointwise", "add"), KernelClass::pointwise);
  EXPECT_EQ(class_of("fill", ""), KernelClass::pointwise);
  EXPECT_EQ(class_of("swiglu", "forward"), KernelClass::activation);
  EXPECT_EQ(class_of("permute", "combine"), KernelClass::permute);
  EXPECT_EQ(class_of("router", "forward"), KernelClass::router);
  EXPECT_EQ(class_of("cross_entropy", "forward"), KernelClass::loss);
  EXPECT_EQ(class_of("optimizer", "adamw"), KernelClass::optimizer);
  EXPECT_EQ(class_of("optimizer", "squared_norm"), KernelClass::reduction);
  EXPECT_EQ(class_of("gelu", "backward"), KernelClass::gelu);
  EXPECT_EQ(class_of("rotary", "apply"), KernelClass::activation);
}

TEST(RecordPrices, AddTheHostsTimeToKernelsAndCopiesOnly) {
  const StepPrices prices(load_text(text), 2);
  const StepRecord record{.rank = 0, .issues = {}, .groups = {}, .spans = {}};
  const RecordPrices priced(prices, record);
  const auto seconds = [&](std::string_view family, std::string_view name, device::Work work) {
    return priced.seconds({family, name, device::Lane::compute, work, -1, {}});
  };
  EXPECT_DOUBLE_EQ(seconds("rms_norm", "forward", device::MemoryWork{8192, Dtype::bf16}), 10e-6 + 7e-6);
  EXPECT_DOUBLE_EQ(seconds("copy", "", device::CopyWork{8192, device::CopyWork::Kind::device}), 2e-5 + 7e-6);
  EXPECT_DOUBLE_EQ(
      seconds("attention", "forward", device::AttentionWork{Dtype::f32, false, flops_of(8, 64, 128), 128, 64, 8}),
      0.001 + 7e-6);
  // Two sequences of 8 heads have 16 heads. Backward has twice the FLOPs of forward, and computes the scores again.
  EXPECT_DOUBLE_EQ(
      seconds("attention", "backward", device::AttentionWork{Dtype::f32, true, 4 * flops_of(8, 64, 128), 128, 64, 16}),
      2 * 0.005 + 7e-6);
  EXPECT_EQ(seconds("comm", "barrier", device::CommunicationWork{0, 0, 0, 0}), 0);
}

TEST(RecordPrices, AddTheHandoffToOperationsOfOtherLanes) {
  const StepPrices prices(load_text(text + "handoff: 2e-5\n"), 2);
  const StepRecord record{.rank = 0, .issues = {}, .groups = {}, .spans = {}};
  const RecordPrices priced(prices, record);
  const auto seconds = [&](device::Lane lane) {
    return priced.seconds({"rms_norm", "forward", lane, device::MemoryWork{8192, Dtype::bf16}, -1, {}});
  };
  EXPECT_DOUBLE_EQ(seconds(device::Lane::compute), 10e-6 + 7e-6);
  EXPECT_DOUBLE_EQ(seconds(device::Lane::copy), 10e-6 + 7e-6 + 2e-5);
}

TEST(KernelFile, RoundTrips) {
  const std::string written = to_yaml(load_text(text));
  const Cluster cluster = load_text(written);
  EXPECT_EQ(to_yaml(cluster), written);
  ASSERT_EQ(cluster.attention.size(), 4u);
  EXPECT_EQ(cluster.attention[1].pass, AttentionPass::backward);
  EXPECT_EQ(cluster.attention[3].head_size, 128);
  EXPECT_EQ(cluster.attention[0].points, Curve({{128, 0.001}, {256, 0.002}}));
  ASSERT_EQ(cluster.kernels.size(), 3u);
  EXPECT_EQ(cluster.kernels[2].of, KernelClass::norm);
  EXPECT_EQ(cluster.kernels[2].element, Element::bf16);
  EXPECT_EQ(cluster.operation, 7e-6);
}

TEST(KernelFile, IsRefusedWithTheLine) {
  EXPECT_EQ(refusal("heads: 8, head_size: 64", "heads: 0, head_size: 64"),
            "c.yaml:6: attention.0.heads (0) must be at least 1");
  EXPECT_EQ(refusal("pass: backward", "pass: x"), "c.yaml:7: attention.1.pass (x) must be one of forward, backward");
  EXPECT_EQ(refusal("[[128, 0.001], [256, 0.002]]", "0.001"),
            "c.yaml:6: attention.0.points (0.001) must be a list of points [[size, seconds], ...]");
  EXPECT_EQ(refusal("class: pointwise", "class: x"),
            "c.yaml:11: kernels.0.class (x) must be one of pointwise, activation, gelu, norm, reduction, permute, "
            "router, loss, optimizer");
  EXPECT_EQ(refusal("[[4096, 1e-6]", "[[-1, 1e-6]"),
            "c.yaml:11: kernels.0.points ([[-1, 1e-06], [8192, 2e-06]]) must have sizes above 0, but the first is -1; "
            "remove this point");
  EXPECT_EQ(
      refusal("operation: 7e-6", "operation: 7"),
      "c.yaml:16: operation (7) must be at most 0.01 s; nearest: 0.01; if the value is in microseconds, write 7e-6");
}

TEST(OlderKernelFile, HasNamedAssumptions) {
  const auto has = [](const std::string& yaml, const std::string& part) {
    const std::vector<std::string> all = assumptions(load_text(yaml));
    return std::ranges::count_if(all, [&](const std::string& a) { return a.find(part) != a.npos; });
  };
  EXPECT_EQ(has(text, "attention in f32"), 0);
  EXPECT_EQ(has(text, "attention in bf16: half the rate"), 1);
  EXPECT_EQ(has(text, "memory-bound kernels"), 0);
  EXPECT_EQ(has(text, "kernels of class loss: priced like a copy of half their bytes"), 1);
  EXPECT_EQ(has(text, "kernels of class pointwise: the same bytes/s in f32 and bf16"), 1);
  EXPECT_EQ(has(text, "kernels of class norm:"), 0);
  EXPECT_EQ(has(text, "kernels of class reduction: priced like kernels of class norm"), 1);
  EXPECT_EQ(has(text, "kernels of class gelu: priced like a copy of half their bytes"), 1);
  EXPECT_EQ(has(with("class: pointwise", "class: router"), "kernels of class router"), 0) << "routers work in f32";
  for (const std::string of : {"optimizer", "reduction"})
    EXPECT_EQ(
        has(with("class: pointwise", "class: " + of), "kernels of class " + of + ": the same bytes/s in f32 and bf16"),
        1)
        << "moments and gradients may be bf16";
  EXPECT_EQ(has(text, "host: an operation takes no time"), 0);
  const std::string older = text.substr(0, text.find("attention:")) + text.substr(text.find("copies:"));
  const std::string oldest = older.substr(0, older.find("operation:"));
  EXPECT_EQ(has(oldest, "attention in f32: half the rate"), 1);
  EXPECT_EQ(has(oldest, "memory-bound kernels: priced like the measured copy"), 1);
  EXPECT_EQ(has(oldest, "host: an operation takes no time in addition to its kernel"), 1);
  EXPECT_EQ(Prices(load_text(oldest)).operation(), 0);
}

TEST(MoreComputeOrMemory, ShortensMeasuredKernels) {
  const Cluster cluster = load_text(text);
  const Cluster compute = with_more(cluster, Resource::compute, 2), memory = with_more(cluster, Resource::memory, 2);
  EXPECT_EQ(compute.attention[0].points, Curve({{128, 0.0005}, {256, 0.001}}));
  EXPECT_EQ(compute.kernels[0].points, cluster.kernels[0].points);
  EXPECT_EQ(memory.attention[0].points, cluster.attention[0].points);
  EXPECT_EQ(memory.kernels[0].points, Curve({{4096, 0.5e-6}, {8192, 1e-6}}));
}

}  // namespace
}  // namespace hexad::plan
