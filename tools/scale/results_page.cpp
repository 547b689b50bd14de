#include "tools/scale/results_page.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "framework/base/units.h"
#include "framework/telemetry/page.h"

namespace hexad::scale {
namespace {

using telemetry::escaped;
using Cells = std::vector<std::string>;

constexpr std::string_view style =
    "body{font-family:sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .6rem;border-bottom:1px solid #ddd;"
    "text-align:right;white-space:nowrap}td:first-child,th:first-child{text-align:left}pre{overflow-x:auto;"
    "background:#f4f4f4;padding:1rem}.wide{overflow-x:auto}";

std::string table(const Cells& head, const std::vector<Cells>& rows) {
  std::string out = "<div class=\"wide\"><table><thead><tr>";
  for (const std::string& cell : head) out += fmt::format("<th>{}</th>", escaped(cell));
  out += "</tr></thead><tbody>\n";
  for (const Cells& row : rows) {
    out += "<tr>";
    for (const std::string& cell : row) out += fmt::format("<td>{}</td>", escaped(cell));
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

double part(const std::map<std::string, double>& parts, const std::string& name) {
  const auto found = parts.find(name);
  return found == parts.end() ? 0 : found->second;
}

// Formats seconds with their sign: "-1.20 ms".
std::string signed_duration(double seconds) {
  return fmt::format("{}{}", seconds < 0 ? "-" : "", base::precise_duration(std::abs(seconds)));
}

std::string points_table(const Results& results) {
  std::vector<Cells> rows;
  for (const ResultRow& r : results.rows) {
    Cells cells{r.point, ranks_text(r)};
    const PointForecast& f = r.forecast;
    const std::string predicted = f.step_seconds
                                      ? fmt::format("{} ({} to {})", base::precise_duration(*f.step_seconds),
                                                    base::precise_duration(f.least), base::precise_duration(f.most))
                                      : std::string("–");
    const std::string predicted_memory = f.memory_bytes > 0 ? base::human_bytes(f.memory_bytes) : std::string("–");
    if (!r.measured) {
      cells.insert(cells.end(),
                   {state_of_unmeasured(r), "–", "–", "–", predicted, "–", "–", "–", "–", predicted_memory});
    } else {
      const PointMeasurement& m = *r.measured;
      cells.insert(
          cells.end(),
          {base::precise_duration(m.step_seconds), std::to_string(r.beside),
           fmt::format("{} to {}", base::precise_duration(m.least), base::precise_duration(m.most)),
           fmt::format("{} to {}", base::precise_duration(m.p10), base::precise_duration(m.p90)), predicted,
           base::human_count(m.tokens_per_second), r.speedup ? base::with_digits(*r.speedup, 3) : std::string("–"),
           r.efficiency ? base::human_percent(*r.efficiency) : std::string("–"), base::human_bytes(m.peak_memory_bytes),
           predicted_memory});
    }
    rows.push_back(std::move(cells));
  }
  return table({"point", "ranks", "step", "runs beside", "medians of the runs", "10% to 90% of steps",
                "predicted (90% of cases)", "tokens/s", "speed-up", "efficiency", "memory", "predicted memory"},
               rows);
}

std::string exposed_table(const Results& results, const std::vector<std::string>& classes) {
  Cells head{"point"};
  for (const std::string& name : classes) {
    head.push_back(name);
    head.push_back(name + ", predicted");
  }
  std::vector<Cells> rows;
  for (const ResultRow& r : results.rows) {
    if (!r.measured) continue;
    Cells cells{r.point};
    for (const std::string& name : classes) {
      cells.push_back(base::human_percent(part(r.measured->parts.waiting, name) / r.measured->step_seconds));
      cells.push_back(r.forecast.step_seconds ? base::human_percent(part(r.forecast.exposed_share, name))
                                              : std::string("–"));
    }
    rows.push_back(std::move(cells));
  }
  return table(head, rows);
}

std::string parts_table(const Results& results, const std::vector<std::string>& classes) {
  Cells head{"point", "own work", "imbalance"};
  head.insert(head.end(), classes.begin(), classes.end());
  head.emplace_back("step");
  std::vector<Cells> rows;
  for (const ResultRow& r : results.rows) {
    if (!r.measured) continue;
    const StepParts& p = r.measured->parts;
    Cells cells{r.point, base::precise_duration(p.work), base::precise_duration(p.imbalance)};
    for (const std::string& name : classes) cells.push_back(base::precise_duration(part(p.waiting, name)));
    cells.push_back(base::precise_duration(p.total()));
    rows.push_back(std::move(cells));
  }
  return table(head, rows);
}

std::string losses_table(const Results& results, const std::vector<std::string>& classes) {
  Cells head{"point", "ideal", "slower work", "imbalance"};
  head.insert(head.end(), classes.begin(), classes.end());
  head.emplace_back("step");
  std::vector<Cells> rows;
  for (const ResultRow& r : results.rows) {
    if (!r.losses) continue;
    const Losses& l = *r.losses;
    Cells cells{r.point, signed_duration(l.ideal), signed_duration(l.work), signed_duration(l.imbalance)};
    for (const std::string& name : classes) cells.push_back(signed_duration(part(l.waiting, name)));
    cells.push_back(signed_duration(l.total()));
    rows.push_back(std::move(cells));
  }
  return table(head, rows);
}

std::string preformatted(const std::string& text) {
  return text.empty() ? std::string() : fmt::format("<pre>{}</pre>\n", escaped(text));
}

std::string section(std::string_view title, std::string_view about, const std::string& body) {
  return fmt::format("<h2>{}</h2>\n<p>{}</p>\n{}", title, about, body);
}

}  // namespace

std::string results_page(const Results& results) {
  const std::vector<std::string> classes = classes_of(results);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title><style>{1}</style></head>"
      "<body>\n<h1>Scaling experiment {0}</h1>\n",
      escaped(results.title), style);
  out += section("Step time",
                 "Points: median over the runs of their median step times. Bars: smallest and largest median of a run. "
                 "Dashed lines: "
                 "predictions.",
                 step_time_picture(results));
  out += section(
      "Points",
      fmt::format(
          "Speed-up: model FLOPs per second, relative to the point with the same values on the fewest ranks. "
          "Efficiency: speed-up divided by the growth of the ranks. Runs beside: the largest number of other runs "
          "that executed at the same time. Ranks > cores: ranks of a run shared cores of the machine. {}",
          concurrent_runs_text(results)),
      points_table(results) +
          preformatted(failed_runs_text(results) + damaged_runs_text(results) + programs_text(results)));
  out += section("Exposed communication",
                 "Share of a step in which computation waits for communication, by class of traffic. Excludes waiting "
                 "for the slowest "
                 "rank.",
                 exposed_table(results, classes));
  out += section("Parts of a step",
                 "Means over the ranks: own work, waiting for the slowest rank (imbalance), and other waiting by class "
                 "of traffic. pp includes the pipeline bubble. The parts add up to the step.",
                 parts_table(results, classes));
  out += section(
      "Losses compared with ideal scaling",
      "Ideal: the step time on the fewest ranks, divided by the growth of the ranks and multiplied by the growth of "
      "the work. Slower work: smaller products, work repeated on several ranks, contention. The columns add up "
      "to the step.",
      losses_table(results, classes));
  out += section("For a paper", "The table of points in Markdown.",
                 fmt::format("<pre>{}</pre>\n", escaped(markdown_of(results))));
  return out + "</body></html>\n";
}

}  // namespace hexad::scale
