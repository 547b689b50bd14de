#include "tools/scale/results.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "framework/base/counted.h"
#include "framework/base/units.h"
#include "framework/telemetry/csv.h"

namespace hexad::scale {
namespace {

using telemetry::csv_cell;
using Json = nlohmann::ordered_json;

std::string csv_cell(const std::optional<double>& value) { return value ? csv_cell(*value) : std::string(); }

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
Json number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }

// Replaces '|' and newlines, which would end a cell of a Markdown table.
std::string markdown_cell(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c == '|')
      out += "\\|";
    else
      out += c == '\n' || c == '\r' ? ' ' : c;
  return out;
}

double at_or_zero(const std::map<std::string, double>& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? 0 : found->second;
}

// Returns the cells of a measured row, in the order of measured_columns().
std::vector<std::string> measured_cells(const ResultRow& row, const std::vector<std::string>& classes) {
  const PointMeasurement& m = *row.measured;
  std::vector<std::string> out{std::to_string(m.runs),
                               std::to_string(m.steps),
                               csv_cell(m.step_seconds),
                               csv_cell(m.least),
                               csv_cell(m.most),
                               csv_cell(m.p10),
                               csv_cell(m.p90),
                               csv_cell(m.tokens_per_second),
                               csv_cell(m.work),
                               csv_cell(row.speedup),
                               csv_cell(row.efficiency),
                               csv_cell(m.peak_memory_bytes),
                               csv_cell(m.loss),
                               std::to_string(row.beside),
                               std::to_string(row.shared_cores),
                               csv_cell(m.parts.work),
                               csv_cell(m.parts.imbalance)};
  for (const std::string& name : classes) out.push_back(csv_cell(at_or_zero(m.parts.waiting, name)));
  for (const std::string& name : classes) out.push_back(csv_cell(at_or_zero(m.parts.waiting, name) / m.step_seconds));
  return out;
}

std::vector<std::string> measured_columns(const std::vector<std::string>& classes) {
  std::vector<std::string> out{"runs",
                               "steps",
                               "step_seconds",
                               "step_seconds_least",
                               "step_seconds_most",
                               "step_seconds_p10",
                               "step_seconds_p90",
                               "tokens_per_second",
                               "work_flop",
                               "speedup",
                               "efficiency",
                               "peak_memory_bytes",
                               "loss",
                               "runs_beside",
                               "shared_cores",
                               "work_seconds",
                               "imbalance_seconds"};
  for (const std::string& name : classes) out.push_back(name + "_seconds");
  for (const std::string& name : classes) out.push_back(fmt::format("exposed_share_{}", name));
  return out;
}

Json object_of(const Losses& losses) {
  Json waiting = Json::object();
  for (const auto& [name, seconds] : losses.waiting) waiting[name] = number(seconds);
  return {{"ideal_seconds", number(losses.ideal)},
          {"work_seconds", number(losses.work)},
          {"imbalance_seconds", number(losses.imbalance)},
          {"waiting_seconds", waiting}};
}

Json object_of(const PointMeasurement& m) {
  Json waiting = Json::object();
  for (const auto& [name, seconds] : m.parts.waiting) waiting[name] = number(seconds);
  return {{"runs", m.runs},
          {"steps", m.steps},
          {"step_seconds", number(m.step_seconds)},
          {"step_seconds_of_runs", {number(m.least), number(m.most)}},
          {"step_seconds_p10", number(m.p10)},
          {"step_seconds_p90", number(m.p90)},
          {"tokens_per_second", number(m.tokens_per_second)},
          {"work_flop", number(m.work)},
          {"peak_memory_bytes", number(m.peak_memory_bytes)},
          {"loss", number(m.loss)},
          {"work_seconds", number(m.parts.work)},
          {"imbalance_seconds", number(m.parts.imbalance)},
          {"waiting_seconds", waiting}};
}

