#include "framework/telemetry/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "framework/base/atomic_file.h"
#include "framework/base/error.h"
#include "framework/telemetry/report_assets.h"
#include "framework/telemetry/report_data.h"
#include "framework/telemetry/report_ranks.h"
#include "framework/telemetry/units.h"

namespace hexad::telemetry {

namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\0':
        out += "\xef\xbf\xbd";
        break;  // U+FFFD, as HTML parsers do
      default:
        out += c;
    }
  }
  return out;
}

/// Replaces {{name}} in one pass: what is put in is never searched again.
std::string filled(std::string_view page, const std::map<std::string_view, std::string>& parts) {
  std::string out;
  for (;;) {
    const size_t open = page.find("{{");
    out += page.substr(0, open);
    if (open == std::string_view::npos) return out;
    const size_t close = page.find("}}", open);
    base::require(close != std::string_view::npos, "report.html: '{{' without '}}'");
    const auto part = parts.find(page.substr(open + 2, close - open - 2));
    base::require(part != parts.end(), "report.html: unknown part ", page.substr(open, close + 2 - open));
    out += part->second;
    page.remove_prefix(close + 2);
  }
}

std::string tile(std::string_view name, std::string_view value, std::string_view note) {
  return fmt::format("<div class=\"tile\"><dt>{}</dt><dd>{}<small>{}</small></dd></div>\n", escaped(name),
                     escaped(value), escaped(note));
}

/// Robust against the slow first steps and the pauses of a shared machine. NaN when nothing was measured.
double median(const std::vector<StepMetrics>& steps, double StepMetrics::*member) {
  std::vector<double> values;
  for (const auto& s : steps)
    if (std::isfinite(s.*member)) values.push_back(s.*member);
  if (values.empty()) return std::nan("");
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string tiles(const MetricsHistory& history, const RunInfo& run) {
  const StepMetrics &first = history.steps.front(), &last = history.steps.back();
  double seconds = 0;
  for (const auto& s : history.steps) seconds += std::isfinite(s.step_seconds) ? s.step_seconds : 0;
  std::string out;
  if (!history.evals.empty()) {
    const EvalMetrics& e = history.evals.back();
    out +=
        tile("Held-out loss", fmt::format("{:.4f}", e.loss), fmt::format("nats per token, step {}", grouped(e.step)));
    out += tile("Bits per byte", fmt::format("{:.4f}", e.bits_per_byte),
                fmt::format("held-out, {} tokens", human_count(static_cast<double>(e.tokens))));
  }
  out += tile("Training loss", fmt::format("{:.4f}", last.loss),
              fmt::format("from {:.4f} at step {}", first.loss, grouped(first.step)));
  out += tile("Tokens", human_count(static_cast<double>(last.tokens)),
              run.total_steps > 0 ? fmt::format("step {} of {}", grouped(last.step), grouped(run.total_steps))
                                  : fmt::format("{} steps", grouped(last.step)));
  out += tile("Training time", human_duration(seconds),
              fmt::format("{} a step (median)", human_duration(median(history.steps, &StepMetrics::step_seconds))));
  out += tile("Tokens per second", human_count(median(history.steps, &StepMetrics::tokens_per_second)),
              human_quantity(median(history.steps, &StepMetrics::model_flops_per_second), "FLOP/s") + " (medians)");
  if (const double mfu = median(history.steps, &StepMetrics::mfu); mfu > 0)
    out += tile("MFU", human_percent(mfu), "of the machine's peak");
  if (run.parameters > 0)
    out += tile("Parameters", human_count(static_cast<double>(run.parameters)),
                human_count(static_cast<double>(run.active_parameters)) + " active a token");
  return out;
}

std::string notices(const MetricsHistory& history) {
  std::string out;
  auto notice = [&](const std::string& text) { out += fmt::format("<p class=\"notice\">{}</p>\n", escaped(text)); };
  if (const int64_t skipped = history.steps.back().skipped_steps; skipped > 0)
    notice(fmt::format("{} step{} skipped because the loss or a gradient was not finite.", grouped(skipped),
                       skipped == 1 ? " was" : "s were"));
  if (const size_t lines = history.unreadable_lines.size(); lines > 0)
    notice(fmt::format("{} line{} of metrics.jsonl could not be read and {} left out (the first is line {}).", lines,
                       lines == 1 ? "" : "s", lines == 1 ? "is" : "are", history.unreadable_lines.front()));
  return out;
}

std::string fact_rows(const ReportInputs& inputs) {
  std::string out;
  auto row = [&](std::string_view name, std::string_view value) {
    out += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", escaped(name), escaped(value));
  };
  if (inputs.run.parameters > 0)
    row("Parameters",
        fmt::format("{} ({} active a token)", grouped(inputs.run.parameters), grouped(inputs.run.active_parameters)));
  row("Ranks", grouped(inputs.run.ranks));
  for (const auto& fact : inputs.environment) row(fact.name, fact.value);
  return out;
}

std::string sample_blocks(const std::vector<ReportInputs::Sample>& samples) {
  if (samples.empty()) return "";
  std::string out = "<section class=\"card wide\"><h2>Samples</h2>\n";
  for (const auto& s : samples)
    out += fmt::format("<blockquote class=\"sample\"><b>{}</b>{}</blockquote>\n", escaped(s.prompt), escaped(s.text));
  return out + "</section>\n";
}

/// What the recorded steps of the MoE layers' schedules say; nothing when none was recorded.
std::string schedule_block(const MetricsHistory& history, const std::vector<std::string>& timelines) {
  const auto milliseconds = [](double seconds) { return fmt::format("{:.2f} ms", 1e3 * seconds); };
  std::string out;
  for (const StepMetrics& s : history.steps) {
    if (!s.schedule) continue;
    const ScheduleMetrics& m = *s.schedule;
    std::string text =
        fmt::format("Step {}, all passes of the MoE layers, a rank: measured {}, predicted {} ({:+.1f}%).",
                    grouped(s.step), milliseconds(m.measured_seconds), milliseconds(m.predicted_seconds),
                    100 * (m.predicted_seconds / m.measured_seconds - 1));
    std::string exposed;
    for (const auto& [name, seconds] : m.exposed_seconds)
      exposed += fmt::format("{} {} {}", exposed.empty() ? "" : ",", name, milliseconds(seconds));
    if (!exposed.empty()) text += fmt::format(" Exposed communication by collective:{}.", exposed);
    out += fmt::format("<p>{}</p>\n", escaped(text));
  }
  if (out.empty()) return "";
  out = "<section class=\"card wide\"><h2>Schedule</h2>\n" + out;
  for (const std::string& svg : timelines) out += svg;
  return out + "</section>\n";
}

/// The sentence below the title.
std::string subtitle(const MetricsHistory& history, const RunInfo& run) {
  const int64_t steps = history.steps.back().step;
  std::string out = fmt::format("{} step{} on {} rank{}", grouped(steps), steps == 1 ? "" : "s", grouped(run.ranks),
                                run.ranks == 1 ? "" : "s");
  if (run.total_steps > steps) out += fmt::format(", {} planned", grouped(run.total_steps));
  return out;
}

}  // namespace

