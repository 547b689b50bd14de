#include "framework/telemetry/comparison.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/base/atomic_file.h"
#include "framework/base/error.h"
#include "framework/telemetry/metrics_json.h"
#include "framework/telemetry/page.h"
#include "framework/telemetry/report_assets.h"
#include "framework/telemetry/report_data.h"
#include "framework/telemetry/units.h"

namespace hexad::telemetry {
namespace {

using Run = ComparisonInputs::Run;

constexpr size_t colours = 7;  // of report.css

std::string row(const Run& run, size_t place, const MetricsHistory& history) {
  const StepMetrics& last = history.steps.back();
  int64_t peak = 0;
  for (const StepMetrics& s : history.steps)
    if (const auto total = s.memory_peak_bytes.find("total"); total != s.memory_peak_bytes.end())
      peak = std::max(peak, total->second);
  const std::string heldout = history.evals.empty() ? "" : human_loss(history.evals.back().loss);
  const std::string cells[] = {grouped(last.step),
                               human_count(static_cast<double>(last.tokens)),
                               human_loss(last.loss),
                               heldout,
                               human_count(median(history.steps, &StepMetrics::tokens_per_second)),
                               human_bytes(static_cast<double>(peak)),
                               run.layout};
  std::string out =
      fmt::format("<tr><th scope=\"row\"><i class=\"swatch\" style=\"background:var(--series-{})\"></i>{}</th>",
                  place % colours + 1, escaped(run.name));
  for (const std::string& cell : cells) out += "<td>" + escaped(cell) + "</td>";
  return out + "</tr>\n";
}

std::string differences_block(const std::vector<Run>& runs) {
  std::string rows;
  for (const Run& run : runs) {
    std::string text;
    for (const std::string& line : run.differences) text += (text.empty() ? "" : "<br>") + escaped(line);
    if (!text.empty()) rows += "<tr><th scope=\"row\">" + escaped(run.name) + "</th><td>" + text + "</td></tr>\n";
  }
  if (rows.empty()) return "";
  return fmt::format(
      "<section class=\"card wide\"><h2>What differs from {}</h2>\n<table class=\"facts\"><tbody>\n{}</tbody></table>"
      "</section>\n",
      escaped(runs.front().name), rows);
}

}  // namespace

void write_comparison(const ComparisonInputs& inputs) {
  require_charts(inputs.charts, inputs.output.string());
  std::string rows, data, title;
  for (size_t i = 0; i < inputs.runs.size(); ++i) {
    const Run& run = inputs.runs[i];
    const MetricsHistory history = read_metrics(run.metrics);
    if (history.steps.empty())
      base::fail(base::ExitCode::data, "cannot write ", inputs.output.string(), ": ", run.metrics.string(),
                 " holds no training step");
    rows += row(run, i, history);
    data +=
        fmt::format("{}{{\"name\":{},\"columns\":{}}}", i == 0 ? "" : ",", json_text(run.name), report_data(history));
    title += (i == 0 ? "" : ", ") + run.name;
  }
  base::write_file(inputs.output, filled(comparison_page, {{"title", escaped(title)},
                                                           {"style", std::string(report_style)},
                                                           {"toolbar", std::string(report_toolbar)},
                                                           {"rows", rows},
                                                           {"differences", differences_block(inputs.runs)},
                                                           {"data", "[" + data + "]"},
                                                           {"library", std::string(inputs.charts)},
                                                           {"script", std::string(comparison_script)}}));
}

}  // namespace hexad::telemetry
