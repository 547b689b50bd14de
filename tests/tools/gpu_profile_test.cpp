#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tools/gpu/profile/kernel_names.h"
#include "tools/gpu/profile/profile_report.h"
#include "tools/gpu/profile/step_profile.h"
#include "tools/gpu/profile/steps.h"

namespace hexad::gpu_profile {
namespace {

Activity kernel(std::string_view name, int64_t begin, int64_t end) {
  return {.kind = Kind::kernel, .name = name, .begin = begin, .end = end};
}

/// Adds a step: 20 kernels of gemm, a copy, and two kernels of adamw. Each kernel of gemm takes `time` ns and is
/// followed by 1 ns without work.
void add_step(std::vector<Activity>& all, int64_t time) {
  int64_t now = all.empty() ? 0 : all.back().end;
  for (int i = 0; i < 20; ++i, now += time + 1) all.push_back(kernel("gemm", now, now + time));
  all.push_back({.kind = Kind::memcpy, .name = "memcpy device to host", .begin = now, .end = now + 5, .bytes = 640});
  all.push_back(kernel("adamw_blocks", now + 5, now + 6));
  all.push_back(kernel("adamw_blocks", now + 9, now + 10));
}

std::vector<Activity> steps_of(const std::vector<int64_t>& times) {
  std::vector<Activity> all;
  for (const int64_t time : times) add_step(all, time);
  return all;
}

int64_t idle(const std::vector<Gap>& gaps) {
  int64_t sum = 0;
  for (const Gap& g : gaps) sum += g.time.length();
  return sum;
}

TEST(StepEnds, AreTheEndsOfTheLastUpdateOfEachStep) {
  EXPECT_EQ(step_ends(steps_of({10, 10, 30}), "adamw"), (std::vector<int64_t>{230, 460, 1090}));
}

TEST(StepEnds, AreEmptyWithoutUpdates) {
  EXPECT_TRUE(step_ends(steps_of({10, 10}), "lion").empty());
  EXPECT_TRUE(step_ends({}, "adamw").empty());
}

TEST(StepEnds, IgnoreCopiesAndAFewKernelsBetweenUpdates) {
  std::vector<Activity> all{kernel("adamw", 0, 1)};
  for (int64_t i = 1; i <= 100; ++i) all.push_back({.kind = Kind::memcpy, .name = "memcpy", .begin = i, .end = i + 1});
  for (int64_t i = 101; i < 100 + between_steps; ++i) all.push_back(kernel("cast", i, i + 1));
  all.push_back(kernel("adamw", 300, 301));
  EXPECT_EQ(step_ends(all, "adamw"), (std::vector<int64_t>{301}));
}

TEST(Gaps, AreBetweenTheLastEndAndTheNextBegin) {
  const std::vector<Activity> all{kernel("long", 0, 50), kernel("short", 10, 20), kernel("next", 60, 70)};
  const auto gaps = find_gaps(all, {0, 70});
  ASSERT_EQ(gaps.size(), 1u);
  EXPECT_EQ(gaps[0].time.begin, 50);
  EXPECT_EQ(gaps[0].time.end, 60);
  EXPECT_EQ(gaps[0].before->name, "long");
  EXPECT_EQ(gaps[0].after->name, "next");
}

TEST(Gaps, AreCutByTheWindow) {
  const std::vector<Activity> all{kernel("a", 0, 10), kernel("b", 30, 40), kernel("c", 60, 70)};
  const auto gaps = find_gaps(all, {20, 50});
  ASSERT_EQ(gaps.size(), 2u);
  EXPECT_EQ(gaps[0].time.begin, 20);
  EXPECT_EQ(gaps[0].before->name, "a");
  EXPECT_EQ(gaps[1].time.end, 50);
  EXPECT_EQ(gaps[1].after->name, "c");
}

TEST(Gaps, AreTheWholeWindowWithoutActivities) {
  const auto gaps = find_gaps({}, {5, 8});
  ASSERT_EQ(gaps.size(), 1u);
  EXPECT_EQ(gaps[0].time.length(), 3);
  EXPECT_EQ(gaps[0].before, nullptr);
  EXPECT_EQ(gaps[0].after, nullptr);
}

TEST(Gaps, FillTheWindowTogetherWithActivities) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Activity> all;
    for (int i = 0; i < 30; ++i) {
      const auto begin = static_cast<int64_t>(random() % 300);
      all.push_back(kernel("k", begin, begin + static_cast<int64_t>(random() % 12)));
    }
    std::sort(all.begin(), all.end(), [](const Activity& a, const Activity& b) { return a.begin < b.begin; });
    const Interval window{50, 250};
    int64_t busy = 0;
    for (int64_t t = window.begin; t < window.end; ++t)
      busy += std::any_of(all.begin(), all.end(), [&](const Activity& a) { return a.begin <= t && t < a.end; });
    EXPECT_EQ(idle(find_gaps(all, window)), window.length() - busy) << "trial " << trial;
  }
}

