#include "framework/telemetry/report.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "framework/telemetry/comparison.h"
#include "framework/telemetry/report_data.h"
#include "framework/telemetry/timeline_svg.h"
#include "tests/telemetry/sample_timelines.h"
#include "tests/telemetry/temporary_folder.h"

namespace hexad::telemetry {
namespace {

constexpr std::string_view charts = "/* charts */";

std::vector<StepMetrics> steps_with_losses(const std::vector<double>& losses) {
  std::vector<StepMetrics> steps(losses.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    steps[i].step = static_cast<int64_t>(i) + 1;
    steps[i].tokens = steps[i].step * 100;
    steps[i].step_seconds = 0.5;
    steps[i].loss = losses[i];
  }
  return steps;
}

/// Writes a run of ten steps to `folder`. Returns the inputs of its report.
ReportInputs small_run(const TemporaryFolder& folder) {
  std::string lines;
  for (const auto& s : steps_with_losses(std::vector<double>(10, 2.5))) lines += to_json_line(s) + "\n";
  lines += to_json_line(EvalMetrics{.step = 10, .tokens = 2048, .loss = 2.25, .bits_per_byte = 1.75}) + "\n";
  write_text(folder / "metrics.jsonl", lines);
  ReportInputs inputs;
  inputs.metrics = folder / "metrics.jsonl";
  inputs.output = folder / "report.html";
  inputs.run.name = "small";
  inputs.charts = charts;
  return inputs;
}

std::string report_of(const ReportInputs& inputs) {
  write_report(inputs);
  return contents(inputs.output);
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

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
    FAIL() << message;
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

TEST(ReportData, ThinningKeepsSpikesAndBothEnds) {
  std::vector<double> losses(100'000, 3.0);
  losses[12'345] = 50;
  losses[77'777] = 0.5;
  losses[55'555] = std::numeric_limits<double>::quiet_NaN();
  const std::vector<size_t> kept = thin(steps_with_losses(losses), 1000);
  EXPECT_LE(kept.size(), 1002u);
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
  for (size_t index : {0, 12'345, 55'555, 77'777, 99'999})
    EXPECT_TRUE(std::binary_search(kept.begin(), kept.end(), index)) << index;
}

TEST(ReportData, ShortRunIsKeptWhole) {
  EXPECT_EQ(thin(steps_with_losses({3, 2, 1}), 1000), (std::vector<size_t>{0, 1, 2}));
  EXPECT_TRUE(thin({}, 1000).empty());
}

TEST(ReportData, SnapshotsAreSpreadOverStepsWithLoads) {
  std::vector<StepMetrics> steps = steps_with_losses(std::vector<double>(101, 1.0));
  for (size_t i = 0; i < steps.size(); i += 10) steps[i].expert_load = {{0.5, 0.5}};
  EXPECT_EQ(expert_load_snapshots(steps, 3), (std::vector<size_t>{0, 50, 100}));
  EXPECT_EQ(expert_load_snapshots(steps, 50).size(), 11u);
  EXPECT_EQ(expert_load_snapshots(steps, 1), (std::vector<size_t>{100}));
  EXPECT_TRUE(expert_load_snapshots(steps, 0).empty());
}

TEST(ReportData, ColumnsAlignAndMissingValuesAreNullOrZero) {
  MetricsHistory history;
  history.steps = steps_with_losses({4, std::numeric_limits<double>::infinity(), 2});
  history.steps[1].expert_load = {{}, {0.25, 0.75}};
  history.steps[1].prediction_loss = 5;
  history.steps[2].memory_peak_bytes["activation"] = 7;
  history.steps[2].comm["ep"] = {.bytes = 5, .seconds = 0.25, .exposed_seconds = 0.125};
  history.evals = {{.step = 2, .tokens = 10, .loss = 3, .bits_per_byte = 1.5}};
  const auto data = nlohmann::json::parse(report_data(history));
  using Json = nlohmann::json;
  EXPECT_EQ(data["loss"], Json::parse("[4, null, 2]"));
  EXPECT_EQ(data["prediction_loss"], Json::parse("[null, 5, null]"));
  EXPECT_EQ(data["seconds"], Json::parse("[0.5, 1.0, 1.5]"));
  EXPECT_EQ(data["memory"]["activation"], Json::parse("[0, 0, 7]"));
  EXPECT_EQ(data["comm"]["ep"]["exposed_seconds"], Json::parse("[0, 0, 0.125]"));
  EXPECT_EQ(data["experts"]["layers"], Json::parse("[1]")) << "layer 0 is dense";
  EXPECT_EQ(data["experts"]["max_over_mean"], Json::parse("[[null, 1.5, null]]"));
  EXPECT_EQ(data["experts"]["snapshots"], Json::parse(R"([{"step": 2, "load": [[0.25, 0.75]]}])"));
  EXPECT_EQ(data["heldout"][0]["tokens"], Json::parse("[200]"))
      << "the position on the axis is the number of training tokens";
}

TEST(ReportData, HeldOutLossesOfDifferentTextsAreDifferentCurves) {
  const auto eval = [](int64_t step, int64_t sequences, int64_t of, int64_t tokens) {
    return EvalMetrics{
        .step = step, .tokens = tokens, .loss = 2, .sequences = sequences, .of_sequences = of, .seconds = 0};
  };
  MetricsHistory history;
  history.steps = steps_with_losses(std::vector<double>(40, 3));
  // Evaluations on four held-out texts:
  // - one evaluation of an older program, which did not record its sequences
  // - two evaluations of 4 of the 9 sequences
  // - one evaluation of the whole set
  // - a later evaluation with more held-out data
  history.evals = {eval(5, 0, 0, 2'000), eval(10, 4, 9, 60), eval(20, 4, 9, 60), eval(20, 9, 9, 130),
                   eval(30, 4, 1'200, 60)};
  const auto data = nlohmann::json::parse(report_data(history));
  std::vector<std::string> names;
  for (const auto& curve : data["heldout"]) names.push_back(curve["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"held-out, 2.00 k tokens", "held-out, 4 of 9 sequences",
                                             "held-out, whole set", "held-out, 4 of 1,200 sequences"}));
  EXPECT_EQ(data["heldout"][1]["step"], nlohmann::json::parse("[10, 20]"));
}

TEST(ReportData, StepWithoutTargetsLeavesAGap) {
  MetricsHistory history;
  history.steps = steps_with_losses({4, 3, 2});
  history.steps[1].loss.reset();
  EXPECT_EQ(nlohmann::json::parse(report_data(history))["loss"], nlohmann::json::parse("[4, null, 2]"));
}

TEST(ReportData, StepsWithoutTargetsDoNotHideASpike) {
  std::vector<StepMetrics> steps = steps_with_losses(std::vector<double>(10'000, 3.0));
  for (size_t i = 0; i < steps.size(); i += 2) steps[i].loss.reset();
  steps[4'321].loss = 50;
  steps[7'777].loss = 0.5;
  const std::vector<size_t> kept = thin(steps, 100);
  for (size_t index : {4'321, 7'777}) EXPECT_TRUE(std::ranges::binary_search(kept, index)) << index;
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
  expect_rows("the starts of the run tell the ranks of each step");
  inputs.parts.clear();
  expect_rows("fewer than eight listed ranks are all of them");
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

Sweep small_sweep(const TemporaryFolder& folder) {
  const MetricsHistory history = read_metrics(small_run(folder).metrics);
  Sweep sweep{
      .runs = {{.name = "plain",
                .folder = "runs/plain",
                .ranks = 1,
                .layout = "1 rank: pp 1 x dp 1 x cp 1 x tp 1 | pp 1 x edp 1 x ep 1 x etp 1 (horizontal)"},
               {.name = "<b>",
                .folder = "runs/<b>",
                .ranks = 2,
                .layout = "2 ranks: pp 1 x dp 2 x cp 1 x tp 1 | pp 1 x edp 1 x ep 2 x etp 1 (vertical), zero 1"}},
      .keys = {"optim.lr"}};
  for (SweepRun& run : sweep.runs) run.summary = summary_of(history, 0), run.columns = report_data(history);
  sweep.runs[0].settings["optim.lr"] = "1";
  sweep.runs[1].settings["optim.lr"] = "2";
  sweep.runs[1].differences = {"optim.lr: 1 -> 2"};
  return sweep;
}

TEST(Comparison, ContainsEveryRunUnderItsName) {
  const TemporaryFolder folder;
  const auto output = folder / "comparison.html";
  write_comparison(small_sweep(folder), output, charts);
  const std::string page = contents(output);
  EXPECT_NE(page.find("<h1>optim.lr: 1, 2 on 1, 2 ranks</h1>"), std::string::npos);
  EXPECT_NE(page.find("<p class=\"muted\">plain, &lt;b&gt;</p>"), std::string::npos);
  EXPECT_NE(page.find("{\"name\":\"\\u003cb>\",\"columns\":{\"step\":[1,"), std::string::npos);
  EXPECT_EQ(page.find("<b>"), std::string::npos) << "names are escaped";
  EXPECT_NE(page.find("Differences from plain"), std::string::npos);
}

TEST(Comparison, HasATableOfTheRunsSpeed) {
  const TemporaryFolder folder;
  const auto output = folder / "comparison.html";
  Sweep sweep = small_sweep(folder);
  sweep.runs[0].summary.model_flops_per_second = 1000;
  RunSummary& second = sweep.runs[1].summary;
  second.step_seconds = {0.09, 0.1, 0.2};
  second.mfu = 0.4;
  second.model_flops_per_second = 1500;
  second.exposed_share = {{"ep", 0.25}, {"dp", 0.05}};
  write_comparison(sweep, output, charts);
  std::string page = contents(output);
  EXPECT_NE(page.find("<th>Exposed</th><th>ep</th>"), std::string::npos) << "each class has a column";
  EXPECT_NE(page.find("<td>100 ms</td><td>90.0 ms – 200 ms</td>"), std::string::npos);
  EXPECT_NE(page.find("<td>1 rank</td>"), std::string::npos);
  EXPECT_NE(page.find("<td>2 ranks: dp 2, ep 2, zero 1</td>"), std::string::npos) << "axes of size one are omitted";
  sweep.runs[1].layout =
      "4 ranks: pp 1 x dp 2 x cp 1 x tp 2 | pp 1 x edp 2 x ep 2 x etp 1 (order tp-cp-dp-ep-pp), zero 1";
  write_comparison(sweep, output, charts);
  EXPECT_NE(contents(output).find("<td>4 ranks: dp 2, tp 2, edp 2, ep 2, order tp-cp-dp-ep-pp, zero 1</td>"),
            std::string::npos);
  EXPECT_NE(page.find("<td>40.0%</td><td>75.0%</td><td>30.0%</td><td>25.0%</td>"), std::string::npos)
      << "1.5 times the speed on two ranks is an efficiency of 75%";
  EXPECT_EQ(page.find("above 100%"), std::string::npos);
  second.mfu = 1.2;
  write_comparison(sweep, output, charts);
  page = contents(output);
  EXPECT_NE(page.find("An MFU above 100% means that the peak"), std::string::npos);
  EXPECT_EQ(page.find("An efficiency above 100%"), std::string::npos);
  second.model_flops_per_second = 2500;
  write_comparison(sweep, output, charts);
  EXPECT_NE(contents(output).find("a rank of that run does more FLOP/s than a rank of plain"), std::string::npos);
}

TEST(Comparison, HasTheFiguresOfTheCsv) {
  const TemporaryFolder folder;
  const auto output = folder / "comparison.html";
  Sweep sweep = small_sweep(folder);
  for (SweepRun& run : sweep.runs) run.summary.exposed_share = {{"ep", 0.25}, {"control", 0.05}};
  write_comparison(sweep, output, charts);
  const std::string csv = csv_of(sweep);
  // The page has no column for the folder, and it shows both percentiles in one column.
  const size_t csv_columns = count(csv.substr(0, csv.find('\n')), ",") + 1;
  EXPECT_EQ(count(contents(output), "<th>"), csv_columns - 2 + 1) << "both tables have a column for the name";
  for (const char* name : {"State", "Peak memory", "Timed steps", "Model FLOP/s", "ep", "control"})
    EXPECT_NE(contents(output).find(base::cat("<th>", name, "</th>")), std::string::npos) << name;
}

TEST(Comparison, MarksRunsWithTrouble) {
  const TemporaryFolder folder;
  const auto output = folder / "comparison.html";
  Sweep sweep = small_sweep(folder);
  sweep.runs[0].state = "finished";
  write_comparison(sweep, output, charts);
  EXPECT_EQ(contents(output).find("class=\"troubled\""), std::string::npos);
  EXPECT_EQ(contents(output).find("class=\"notice\"><b>"), std::string::npos);
  sweep.runs[1].state = "failed";
  sweep.runs[1].trouble = "The run failed after step 10: no space";
  write_comparison(sweep, output, charts);
  const std::string page = contents(output);
  EXPECT_NE(page.find("<p class=\"notice\"><b>&lt;b&gt;</b>: The run failed after step 10: no space</p>"),
            std::string::npos);
  EXPECT_EQ(count(page, "<tr class=\"troubled\">"), 2u) << "both tables mark the run";
  EXPECT_NE(page.find("<td>failed</td>"), std::string::npos);
}

TEST(Comparison, MentionsTheChartOfSharesOnlyIfItIsDrawn) {
  const TemporaryFolder folder;
  const auto output = folder / "comparison.html";
  Sweep sweep = small_sweep(folder);
  for (SweepRun& run : sweep.runs) run.summary.exposed_share.clear();
  write_comparison(sweep, output, charts);
  EXPECT_EQ(contents(output).find("chart of step times"), std::string::npos);
  sweep.runs[1].summary.exposed_share = {{"dp", 0.25}};
  write_comparison(sweep, output, charts);
  EXPECT_NE(contents(output).find("chart of step times"), std::string::npos);
}

TEST(Comparison, ExplainsItsClassesInTheColoursOfTheReport) {
  const TemporaryFolder folder;
  const auto output = folder / "comparison.html";
  Sweep sweep = small_sweep(folder);
  sweep.runs[1].summary.exposed_share = {{"dp", 0.25}, {"ep", 0.05}};
  write_comparison(sweep, output, charts);
  ReportInputs inputs = small_run(folder);
  StepMetrics step = steps_with_losses({2.5}).front();
  step.comm = {{"dp", {.bytes = 10, .seconds = 0.1}}, {"ep", {.bytes = 10, .seconds = 0.1}}, {"tp", {.bytes = 0}}};
  write_text(inputs.metrics, to_json_line(step) + "\n");
  for (const std::string& page : {contents(output), report_of(inputs)}) {
    const size_t ep = page.find("<li><i style=\"background: var(--series-1)\"></i><b>ep</b> expert parallelism: ");
    const size_t dp = page.find("<li><i style=\"background: var(--series-5)\"></i><b>dp</b> data parallelism: ");
    EXPECT_NE(ep, std::string::npos);
    EXPECT_NE(dp, std::string::npos);
    EXPECT_LT(ep, dp);
    EXPECT_EQ(page.find("tensor parallelism"), std::string::npos) << "tp sends nothing";
    EXPECT_NE(page.find("const trafficColour = (name) => series("), std::string::npos);
    EXPECT_EQ(page.find("--class-"), std::string::npos) << "the page must use the report's colours";
  }
}

}  // namespace
}  // namespace hexad::telemetry
