#include "framework/telemetry/sweep.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "framework/telemetry/csv.h"
#include "framework/telemetry/traffic_legend.h"

namespace hexad::telemetry {
namespace {

using Json = nlohmann::ordered_json;

// Returns the different values of a setting, in the order of the runs.
std::vector<std::string> values_of(const Sweep& sweep, const std::string& key) {
  std::vector<std::string> values;
  for (const SweepRun& run : sweep.runs) {
    const auto at = run.settings.find(key);
    const std::string value = at == run.settings.end() ? "absent" : at->second;
    if (std::ranges::find(values, value) == values.end()) values.push_back(value);
  }
  return values;
}

std::string numbers_of_ranks(const Sweep& sweep) {
  std::set<int64_t> ranks;
  for (const SweepRun& run : sweep.runs)
    if (run.ranks > 0) ranks.insert(run.ranks);
  return ranks.size() > 1 ? fmt::format(" on {} ranks", fmt::join(ranks, ", ")) : "";
}

// Returns null for NaN and infinity, which JSON cannot represent.
Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// Returns a value of a recipe as a number or boolean if its text is one, otherwise as a string.
Json typed(const std::string& text) {
  Json value = Json::parse(text, nullptr, false);
  return value.is_number() || value.is_boolean() ? value : Json(text);
}

}  // namespace

std::string title_of(const Sweep& sweep) {
  constexpr size_t max_values = 6, max_keys = 3;
  const size_t runs = sweep.runs.size(), keys = sweep.keys.size();
  if (runs == 1) return sweep.runs.front().name;
  const std::string ranks = numbers_of_ranks(sweep);
  if (keys == 0) return fmt::format("{} runs of one recipe{}", runs, ranks);
  if (keys == 1) {
    const std::vector<std::string> values = values_of(sweep, sweep.keys.front());
    if (values.size() <= max_values) return fmt::format("{}: {}{}", sweep.keys.front(), fmt::join(values, ", "), ranks);
    return fmt::format("{}: {} values, {} ... {}{}", sweep.keys.front(), values.size(), values.front(), values.back(),
                       ranks);
  }
  if (keys <= max_keys) return fmt::format("{} runs: {}{}", runs, fmt::join(sweep.keys, ", "), ranks);
  return fmt::format("{} runs: {} and {} more settings{}", runs,
                     fmt::join(sweep.keys.begin(), sweep.keys.begin() + 2, ", "), keys - 2, ranks);
}

double efficiency(const Sweep& sweep, size_t run) {
  const auto of_rank = [](const SweepRun& r) {
    return r.ranks > 0 ? r.summary.model_flops_per_second / static_cast<double>(r.ranks) : std::nan("");
  };
  return of_rank(sweep.runs.at(run)) / of_rank(sweep.runs.front());
}

std::vector<std::string> traffic_classes(const Sweep& sweep) {
  std::set<std::string> found;
  for (const SweepRun& run : sweep.runs)
    for (const auto& [name, share] : run.summary.exposed_share) found.insert(name);
  return in_traffic_order(found);
}

std::string csv_of(const Sweep& sweep) {
  const std::vector<std::string> classes = traffic_classes(sweep);
  std::vector<std::string> header{"run", "folder"};
  for (const std::string& key : sweep.keys) header.push_back(csv_cell(key));
  for (const char* name :
       {"ranks", "layout", "state", "last_step", "tokens", "loss", "heldout_loss", "timed_steps", "step_seconds_median",
        "step_seconds_p10", "step_seconds_p90", "tokens_per_second", "model_flops_per_second", "mfu", "efficiency"})
    header.emplace_back(name);
  for (const std::string& name : classes) header.push_back("exposed_share_" + name);
  header.insert(header.end(), {"exposed_share", "peak_memory_bytes"});
  std::string out = fmt::format("{}\n", fmt::join(header, ","));
  for (size_t i = 0; i < sweep.runs.size(); ++i) {
    const SweepRun& run = sweep.runs[i];
    const RunSummary& s = run.summary;
    std::vector<std::string> row{csv_cell(run.name), csv_cell(run.folder)};
    for (const std::string& key : sweep.keys)
      row.push_back(run.settings.contains(key) ? csv_cell(run.settings.at(key)) : "");
    row.insert(row.end(),
               {run.ranks > 0 ? std::to_string(run.ranks) : "", csv_cell(run.layout), csv_cell(run.state),
                std::to_string(s.last_step), std::to_string(s.tokens), csv_cell(s.loss), csv_cell(s.heldout_loss),
                std::to_string(s.timed_steps), csv_cell(s.step_seconds.median), csv_cell(s.step_seconds.tenth),
                csv_cell(s.step_seconds.ninetieth), csv_cell(s.tokens_per_second), csv_cell(s.model_flops_per_second),
                csv_cell(s.mfu), csv_cell(efficiency(sweep, i))});
    for (const std::string& name : classes)
      row.push_back(s.exposed_share.contains(name) ? csv_cell(s.exposed_share.at(name)) : "");
    row.push_back(csv_cell(s.exposed_share_of_all()));
    row.push_back(std::to_string(s.peak_memory_bytes));
    out += fmt::format("{}\n", fmt::join(row, ","));
  }
  return out;
}

std::string json_of(const Sweep& sweep, const std::string& page) {
  Json runs = Json::array();
  for (size_t i = 0; i < sweep.runs.size(); ++i) {
    const SweepRun& run = sweep.runs[i];
    const RunSummary& s = run.summary;
    Json settings = Json::object(), exposed = Json::object();
    for (const std::string& key : sweep.keys)
      settings[key] = run.settings.contains(key) ? typed(run.settings.at(key)) : Json(nullptr);
    for (const auto& [name, share] : s.exposed_share) exposed[name] = number_or_null(share);
    runs.push_back({{"name", run.name},
                    {"folder", run.folder},
                    {"settings", settings},
                    {"ranks", run.ranks > 0 ? Json(run.ranks) : Json(nullptr)},
                    {"layout", run.layout},
                    {"state", text_or_null(run.state)},
                    {"trouble", text_or_null(run.trouble)},
                    {"last_step", s.last_step},
                    {"tokens", s.tokens},
                    {"loss", number_or_null(s.loss)},
                    {"heldout_loss", number_or_null(s.heldout_loss)},
                    {"timed_steps", s.timed_steps},
                    {"step_seconds",
                     {{"p10", number_or_null(s.step_seconds.tenth)},
                      {"median", number_or_null(s.step_seconds.median)},
                      {"p90", number_or_null(s.step_seconds.ninetieth)}}},
                    {"tokens_per_second", number_or_null(s.tokens_per_second)},
                    {"model_flops_per_second", number_or_null(s.model_flops_per_second)},
                    {"mfu", number_or_null(s.mfu)},
                    {"efficiency", number_or_null(efficiency(sweep, i))},
                    {"exposed_share", number_or_null(s.exposed_share_of_all())},
                    {"exposed_share_by_class", exposed},
                    {"peak_memory_bytes", s.peak_memory_bytes}});
  }
  const Json json{{"page", page}, {"title", title_of(sweep)}, {"keys", sweep.keys}, {"runs", runs}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace hexad::telemetry
