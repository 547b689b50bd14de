#include "framework/telemetry/report.h"

#include <gtest/gtest.h>

#include <limits>

#include "framework/base/error.h"
#include "framework/telemetry/timeline_svg.h"
#include "tests/telemetry/sample_timelines.h"
#include "tests/telemetry/small_reports.h"
#include "tests/telemetry/temporary_folder.h"

namespace hexad::telemetry {
namespace {

TEST(Report, HoldsTheSummaryTheRecipeAndTheCharts) {
  const TemporaryFolder folder;
  ReportInputs inputs = small_run(folder);
  inputs.run.total_steps = 10;
  inputs.run.parameters = 46'702'792'704;
  inputs.run.active_parameters = 12'879'925'248;
  inputs.recipe = "model:\n  layers: 4\n";
  inputs.environment = {{"Machine", "two cores"}};
  inputs.samples = {{"In the beginning", " was the word"}};
  const std::string html = report_of(inputs);
  for (const char* part :
       {"<h1>small</h1>", "2.2500", "1.7500", "46.7 B", "46,702,792,704 (12,879,925,248 active per token)", "layers: 4",
        "two cores", "<b>In the beginning</b> was the word", "/* charts */"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
}

TEST(Report, ShowsTheRecordedSchedule) {
  const TemporaryFolder folder;
  ReportInputs inputs = small_run(folder);
  EXPECT_EQ(report_of(inputs).find("<h2>Schedule</h2>"), std::string::npos)
      << "without a recorded step, there is no section";
  StepMetrics s = steps_with_losses({1}).front();
  s.schedule = {.predicted_seconds = 0.9, .measured_seconds = 1, .exposed_seconds = {{"<S>", 0.25}}};
  write_text(inputs.metrics, to_json_line(s) + "\n");
  const SampleTimelines sample;
  inputs.timelines = {timeline_svg("forward", {&sample.measured, &sample.predicted})};
  const std::string html = report_of(inputs);
  for (const char* part : {"<h2>Schedule</h2>", "(-10.0%)", "&lt;S&gt; 250.00 ms", "<title>forward</title>", ">D0<"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
}

TEST(Report, ComparesTheChosenScheduleWithThePapersAdvice) {
  const TemporaryFolder folder;
  const ReportInputs inputs = small_run(folder);
  StepMetrics s = steps_with_losses({1}).front();
  s.choice = {
      .schedule = "chunks <2>",
      .measured_seconds = 0.002,
      .advice = {{.adviser = "Parm", .schedule = "chunks 4", .verdict = "wrong", .slower = 0.25, .measured = true},
                 {.adviser = "MoNTA", .verdict = "none", .reason = "needs <tp>"}}};
  write_text(inputs.metrics, to_json_line(s) + "\n");
  const std::string html = report_of(inputs);
  for (const char* part : {"<h2>Schedule</h2>", "chosen chunks &lt;2&gt;, measured 2.00 ms a layer",
                           "<th scope=\"row\">Parm</th><td>chunks 4</td><td>wrong</td><td>+25.0%, measured</td>",
                           "<th scope=\"row\">MoNTA</th><td></td><td>none</td><td>needs &lt;tp&gt;</td>"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
}

TEST(Report, ShowsAPredictedStepNextToTheMeasuredStep) {
  const TemporaryFolder folder;
  ReportInputs inputs = small_run(folder);
  EXPECT_EQ(report_of(inputs).find("<h2>Predicted and measured step</h2>"), std::string::npos);
  const SampleTimelines sample;
  inputs.prediction =
      ReportInputs::Prediction{.about = "A step on <c>",
                               .rows = {{"step time", "2 s", "3 s", "1.50"}},
                               .notes = {"a note"},
                               .timelines = {timeline_svg("step 4, rank 0", {&sample.measured, &sample.predicted})}};
  const std::string html = report_of(inputs);
  for (const char* part : {"<h2>Predicted and measured step</h2>", "A step on &lt;c&gt;",
                           "<th scope=\"row\">step time</th><td>2 s</td><td>3 s</td><td>1.50</td>", "a note",
                           "<title>step 4, rank 0</title>", "<title>measured D0", "<title>predicted D0"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
}

TEST(Report, KeepsPointsAndCellsVisible) {
  const TemporaryFolder folder;
  const std::string page = report_of(small_run(folder));
  // Points of another held-out text are hollow and in front, so that they do not hide the dot of the same step.
  EXPECT_NE(page.find("pointStyle: 'rectRot', pointBackgroundColor: 'transparent'"), std::string::npos);
  EXPECT_NE(page.find("pen.fillStyle = Heatmap.readable(shade)"), std::string::npos)
      << "the text of cells must be readable on any colour";
}

TEST(Report, FetchesNoOtherFile) {
  const TemporaryFolder folder;
  const std::string html = report_of(small_run(folder));
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
  for (const char* part : {"http://", "https://", "src=", "@import", "url("})
    EXPECT_EQ(html.find(part), std::string::npos) << part;
}

TEST(Report, TextCannotBecomeMarkupOrScript) {
  const TemporaryFolder folder;
  ReportInputs inputs = small_run(folder);
  const std::string nasty = "</script></pre><script>alert(1)</script>{{data}}&\"";
  inputs.run.name = inputs.recipe = nasty;
  inputs.environment = {{nasty, nasty}};
  inputs.samples = {{nasty, nasty}};
  StepMetrics s = steps_with_losses({1}).front();
  s.memory_peak_bytes[nasty] = 1;
  write_text(inputs.metrics, to_json_line(s) + "\n");
  const std::string html = report_of(inputs);
  EXPECT_EQ(html.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(count(html, "<script"), 3u) << "only data, library and program are scripts";
  EXPECT_EQ(count(html, "</script"), 3u);
  EXPECT_EQ(count(html, "{{data}}"), 9u) << "placeholders in inserted text are not replaced";
  EXPECT_NE(html.find(R"(\u003c/script>)"), std::string::npos) << "tags inside the JSON must be escaped";
}

void expect_error(const ReportInputs& inputs, base::ExitCode code, const std::string& message) {
  try {
    write_report(inputs);
    FAIL() << "no error was thrown; expected: " << message;
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), code);
    EXPECT_EQ(e.what(), message);
  }
}

TEST(Report, NamesTheReasonOfAWriteFailure) {
  const TemporaryFolder folder;
  ReportInputs inputs = small_run(folder);
  inputs.charts = "";
  expect_error(inputs, base::ExitCode::usage,
               "cannot write " + inputs.output.string() +
                   ": this program was built without Chart.js; install it (Debian: libjs-chart.js) and build again");
  inputs.charts = charts;
  write_text(inputs.metrics, "");
  expect_error(inputs, base::ExitCode::data,
               "cannot write " + inputs.output.string() + ": " + inputs.metrics.string() +
                   " contains no training step, expected at least one");
  EXPECT_FALSE(std::filesystem::exists(inputs.output));
}

TEST(Report, SkippedStepsAndUnreadableLinesAreReported) {
  const TemporaryFolder folder;
  ReportInputs inputs = small_run(folder);
  StepMetrics s = steps_with_losses({std::numeric_limits<double>::quiet_NaN()}).front();
  s.skipped_steps = 1;
  write_text(inputs.metrics, "garbage\n" + to_json_line(s) + "\n");
  const std::string html = report_of(inputs);
  EXPECT_NE(html.find("1 step was skipped because the loss or a gradient was not finite."), std::string::npos);
  EXPECT_NE(html.find("1 line of metrics.jsonl could not be read and is left out (the first is line 1)."),
            std::string::npos);
}

TEST(Report, StepsWithoutTargetsAreReportedWithoutALoss) {
  const TemporaryFolder folder;
  const ReportInputs inputs = small_run(folder);
  std::vector<StepMetrics> steps = steps_with_losses({4, 3, 2});
  steps[2].loss.reset();
  for (StepMetrics& s : steps) s.skipped_steps = s.step - 1;  // counts step 2, and step 3, which has no targets
  std::string lines;
  for (const auto& s : steps) lines += to_json_line(s) + "\n";
  write_text(inputs.metrics, lines + to_json_line(EvalMetrics{.step = 3}) + "\n");
  const std::string html = report_of(inputs);
  for (const char* part :
       {"1 step had no targets, so it has no loss and changed no weights.", "1 step was skipped because",
        "<dt>Training loss</dt><dd>3.0000<small>at step 2, from 4.0000 at step 1</small>",
        "<dt>Held-out loss</dt><dd>no targets<small>step 3</small>"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
}

TEST(Report, MfuAboveOneIsExplained) {
  const TemporaryFolder folder;
  const ReportInputs inputs = small_run(folder);
  StepMetrics s = steps_with_losses({1}).front();
  s.mfu = 1.26;
  write_text(inputs.metrics, to_json_line(s) + "\n");
  EXPECT_NE(report_of(inputs).find("<dd>126.0%<small>more than the peak, which is set or measured too low"),
            std::string::npos);
}

TEST(Report, ListsTheLayoutAndChangesOfEachStart) {
  const TemporaryFolder folder;
  ReportInputs inputs = small_run(folder);
  inputs.run.ranks = 2;
  inputs.parts = {{.after = 0, .date = "monday", .layout = "1 rank", .changes = {}}};
  EXPECT_EQ(report_of(inputs).find("Parts of the run"), std::string::npos) << "a single start needs no list";
  inputs.parts.push_back({.after = 4, .date = "tuesday", .layout = "2 ranks", .changes = {"optim.lr: 1 -> <2>"}});
  const std::string page = report_of(inputs);
  EXPECT_NE(page.find("<td>1 – 4</td><td>monday</td><td>1 rank</td><td></td>"), std::string::npos);
  EXPECT_NE(page.find("<td>5 – 10</td><td>tuesday</td><td>2 ranks</td><td>optim.lr: 1 -&gt; &lt;2&gt;</td>"),
            std::string::npos);
  EXPECT_NE(page.find("10 steps, the last 6 on 2 ranks"), std::string::npos);
  EXPECT_NE(page.find("500 ms per step, median of steps 6 – 10"), std::string::npos)
      << "the median is the same as in a comparison";
  inputs.parts.push_back({.after = 10, .date = "wednesday", .layout = "4 ranks", .changes = {}});
  EXPECT_NE(report_of(inputs).find("median of steps 6 – 10"), std::string::npos) << "the last start has no steps yet";
}

TEST(Report, CountsOnlyStepsWithTheRank) {
  const TemporaryFolder folder;
  ReportInputs inputs = small_run(folder);
  std::string lines;
  for (StepMetrics& s : steps_with_losses(std::vector<double>(10, 2.5))) {
    const int ranks = s.step <= 4 ? 2 : 4;
    std::vector<RankTime> times(ranks, {.step_seconds = 1, .waited_seconds = 0.5});
    times.back().waited_seconds = 0.25;
    s.ranks = rank_times(times);
    lines += to_json_line(s) + "\n";
  }
  write_text(inputs.metrics, lines);
  const auto expect_rows = [&](const std::string& why) {
    const std::string page = report_of(inputs);
    EXPECT_NE(page.find("<tr><td>3</td><td>6 of 6 steps</td>"), std::string::npos) << why;
    EXPECT_NE(page.find("<tr><td>1</td><td>4 of 10 steps</td>"), std::string::npos) << why;
  };
  inputs.parts = {{.after = 0, .date = "", .layout = "2 ranks", .changes = {}, .ranks = 2},
                  {.after = 4, .date = "", .layout = "4 ranks", .changes = {}, .ranks = 4}};
  expect_rows("the parts of the run contain the number of ranks of each step");
  inputs.parts.clear();
  expect_rows("a list of fewer than eight ranks contains all ranks");
}

TEST(Report, HasTheReasonOfAnEarlyEndAndTheTimeOfCheckpoints) {
  const TemporaryFolder folder;
  ReportInputs inputs = small_run(folder);
  EXPECT_EQ(report_of(inputs).find("<dt>Checkpoint</dt>"), std::string::npos);
  inputs.trouble = "The run failed after step 10: no space";
  write_text(inputs.metrics,
             contents(inputs.metrics) + to_json_line(SaveMetrics{.step = 10, .bytes = 1 << 20, .seconds = 0.5}) + "\n");
  const std::string page = report_of(inputs);
  EXPECT_NE(page.find("<p class=\"notice\">The run failed after step 10: no space</p>"), std::string::npos);
  EXPECT_NE(page.find("<dt>Checkpoint</dt><dd>1.00 MiB<small>written 1 time, 500 ms each (median), 9.1% of the run"),
            std::string::npos)
      << page.substr(page.find("<dt>Checkpoint"), 200);
}

}  // namespace
}  // namespace hexad::telemetry