// Stream 7 is busy in [0, 10) and [8, 20), and stream 9 in [15, 40). The window is [5, 30).
TEST(Streams, AreBusyTogetherOrAlone) {
  std::vector<Activity> all{kernel("a", 0, 10), kernel("b", 8, 20), kernel("c", 15, 40)};
  all[0].stream = all[1].stream = 7;
  all[2].stream = 9;
  const auto streams = stream_times(all, {5, 30});
  ASSERT_EQ(streams.size(), 2u);
  EXPECT_EQ(streams[0].stream, 7u);
  EXPECT_EQ(streams[0].count, 1);
  EXPECT_EQ(streams[0].busy, 15);
  EXPECT_EQ(streams[0].alone, 10);
  EXPECT_EQ(streams[0].longest, "b");
  EXPECT_EQ(streams[1].stream, 9u);
  EXPECT_EQ(streams[1].busy, 15);
  EXPECT_EQ(streams[1].alone, 10);
}

TEST(Profile, LeavesOutWarmUpSteps) {
  const auto all = steps_of({99, 50, 40, 10, 20});
  const auto p = profile(all, "adamw", 3);
  ASSERT_TRUE(p);
  EXPECT_EQ(p->first_step, 4);
  ASSERT_EQ(p->steps.size(), 2u);
  EXPECT_EQ(p->steps[0].total, 20 * 11 + 10);
  EXPECT_EQ(p->steps[1].total, 20 * 21 + 10);
  EXPECT_EQ(p->steps[0].idle, 20 + 3);
  EXPECT_EQ(p->idle(), 2 * 23);
  ASSERT_EQ(p->operations.size(), 3u);
  EXPECT_EQ(p->operations[0].name, "gemm");
  EXPECT_EQ(p->operations[0].count, 40);
  EXPECT_EQ(p->operations[0].ns, 20 * 10 + 20 * 20);
  EXPECT_EQ(p->operations[1].bytes, 2 * 640);
  EXPECT_EQ(p->operations[2].count, 4);
}

TEST(Profile, NamesTheLongestGapsAndPlaces) {
  const auto all = steps_of({1, 1, 1, 10, 20});
  const auto p = profile(all, "adamw", 3);
  ASSERT_TRUE(p);
  ASSERT_EQ(p->gaps.size(), 2u * 21);
  EXPECT_EQ(p->gaps[0].time.length(), 3);
  EXPECT_EQ(p->step_of(p->gaps[0]), 4);
  EXPECT_EQ(p->ns_into_step(p->gaps[0]), 20 * 11 + 6);
  EXPECT_EQ(p->step_of(p->gaps[1]), 5);
  EXPECT_EQ(p->ns_into_step(p->gaps[1]), 20 * 21 + 6);
  ASSERT_EQ(p->places.size(), 3u);
  EXPECT_EQ(p->places[0].before, "gemm");
  EXPECT_EQ(p->places[0].after, "gemm");
  EXPECT_EQ(p->places[0].count, 38);
}

TEST(Profile, NeedsAStepAfterWarmUp) {
  EXPECT_FALSE(profile(steps_of({1, 1, 1}), "adamw", 3));
  EXPECT_TRUE(profile(steps_of({1, 1, 1, 1}), "adamw", 3));
}