Json object_of(const PointForecast& f) {
  Json json = Json::object();
  json["step_seconds"] = number(f.step_seconds);
  if (f.step_seconds) json["step_seconds_interval"] = {number(f.least), number(f.most)};
  json["exposed_share_by_class"] = f.exposed_share.empty() ? Json::object() : Json(f.exposed_share);
  json["memory_bytes"] = f.memory_bytes > 0 ? Json(f.memory_bytes) : Json(nullptr);
  json["trouble"] = f.trouble.empty() ? Json(nullptr) : Json(f.trouble);
  return json;
}

}  // namespace

double Losses::total() const {
  double sum = ideal + work + imbalance;
  for (const auto& [name, seconds] : waiting) sum += seconds;
  return sum;
}

Losses losses_of(const PointMeasurement& point, const PointMeasurement& first, double growth) {
  const double share = point.work / first.work / growth;  // work of a rank, relative to the first point
  Losses losses{.ideal = first.step_seconds * share,
                .work = point.parts.work - first.parts.work * share,
                .imbalance = point.parts.imbalance - first.parts.imbalance * share};
  for (const auto& [name, seconds] : first.parts.waiting) losses.waiting[name] -= seconds * share;
  for (const auto& [name, seconds] : point.parts.waiting) losses.waiting[name] += seconds;
  return losses;
}

void compare_with_first(Results& results) {
  for (ResultRow& row : results.rows) {
    const ResultRow* first = &row;
    for (const ResultRow& other : results.rows)
      if (other.values == row.values && other.ranks < first->ranks) first = &other;
    if (!row.measured || !first->measured) continue;
    const PointMeasurement& point = *row.measured;
    const PointMeasurement& start = *first->measured;
    const double growth = static_cast<double>(row.ranks) / static_cast<double>(first->ranks);
    if (!(start.work > 0) || !(point.step_seconds > 0)) continue;
    row.speedup = (point.work / point.step_seconds) / (start.work / start.step_seconds);
    row.efficiency = *row.speedup / growth;
    row.losses = losses_of(point, start, growth);
  }
}

std::string concurrent_runs_text(const Results& results) {
  int64_t most = 0;
  for (const ResultRow& row : results.rows) most = std::max(most, row.beside);
  if (most == 0) return {};
  return fmt::format("Up to {} executed at the same time, each on separate cores or nodes.",
                     base::counted(most + 1, "run"));
}

std::string state_of_unmeasured(const ResultRow& row) {
  return row.failed > 0 ? fmt::format("failed: {}", row.reason) : std::string("not run");
}

std::string failed_runs_text(const Results& results) {
  std::string out;
  for (const ResultRow& row : results.rows)
    if (row.measured && row.failed > 0)
      out += fmt::format("{} of {} failed: {}\n", base::counted(row.failed, "run"), row.point, row.reason);
  return out;
}

std::string damaged_runs_text(const Results& results) {
  std::string out;
  for (const std::string& damage : results.damaged) out += fmt::format("Left out a damaged run: {}\n", damage);
  return out;
}

std::string programs_text(const Results& results) {
  if (results.programs.size() < 2) return {};
  std::string out = "The runs are from different programs:\n";
  for (const auto& [program, runs] : results.programs)
    out += fmt::format("- {}: {}\n", program, base::counted(runs, "run"));
  return out;
}

std::string ranks_text(const ResultRow& row) {
  return fmt::format("{}{}", row.ranks, row.shared_cores > 0 ? " (ranks > cores)" : "");
}

std::vector<std::string> classes_of(const Results& results) {
  std::set<std::string> names;
  for (const ResultRow& row : results.rows)
    if (row.measured)
      for (const auto& [name, seconds] : row.measured->parts.waiting) names.insert(name);
  return {names.begin(), names.end()};
}

