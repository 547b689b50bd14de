#include "framework/telemetry/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "framework/base/atomic_file.h"
#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/base/median.h"
#include "framework/base/units.h"
#include "framework/telemetry/page.h"
#include "framework/telemetry/report_assets.h"
#include "framework/telemetry/report_data.h"
#include "framework/telemetry/report_ranks.h"
#include "framework/telemetry/run_summary.h"
#include "framework/telemetry/traffic_legend.h"

namespace hexad::telemetry {

using namespace base;

namespace {

std::string tile(std::string_view name, std::string_view value, std::string_view note) {
  return fmt::format("<div class=\"tile\"><dt>{}</dt><dd>{}<small>{}</small></dd></div>\n", escaped(name),
                     escaped(value), escaped(note));
}

std::string checkpoint_tile(const std::vector<SaveMetrics>& saves, double trained_seconds) {
  std::vector<double> each;
  for (const SaveMetrics& s : saves) each.push_back(s.seconds);
  const double all = std::accumulate(each.begin(), each.end(), 0.0);
  return tile(
      "Checkpoint", human_bytes(static_cast<double>(saves.back().bytes)),
      fmt::format("written {} time{}, {} each (median), {} of the run", each.size(), each.size() == 1 ? "" : "s",
                  human_duration(base::median(each)), human_percent(all / (all + trained_seconds))));
}

std::string heldout_tiles(const EvalMetrics& e) {
  const std::string part = e.total_sequences == 0 ? ""  // lines of older programs lack total_sequences
                           : e.whole_set()
                               ? ", whole set"
                               : fmt::format(", {} of {} sequences", grouped(e.sequences), grouped(e.total_sequences));
  std::string out = tile("Held-out loss", human_loss(e.loss),
                         fmt::format("{}step {}{}", e.loss ? "nats per token, " : "", grouped(e.step), part));
  if (e.bits_per_byte)
    out += tile("Bits per byte", with_decimals(*e.bits_per_byte, 4),
                fmt::format("held-out, {} tokens", human_count(static_cast<double>(e.tokens))));
  return out;
}

std::string loss_tile(const std::vector<StepMetrics>& steps) {
  const auto has_loss = [](const StepMetrics& s) { return s.loss.has_value(); };
  const auto first = std::ranges::find_if(steps, has_loss);
  if (first == steps.end()) return tile("Training loss", human_loss({}), "in any step");
  const auto last = std::find_if(steps.rbegin(), steps.rend(), has_loss);
  const std::string where = last == steps.rbegin() ? "" : fmt::format("at step {}, ", grouped(last->step));
  return tile("Training loss", human_loss(last->loss),
              fmt::format("{}from {} at step {}", where, human_loss(first->loss), grouped(first->step)));
}

/// Returns the summary of the steps of the newest part that has steps. Comparisons of runs use the same summary.
RunSummary newest_summary(const MetricsHistory& history, const std::vector<ReportInputs::Part>& parts) {
  const int64_t last = history.steps.back().step;
  const auto newest = std::find_if(parts.rbegin(), parts.rend(), [&](const auto& part) { return part.after < last; });
  return summary_of(history, newest == parts.rend() ? 0 : newest->after);
}

std::string tiles(const MetricsHistory& history, const ReportInputs& inputs) {
  const RunInfo& run = inputs.run;
  const StepMetrics& last = history.steps.back();
  const RunSummary newest = newest_summary(history, inputs.parts);
  const std::string timed = newest.timed_steps == 1 ? fmt::format("step {}", grouped(last.step))
                                                    : fmt::format("median of steps {} – {}",
                                                                  grouped(newest.first_timed_step), grouped(last.step));
  double seconds = 0;
  for (const auto& s : history.steps) seconds += std::isfinite(s.step_seconds) ? s.step_seconds : 0;
  std::string out;
  if (!history.evals.empty()) out += heldout_tiles(history.evals.back());
  out += loss_tile(history.steps);
  out += tile("Tokens", human_count(static_cast<double>(last.tokens)),
              run.total_steps > 0 ? fmt::format("step {} of {}", grouped(last.step), grouped(run.total_steps))
                                  : fmt::format("{} {}", grouped(last.step), base::plural(last.step, "step")));
  out += tile("Training time", human_duration(seconds),
              fmt::format("{} per step, {}", human_duration(newest.step_seconds.median), timed));
  out += tile("Tokens per second", human_count(newest.tokens_per_second),
              fmt::format("{}, {}", human_quantity(newest.model_flops_per_second, "FLOP/s"), timed));
  if (newest.mfu > 0)
    out += tile(
        "MFU", human_percent(newest.mfu),
        newest.mfu > 1 ? "more than the peak, which is set or measured too low" : "of the machine's peak, " + timed);
  if (!history.saves.empty()) out += checkpoint_tile(history.saves, seconds);
  if (run.parameters > 0)
    out += tile("Parameters", human_count(static_cast<double>(run.parameters)),
                human_count(static_cast<double>(run.active_parameters)) + " active per token");
  return out;
}

std::string notices(const MetricsHistory& history, const std::string& trouble) {
  std::string out;
  auto notice = [&](const std::string& text) { out += fmt::format("<p class=\"notice\">{}</p>\n", escaped(text)); };
  if (!trouble.empty()) notice(trouble);
  const int64_t untargeted = std::ranges::count_if(history.steps, [](const StepMetrics& s) { return !s.loss; });
  if (untargeted > 0)
    notice(fmt::format("{} step{} no targets, so {} no loss and changed no weights.", grouped(untargeted),
                       untargeted == 1 ? " had" : "s had", untargeted == 1 ? "it has" : "they have"));
  if (const int64_t skipped = history.steps.back().skipped_steps - untargeted; skipped > 0)
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
        fmt::format("{} ({} active per token)", grouped(inputs.run.parameters), grouped(inputs.run.active_parameters)));
  if (inputs.run.ranks > 0) row("Ranks", grouped(inputs.run.ranks));
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

/// Returns text with the schedule that a step has chosen. If papers give advice, a table compares this schedule with
/// the advice.
std::string choice_table(const StepMetrics& step) {
  const ChoiceMetrics& c = *step.choice;
  const std::string trials = c.measured_seconds > 0
                                 ? fmt::format("measured {:.2f} ms a layer", 1e3 * c.measured_seconds)
                                 : std::string("by the prediction alone");
  std::string out = fmt::format("<p>Step {}: chosen {}, {}.</p>\n", grouped(step.step), escaped(c.schedule), trials);
  if (c.advice.empty()) return out;
  out +=
      "<table class=\"facts\"><thead><tr><th>Adviser</th><th>Advised schedule</th><th>Verdict</th><th>Time relative to "
      "the chosen schedule</th></tr></thead><tbody>\n";
  for (const AdviceMetrics& a : c.advice) {
    const std::string time = a.verdict == "none"
                                 ? a.reason
                                 : fmt::format("{:+.1f}%, {}", 100 * a.slower, a.measured ? "measured" : "predicted");
    out += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>\n", escaped(a.adviser),
                       escaped(a.schedule), escaped(a.verdict), escaped(time));
  }
  return out + "</tbody></table>\n";
}

/// Returns the section about chosen schedules of the MoE layers and about recorded steps; empty if no step chose a
/// schedule or was recorded.
std::string schedule_block(const MetricsHistory& history, const std::vector<std::string>& timelines) {
  const auto milliseconds = [](double seconds) { return fmt::format("{:.2f} ms", 1e3 * seconds); };
  std::string out;
  for (const StepMetrics& s : history.steps) {
    if (s.choice) out += choice_table(s);
    if (!s.schedule) continue;
    const ScheduleMetrics& m = *s.schedule;
    std::string text = fmt::format(
        "Step {}: all passes of the MoE layers took {} (mean over ranks with MoE layers). The prediction was {} "
        "({:+.1f}%).",
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

/// Returns the section with a predicted step; empty if there is no prediction.
std::string prediction_block(const std::optional<ReportInputs::Prediction>& prediction) {
  if (!prediction) return "";
  std::string out = fmt::format(
      "<section class=\"card wide\"><h2>Predicted and measured step</h2>\n<p>{}</p>\n<table class=\"facts\"><thead>"
      "<tr><th></th><th>Predicted</th><th>Measured</th><th>Measured / predicted</th></tr></thead><tbody>\n",
      escaped(prediction->about));
  for (const auto& [name, predicted, measured, ratio] : prediction->rows)
    out += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>\n", escaped(name),
                       escaped(predicted), escaped(measured), escaped(ratio));
  out += "</tbody></table>\n";
  for (const std::string& note : prediction->notes) out += fmt::format("<p class=\"muted\">{}</p>\n", escaped(note));
  for (const std::string& svg : prediction->timelines) out += svg;
  return out + "</section>\n";
}

/// Returns the section with the table of the run's parts; empty if there are fewer than two parts.
std::string parts_block(const std::vector<ReportInputs::Part>& parts, int64_t last_step) {
  if (parts.size() < 2) return "";
  std::string out =
      "<section class=\"card wide\"><h2>Parts of the run</h2>\n<p class=\"muted\">The run was started several times, "
      "or trained in stages. The recipe of a part that began after step N is recipe-N.yaml in the run directory, with "
      "N in eight digits.</p>\n<table class=\"facts "
      "parts\"><thead><tr><th>Steps</th><th>Started</th><th>Layout</th><th>Changed since the previous "
      "part</th></tr></thead>"
      "<tbody>\n";
  for (size_t i = 0; i < parts.size(); ++i) {
    const ReportInputs::Part& p = parts[i];
    const int64_t first = p.after + 1, last = i + 1 < parts.size() ? parts[i + 1].after : last_step;
    std::string changes;
    for (const std::string& change : p.changes) changes += (changes.empty() ? "" : "<br>") + escaped(change);
    if (changes.empty() && i > 0) changes = "nothing";
    const std::string steps = first > last    ? "none yet"
                              : first == last ? grouped(first)
                                              : grouped(first) + " – " + grouped(last);
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n", steps, escaped(p.date),
                       escaped(p.layout), changes);
  }
  return out + "</tbody></table></section>\n";
}

/// Returns the classes of traffic that sent bytes in any step.
std::set<std::string> classes_of(const MetricsHistory& history) {
  std::set<std::string> classes;
  for (const StepMetrics& s : history.steps)
    for (const auto& [name, c] : s.comm)
      if (c.bytes > 0) classes.insert(name);
  return classes;
}

/// Returns the sentence below the title.
std::string subtitle(const MetricsHistory& history, const RunInfo& run, const std::vector<ReportInputs::Part>& parts) {
  const int64_t steps = history.steps.back().step;
  std::string out = fmt::format("{} step{}", grouped(steps), steps == 1 ? "" : "s");
  // Counts the steps of the last part, because earlier parts may have used other numbers of ranks.
  const int64_t last_part = parts.empty() ? steps : steps - parts.back().after;
  if (last_part < steps) out += fmt::format(", the last {}", grouped(last_part));
  if (run.ranks > 0) out += fmt::format(" on {} rank{}", grouped(run.ranks), run.ranks == 1 ? "" : "s");
  if (run.total_steps > steps) out += fmt::format(", {} planned", grouped(run.total_steps));
  return out;
}

}  // namespace

void write_report(const ReportInputs& inputs) {
  require_charts(inputs.charts, inputs.output.string());
  MetricsHistory history = read_metrics(inputs.metrics);
  if (history.steps.empty())
    base::fail(base::ExitCode::data, "cannot write ", inputs.output.string(), ": ", inputs.metrics.string(),
               " contains no training step, expected at least one");
  const std::string title = inputs.run.name.empty() ? "Training run" : inputs.run.name;
  base::write_file(inputs.output,
                   filled(report_page, {{"title", escaped(title)},
                                        {"subtitle", escaped(subtitle(history, inputs.run, inputs.parts))},
                                        {"style", std::string(report_style)},
                                        {"toolbar", std::string(report_toolbar)},
                                        {"tiles", tiles(history, inputs)},
                                        {"notices", notices(history, inputs.trouble)},
                                        {"facts", fact_rows(inputs)},
                                        {"recipe", escaped(inputs.recipe)},
                                        {"samples", sample_blocks(inputs.samples)},
                                        {"schedule", schedule_block(history, inputs.timelines)},
                                        {"prediction", prediction_block(inputs.prediction)},
                                        {"ranks", ranks_block(history, inputs.parts)},
                                        {"parts", parts_block(inputs.parts, history.steps.back().step)},
                                        {"classes", traffic_legend(classes_of(history))},
                                        {"data", report_data(history)},
                                        {"library", std::string(inputs.charts)},
                                        {"script", std::string(report_script)}}));
}

}  // namespace hexad::telemetry
