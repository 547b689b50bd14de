#include "tools/scale/run_metrics.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "framework/telemetry/metrics_json.h"
#include "tests/telemetry/temporary_folder.h"

namespace hexad::scale {
namespace {

std::string line_of(int64_t step) {
  telemetry::StepMetrics metrics;
  metrics.step = step;
  return telemetry::to_json_line(metrics) + "\n";
}

class ScaleRunMetrics : public testing::Test {
 protected:
  // Reads metrics of three steps from a file with this text.
  RunMetrics read(const std::string& text) const {
    telemetry::write_text(folder_ / "metrics.jsonl", text);
    return read_run_metrics((folder_ / "").string(), 3);
  }
  void expect_problem(const std::string& text, const std::string& part) const {
    const RunMetrics metrics = read(text);
    EXPECT_TRUE(metrics.steps.empty());
    EXPECT_NE(metrics.problem.find(part), std::string::npos) << part << "\nis not in\n" << metrics.problem;
  }

  telemetry::TemporaryFolder folder_;
};

TEST_F(ScaleRunMetrics, HaveEveryStepOnce) {
  const RunMetrics metrics = read(line_of(1) + line_of(2) + line_of(3));
  EXPECT_EQ(metrics.problem, "");
  EXPECT_EQ(metrics.steps.size(), 3u);
}

TEST_F(ScaleRunMetrics, MissingFilesAreNamed) {
  const std::string problem = read_run_metrics((folder_ / "none").string(), 3).problem;
  EXPECT_NE(problem.find("none/metrics.jsonl: no such file"), std::string::npos) << problem;
}

TEST_F(ScaleRunMetrics, MissingRepeatedAndUnreadableStepsAreNamed) {
  expect_problem(line_of(1), "metrics.jsonl ends before step 2 of 3");
  expect_problem(line_of(1) + "{\"kind\": \"st\n" + line_of(3), "metrics.jsonl:2: the line cannot be read");
  expect_problem(line_of(1) + line_of(3), "metrics.jsonl has step 3 in place of step 2 of 3");
  expect_problem(line_of(1) + line_of(2) + line_of(2), "metrics.jsonl has step 2 in place of step 3 of 3");
  expect_problem(line_of(1) + line_of(2) + line_of(3) + line_of(4), "has step 4 after the last step, 3");
}

}  // namespace
}  // namespace hexad::scale