std::string csv_of(const Results& results) {
  const std::vector<std::string> classes = classes_of(results), columns = measured_columns(classes);
  std::vector<std::string> header{"point", "ranks"};
  for (const std::string& axis : results.axes) header.push_back(fmt::format("axis_{}", axis));
  for (const char* name :
       {"predicted_step_seconds", "predicted_least", "predicted_most", "predicted_memory_bytes", "failed_runs"})
    header.emplace_back(name);
  header.insert(header.end(), columns.begin(), columns.end());
  std::string out = fmt::format("{}\n", fmt::join(header, ","));
  for (const ResultRow& row : results.rows) {
    const PointForecast& f = row.forecast;
    std::vector<std::string> cells{csv_cell(row.point), std::to_string(row.ranks)};
    for (const std::string& value : row.values) cells.push_back(csv_cell(value));
    cells.push_back(csv_cell(f.step_seconds));
    cells.push_back(f.step_seconds ? csv_cell(f.least) : std::string());
    cells.push_back(f.step_seconds ? csv_cell(f.most) : std::string());
    cells.push_back(f.memory_bytes > 0 ? csv_cell(f.memory_bytes) : std::string());
    cells.push_back(std::to_string(row.failed));
    std::vector<std::string> measured(columns.size());
    if (row.measured) measured = measured_cells(row, classes);
    cells.insert(cells.end(), measured.begin(), measured.end());
    out += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return out;
}

std::string json_of(const Results& results) {
  Json rows = Json::array();
  for (const ResultRow& row : results.rows) {
    Json values = Json::object();
    for (size_t a = 0; a < results.axes.size(); ++a) values[results.axes[a]] = row.values[a];
    rows.push_back({{"point", row.point},
                    {"ranks", row.ranks},
                    {"values", values},
                    {"predicted", object_of(row.forecast)},
                    {"measured", row.measured ? object_of(*row.measured) : Json(nullptr)},
                    {"failed_runs", row.failed},
                    {"failure", row.failed > 0 ? Json(row.reason) : Json(nullptr)},
                    {"runs_beside", row.measured ? Json(row.beside) : Json(nullptr)},
                    {"shared_cores", row.measured ? Json(row.shared_cores) : Json(nullptr)},
                    {"speedup", number(row.speedup)},
                    {"efficiency", number(row.efficiency)},
                    {"losses", row.losses ? object_of(*row.losses) : Json(nullptr)}});
  }
  const Json json{{"experiment", results.title},
                  {"axes", results.axes},
                  {"points", rows},
                  {"damaged_runs", results.damaged},
                  {"runs_of_programs", results.programs}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string markdown_of(const Results& results) {
  std::string out = "| ranks";
  for (const std::string& axis : results.axes) out += fmt::format(" | {}", axis);
  out += " | step | runs | predicted | speed-up | efficiency | waiting | memory |\n|---:";
  for (size_t a = 0; a < results.axes.size(); ++a) out += "|---";
  out += "|---:|---|---:|---:|---:|---:|---:|\n";
  for (const ResultRow& row : results.rows) {
    out += fmt::format("| {}", ranks_text(row));
    for (const std::string& value : row.values) out += fmt::format(" | {}", markdown_cell(value));
    const std::string predicted = row.forecast.step_seconds ? base::precise_duration(*row.forecast.step_seconds) : "";
    if (!row.measured) {
      out += fmt::format(" | {} | | {} | | | | |\n", row.failed > 0 ? markdown_cell(state_of_unmeasured(row)) : "",
                         predicted);
      continue;
    }
    const PointMeasurement& m = *row.measured;
    out += fmt::format(" | {} | {} to {} | {} | {} | {} | {} | {} |\n", base::precise_duration(m.step_seconds),
                       base::precise_duration(m.least), base::precise_duration(m.most), predicted,
                       row.speedup ? base::with_digits(*row.speedup, 3) : "",
                       row.efficiency ? base::human_percent(*row.efficiency) : "",
                       base::human_percent(1 - m.parts.work / m.step_seconds), base::human_bytes(m.peak_memory_bytes));
  }
  if (const std::string about = concurrent_runs_text(results); !about.empty()) out += fmt::format("\n{}\n", about);
  for (const std::string& about : {failed_runs_text(results), damaged_runs_text(results), programs_text(results)})
    if (!about.empty()) out += fmt::format("\n{}", about);
  return out;
}

}  // namespace hexad::scale
