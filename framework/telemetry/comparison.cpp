#include "framework/telemetry/comparison.h"

#include <algorithm>
#include <cmath>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/base/atomic_file.h"
#include "framework/base/counted.h"
#include "framework/base/units.h"
#include "framework/telemetry/page.h"
#include "framework/telemetry/report_assets.h"
#include "framework/telemetry/report_data.h"
#include "framework/telemetry/traffic_legend.h"

namespace hexad::telemetry {

using namespace base;
namespace {

constexpr size_t max_settings = 6;  // maximum number of settings shown as columns; if there are more, none is shown

std::string text_if_known(double value, std::string (*text)(double)) {
  return std::isfinite(value) ? text(value) : "–";
}

/// Shortens SweepRun::layout, a text from mesh::Layout::to_string(), for example to "2 ranks: dp 2, ep 2". Omits sizes
/// of one, and the words "horizontal" and "vertical".
std::string short_layout(const std::string& layout) {
  static const std::regex mesh("(\\S+) (\\d+)(?= x | \\| | \\()");
  const size_t colon = layout.find(": "), end = layout.find(')');
  if (colon == layout.npos || end == layout.npos) return layout;
  std::vector<std::string> sizes;
  for (std::sregex_iterator it(layout.begin() + static_cast<std::ptrdiff_t>(colon) + 2, layout.end(), mesh), none;
       it != none; ++it)
    if ((*it)[2] != "1" && std::ranges::find(sizes, it->str()) == sizes.end()) sizes.push_back(it->str());
  constexpr std::string_view placed = " (order ";
  if (const size_t order = layout.find(placed); order < end)
    sizes.push_back("order " + layout.substr(order + placed.size(), end - order - placed.size()));
  std::string text = fmt::format("{}{}", fmt::join(sizes, ", "), layout.substr(end + 1));
  if (text.starts_with(", ")) text.erase(0, 2);
  return text.empty() ? layout.substr(0, colon) : layout.substr(0, colon) + ": " + text;
}

std::string head(const std::vector<std::string>& columns) {
  std::string out = "<thead><tr>";
  for (const std::string& name : columns) out += "<th>" + escaped(name) + "</th>";
  return out + "</tr></thead>\n";
}

/// Returns a table row whose first cell contains the colour and the name of the run. The row is marked if the run is
/// known to be unfinished.
std::string row(const Sweep& sweep, size_t run, const std::vector<std::string>& cells) {
  std::string out =
      fmt::format("<tr{}><th scope=\"row\"><i class=\"swatch\" data-run=\"{}\"></i>{}</th>",
                  sweep.runs[run].trouble.empty() ? "" : " class=\"troubled\"", run, escaped(sweep.runs[run].name));
  for (const std::string& cell : cells) out += "<td>" + escaped(cell) + "</td>";
  return out + "</tr>\n";
}

std::string setting(const SweepRun& run, const std::string& key) {
  const auto at = run.settings.find(key);
  return at == run.settings.end() ? "–" : at->second;
}

std::string results_table(const Sweep& sweep) {
  const bool listed = sweep.keys.size() <= max_settings;
  std::vector<std::string> columns{"Run"};
  if (listed) columns.insert(columns.end(), sweep.keys.begin(), sweep.keys.end());
  for (const char* name : {"State", "Steps", "Tokens", "Last loss", "Held-out loss", "Peak memory", "Layout"})
    columns.emplace_back(name);
  std::string body;
  for (size_t i = 0; i < sweep.runs.size(); ++i) {
    const SweepRun& run = sweep.runs[i];
    const RunSummary& s = run.summary;
    std::vector<std::string> cells;
    if (listed)
      for (const std::string& key : sweep.keys) cells.push_back(setting(run, key));
    const auto loss = [](double value) { return human_loss(value); };
    cells.insert(cells.end(),
                 {run.state.empty() ? "–" : run.state, grouped(s.last_step), human_count(static_cast<double>(s.tokens)),
                  loss(s.loss), text_if_known(s.heldout_loss, loss),
                  human_bytes(static_cast<double>(s.peak_memory_bytes)), short_layout(run.layout)});
    body += row(sweep, i, cells);
  }
  return head(columns) + "<tbody>\n" + body + "</tbody>";
}

std::string speed_table(const Sweep& sweep) {
  const std::vector<std::string> classes = traffic_classes(sweep);
  std::vector<std::string> columns{"Run",      "Ranks",        "Timed steps", "Step time",  "10% – 90% of steps",
                                   "Tokens/s", "Model FLOP/s", "MFU",         "Efficiency", "Exposed"};
  columns.insert(columns.end(), classes.begin(), classes.end());
  std::string body;
  for (size_t i = 0; i < sweep.runs.size(); ++i) {
    const SweepRun& run = sweep.runs[i];
    const RunSummary& s = run.summary;
    std::vector<std::string> cells{
        run.ranks > 0 ? grouped(run.ranks) : "–",
        grouped(s.timed_steps),
        text_if_known(s.step_seconds.median, precise_duration),
        text_if_known(s.step_seconds.tenth, precise_duration) + " – " +
            text_if_known(s.step_seconds.ninetieth, precise_duration),
        text_if_known(s.tokens_per_second, human_count),
        text_if_known(s.model_flops_per_second, [](double flops) { return human_quantity(flops, "FLOP/s"); }),
        text_if_known(s.mfu, human_percent),
        text_if_known(efficiency(sweep, i), human_percent),
        human_percent(s.exposed_share_of_all())};
    for (const std::string& name : classes)
      cells.push_back(s.exposed_share.contains(name) ? human_percent(s.exposed_share.at(name)) : "–");
    body += row(sweep, i, cells);
  }
  return head(columns) + "<tbody>\n" + body + "</tbody>";
}

/// Returns a notice with the reasons why runs are not finished, for at most eight runs; empty if no run has a reason. A
/// run of unknown state has no reason, but the table of results shows that the state is unknown.
std::string trouble_notice(const Sweep& sweep) {
  constexpr size_t most = 8;
  std::string lines;
  size_t troubled = 0;
  for (const SweepRun& run : sweep.runs)
    if (!run.trouble.empty() && ++troubled <= most)
      lines += fmt::format("{}<b>{}</b>: {}", lines.empty() ? "" : "<br>", escaped(run.name), escaped(run.trouble));
  if (troubled > most)
    lines += fmt::format("<br>This list omits {}, which the tables below mark.",
                         base::counted(static_cast<int64_t>(troubled - most), "further unfinished run"));
  return lines.empty() ? "" : "<p class=\"notice\">" + lines + "</p>\n";
}

/// Returns the notes that this comparison needs. They explain columns for classes of traffic, an MFU above 100%, or an
/// efficiency clearly above 100%.
std::string notes(const Sweep& sweep) {
  std::string text;
  if (!traffic_classes(sweep).empty())
    text +=
        " The columns after Exposed divide its time by class of communication. The chart of step times explains the "
        "classes.";
  if (std::ranges::any_of(sweep.runs, [](const SweepRun& r) { return r.summary.mfu > 1; }))
    text +=
        " An MFU above 100% means that the peak of that run (train.peak_flops, or the rate that it measured) is below "
        "the rate that its machine reaches.";
  for (size_t i = 0; i < sweep.runs.size(); ++i)
    if (efficiency(sweep, i) > 1.05)
      return text + fmt::format(
                        " An efficiency above 100% means that a rank of that run does more FLOP/s than a rank of {}: "
                        "the settings or machines differ, or other programs ran at the same time.",
                        sweep.runs.front().name);
  return text;
}

/// Returns the subtitle: the names of at most four runs, and the number of the other runs.
std::string subtitle_of_runs(const Sweep& sweep) {
  constexpr size_t most = 4;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(most, sweep.runs.size()); ++i) names.push_back(sweep.runs[i].name);
  const size_t left = sweep.runs.size() - names.size();
  return fmt::format("{}{}", fmt::join(names, ", "), left > 0 ? fmt::format(" and {} more", left) : "");
}

std::set<std::string> classes_of_runs(const Sweep& sweep) {
  const std::vector<std::string> classes = traffic_classes(sweep);
  return {classes.begin(), classes.end()};
}

std::string differences_block(const Sweep& sweep) {
  std::string rows;
  for (const SweepRun& run : sweep.runs) {
    std::string text;
    for (const std::string& line : run.differences) text += (text.empty() ? "" : "<br>") + escaped(line);
    if (!text.empty()) rows += "<tr><th scope=\"row\">" + escaped(run.name) + "</th><td>" + text + "</td></tr>\n";
  }
  if (rows.empty()) return "";
  return fmt::format(
      "<section class=\"card wide\"><h2>Differences from {}</h2>\n<table class=\"facts\"><tbody>\n{}</tbody></table>"
      "</section>\n",
      escaped(sweep.runs.front().name), rows);
}

std::string data_of(const Sweep& sweep) {
  std::string data;
  for (const SweepRun& run : sweep.runs) {
    std::string settings;
    for (const std::string& key : sweep.keys)
      settings += fmt::format("{}{}: {}", settings.empty() ? "" : ", ", key, setting(run, key));
    std::string exposed;
    for (const auto& [name, share] : run.summary.exposed_share)
      if (std::isfinite(share)) exposed += fmt::format("{}\"{}\":{:.6g}", exposed.empty() ? "" : ",", name, share);
    data += fmt::format("{}{{\"name\":{},\"columns\":{},\"settings\":{},\"exposed\":{{{}}}}}", data.empty() ? "" : ",",
                        json_text(run.name), run.columns, json_text(settings), exposed);
  }
  return "[" + data + "]";
}

}  // namespace

void write_comparison(const Sweep& sweep, const std::filesystem::path& output, std::string_view charts) {
  require_charts(charts, output.string());
  base::write_file(output, filled(comparison_page, {{"title", escaped(title_of(sweep))},
                                                    {"subtitle", escaped(subtitle_of_runs(sweep))},
                                                    {"style", std::string(report_style)},
                                                    {"toolbar", std::string(report_toolbar)},
                                                    {"notices", trouble_notice(sweep)},
                                                    {"classes", traffic_legend(classes_of_runs(sweep))},
                                                    {"results", results_table(sweep)},
                                                    {"speed", speed_table(sweep)},
                                                    {"notes", escaped(notes(sweep))},
                                                    {"differences", differences_block(sweep)},
                                                    {"data", data_of(sweep)},
                                                    {"library", std::string(charts)},
                                                    {"script", std::string(comparison_script)}}));
}

}  // namespace hexad::telemetry