TEST(KernelNames, AreFunctionsWithTheirTemplateArguments) {
  EXPECT_EQ(
      shortened("void hexad::kernels::cuda::(anonymous namespace)::pack_kernel<double, (hexad::E)3, -1>(hexad::W, "
                "hexad::Rows<double> const&)"),
      "pack_kernel<double, 3, -1>");
  EXPECT_EQ(shortened("void f<a::b<c::d<int> > >(int*)"), "f<b<d<int>>>");
  EXPECT_EQ(shortened("cudnn_generated_sdpa_sm90"), "cudnn_generated_sdpa_sm90");
  EXPECT_EQ(shortened("abcdefghij", 6), "abc...");
}

TEST(KernelNames, NvccNamesAreDemangled) {
  EXPECT_EQ(shortened(demangled("_ZN5hexad7kernels4cuda45_GLOBAL__N__e6ed0a7b_12_optimizer_cu_a97c712d11clip_"
                                "factorEPdPKdld")),
            "clip_factor");
  EXPECT_EQ(demangled("nvjet_tst_128x256"), "nvjet_tst_128x256");
}

TEST(KernelNames, FallBackToIdentifiersWhenDemanglingFails) {
  EXPECT_EQ(demangled("_ZN7cutlass13device_kernelINS_4gemm13GemmUniversalILi128ENS99_5MajorE0ELS1A_2EN5TiledEEEEEvv"),
            "device_kernel<GemmUniversal Major Tiled>");
  EXPECT_EQ(demangled("_Z999x"), "x");
  EXPECT_EQ(demangled("_Z"), "");
}

TEST(KernelNames, AreNumberedWhenTheirShortFormsCollide) {
  const std::vector<Operation> operations{{.name = "a::f"}, {.name = "b::f"}, {.name = "g"}};
  const auto names = short_names(operations);
  EXPECT_EQ(names.at("a::f"), "f");
  EXPECT_EQ(names.at("b::f"), "f #2");
  EXPECT_EQ(names.at("g"), "g");
}

TEST(GpuProfileReport, HasMeansOfTheSteps) {
  const auto all = steps_of({1, 1, 1, 1000, 2000});
  const auto p = profile(all, "adamw", 3);
  ASSERT_TRUE(p);
  const auto json = nlohmann::json::parse(to_json(*p));
  EXPECT_DOUBLE_EQ(json["step_us"], (20 * 1001 + 20 * 2001 + 20) / 2e3);
  EXPECT_DOUBLE_EQ(json["idle_us"], 23e-3);
  EXPECT_DOUBLE_EQ(json["busy_us"].get<double>() + json["idle_us"].get<double>(), json["step_us"]);
  EXPECT_EQ(json["steps"].size(), 2u);
  EXPECT_EQ(json["kernels"][0]["name"], "gemm");
  EXPECT_DOUBLE_EQ(json["kernels"][0]["us"], 30.0);
  EXPECT_DOUBLE_EQ(json["copies"][0]["bytes"], 640.0);
  const std::string text = to_text(*p);
  EXPECT_NE(text.find("steps 4 to 5: 0.030 ms per step"), std::string::npos) << text;
  EXPECT_NE(text.find("adamw_blocks | adamw_blocks"), std::string::npos) << text;
  EXPECT_NE(text.find("memcpy device to host"), std::string::npos) << text;
  EXPECT_EQ(text.find("us alone"), std::string::npos) << text;
}

TEST(GpuProfileReport, ShowsStreamsIfThereAreSeveral) {
  auto all = steps_of({1, 1, 1, 1000, 2000});
  for (Activity& a : all)
    if (a.kind == Kind::memcpy) a.stream = 3;
  const auto p = profile(all, "adamw", 3);
  ASSERT_TRUE(p);
  const auto json = nlohmann::json::parse(to_json(*p));
  ASSERT_EQ(json["streams"].size(), 2u);
  EXPECT_EQ(json["streams"][1]["stream"], 3);
  EXPECT_DOUBLE_EQ(json["streams"][1]["us"], 5e-3);
  EXPECT_EQ(json["streams"][1]["longest"], "memcpy device to host");
  EXPECT_NE(to_text(*p).find("us alone"), std::string::npos) << to_text(*p);
}

}  // namespace
}  // namespace hexad::gpu_profile