void write_report(const ReportInputs& inputs) {
  if (inputs.charts.empty())
    base::fail(base::ExitCode::resource, "cannot write ", inputs.output.string(),
               ": this program was built without Chart.js; install it (Debian: libjs-chart.js) and build again");
  base::require(inputs.charts.find("</script") == std::string_view::npos,
                "the chart library would end its own element");
  MetricsHistory history = read_metrics(inputs.metrics);
  if (history.steps.empty())
    base::fail(base::ExitCode::data, "cannot write ", inputs.output.string(), ": ", inputs.metrics.string(),
               " holds no training step");
  const std::string title = inputs.run.name.empty() ? "Training run" : inputs.run.name;
  base::write_file(inputs.output, filled(report_page, {{"title", escaped(title)},
                                                       {"subtitle", escaped(subtitle(history, inputs.run))},
                                                       {"style", std::string(report_style)},
                                                       {"tiles", tiles(history, inputs.run)},
                                                       {"notices", notices(history)},
                                                       {"facts", fact_rows(inputs)},
                                                       {"recipe", escaped(inputs.recipe)},
                                                       {"samples", sample_blocks(inputs.samples)},
                                                       {"schedule", schedule_block(history, inputs.timelines)},
                                                       {"ranks", ranks_block(history)},
                                                       {"data", report_data(history)},
                                                       {"library", std::string(inputs.charts)},
                                                       {"script", std::string(report_script)}}));
}

}  // namespace hexad::telemetry
