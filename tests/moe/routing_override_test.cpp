// Choices of experts that do not come from the model.
#include "layers/moe/router/routing_override.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "framework/base/counted.h"
#include "tests/support/compare.h"
#include "tests/training/training.h"
#include "tools/bench/token_ranks.h"

namespace hexad::tests {

using namespace base;
using namespace layers;
namespace {

moe::MoeConfig config(moe::Routing routing) {
  moe::MoeConfig c;
  c.experts = 6, c.top_k = 2, c.routing = routing;
  return c;
}

std::vector<int32_t> choose(const moe::MoeConfig& c, int64_t first_token, int64_t tokens, uint64_t step = 1,
                            int64_t layer = 0) {
  device::DeviceContext context(on_test_device());
  MicroBatch batch;
  batch.sequences = 1, batch.length = tokens, batch.first_token = first_token;
  return moe::RoutingOverride(c, layer)
      .choose({.batch = batch, .seed = 7, .step = step}, 0, batch.rows(), context)
      .to_vector<int32_t>();
}

std::string trace_path() { return (std::filesystem::temp_directory_path() / cat("hexad-trace-", getpid())).string(); }

class TraceFile {
 public:
  explicit TraceFile(const std::string& text) { std::ofstream(trace_path()) << text; }
  ~TraceFile() { std::filesystem::remove(trace_path()); }
  moe::MoeConfig config() const {
    moe::MoeConfig c = tests::config(moe::Routing::trace);
    c.trace = trace_path();
    return c;
  }
  std::string message() const {
    return message_of(ExitCode::data, [&] { moe::RoutingOverride(config(), 0); });
  }
};

TEST(RoutingOverride, BalancedIsRoundRobin) {
  EXPECT_EQ(choose(config(moe::Routing::balanced), 0, 4), (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 0, 1}));
}

TEST(RoutingOverride, DoesNotDependOnTheFirstTokenOfTheBatch) {
  for (const auto routing : {moe::Routing::balanced, moe::Routing::zipf}) {
    const auto all = choose(config(routing), 0, 20);
    const auto tail = choose(config(routing), 7, 13);
    EXPECT_EQ(std::vector<int32_t>(all.begin() + 14, all.end()), tail);
  }
}

TEST(RoutingOverride, ZipfChoosesDistinctExpertsAndPrefersTheFirst) {
  moe::MoeConfig c = config(moe::Routing::zipf);
  c.zipf_exponent = 1.5;
  const auto ids = choose(c, 0, 4000);
  std::vector<int64_t> counts(6, 0);
  for (size_t t = 0; t < ids.size(); t += 2) {
    ASSERT_NE(ids[t], ids[t + 1]);
    ++counts.at(ids[t]), ++counts.at(ids[t + 1]);
  }
  for (size_t e = 1; e < counts.size(); ++e) EXPECT_GT(counts[e - 1], counts[e]) << "expert " << e;
}

TEST(RoutingOverride, ZipfDiffersByStepAndLayer) {
  const moe::MoeConfig c = config(moe::Routing::zipf);
  EXPECT_NE(choose(c, 0, 50), choose(c, 0, 50, 2));
  EXPECT_NE(choose(c, 0, 50), choose(c, 0, 50, 1, 1));
  EXPECT_EQ(choose(c, 0, 50), choose(c, 0, 50));
}

// The benchmark moe_layer uses this routing for routing=random. There are 16 experts on 4 ranks and 6 experts per
// token. The number of ranks that a token visits, averaged over 20000 tokens, has a standard error of 0.004. A token
// visits only 2 ranks under balanced routing.
TEST(RoutingOverride, ZipfOfExponentZeroSpreadsDistinctExpertsOverRanksAsFormulaExpects) {
  moe::MoeConfig c = config(moe::Routing::zipf);
  c.experts = 16, c.top_k = 6, c.zipf_exponent = 0;
  const auto ids = choose(c, 0, 20000);
  std::vector<int64_t> counts(16, 0);
  for (size_t t = 0; t < ids.size(); t += 6) {
    const auto token = ids.begin() + static_cast<ptrdiff_t>(t);
    ASSERT_EQ(std::set<int32_t>(token, token + 6).size(), 6U) << "token " << t / 6;
    for (auto id = token; id != token + 6; ++id) ++counts.at(*id);
  }
  for (size_t e = 0; e < counts.size(); ++e) EXPECT_NEAR(counts[e], 7500, 350) << "expert " << e;
  EXPECT_NEAR(bench::mean_token_ranks(ids, 6, 4), bench::expected_token_ranks(16, 6, 4), 0.02);
  EXPECT_NEAR(bench::expected_token_ranks(16, 6, 4), 4 * (1 - 924.0 / 8008), 1e-12);
  EXPECT_EQ(ids, choose(c, 0, 20000));
  c.routing = moe::Routing::balanced;
  EXPECT_EQ(bench::mean_token_ranks(choose(c, 0, 40), 6, 4), 2);
}

TEST(RoutingOverride, ZipfDiffersBySeed) {
  device::DeviceContext context(on_test_device());
  MicroBatch batch;
  batch.sequences = 1, batch.length = 50;
  const moe::RoutingOverride zipf(config(moe::Routing::zipf), 0);
  const auto ids_of = [&](uint64_t seed) {
    return zipf.choose({.batch = batch, .seed = seed}, 0, batch.rows(), context).to_vector<int32_t>();
  };
  EXPECT_EQ(ids_of(7), ids_of(7));
  EXPECT_NE(ids_of(7), ids_of(8));
}

// Extremely small weights must not make the search run past the last expert.
TEST(RoutingOverride, ZipfOfAnExtremeExponentRemainsInRange) {
  moe::MoeConfig c = config(moe::Routing::zipf);
  c.zipf_exponent = 300, c.top_k = 6;
  const auto ids = choose(c, 0, 200);
  for (size_t t = 0; t < ids.size(); t += 6)
    EXPECT_EQ(std::set<int32_t>(ids.begin() + static_cast<ptrdiff_t>(t), ids.begin() + static_cast<ptrdiff_t>(t + 6)),
              (std::set<int32_t>{0, 1, 2, 3, 4, 5}));
}

TEST(RoutingOverride, TraceIsRepeatedFromTheStart) {
  const TraceFile file("0 5\n3 1\n2 4\n");
  EXPECT_EQ(choose(file.config(), 2, 3), (std::vector<int32_t>{2, 4, 0, 5, 3, 1}));
}

TEST(RoutingOverride, BadTraceIsRefusedWithFileAndLine) {
  EXPECT_EQ(TraceFile("0 5\n3 6\n").message(),
            trace_path() + ":2: expert 6 is out of range; expected a whole number from 0 to 5");
  EXPECT_EQ(TraceFile("3 -1\n").message(),
            trace_path() + ":1: expert -1 is out of range; expected a whole number from 0 to 5");
  EXPECT_EQ(TraceFile("3 3\n").message(), trace_path() + ":1: expert 3 is named twice, expected different experts");
  for (const auto& [text, found] : {std::pair("0 5\n3\n", 1), {"0 5\n3 1 2\n", 3}, {"0 5\n\n3 1\n", 0}})
    EXPECT_EQ(TraceFile(text).message(),
              base::cat(trace_path(), ":2: the line has ", base::counted(found, "expert number"),
                        ", expected 2 (model.moe.top_k)"));
  EXPECT_EQ(TraceFile("0 5\n3 x\n").message(),
            trace_path() + ":2: word 2 of '3 x' is not an expert number; expected a whole number from 0 to 5");
  EXPECT_EQ(TraceFile("").message(),
            "model.moe.trace: '" + trace_path() + "' is empty, expected a line of expert numbers for each token");
  moe::MoeConfig missing = config(moe::Routing::trace);
  missing.trace = "/nonexistent/trace";
  EXPECT_EQ(message_of(ExitCode::data, [&] { moe::RoutingOverride(missing, 0); }),
            "model.moe.trace: cannot read '/nonexistent/trace': no such file");
}

}  // namespace
}  // namespace hexad::tests
