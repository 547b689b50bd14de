#include "tools/train/report/run_history.h"

#include <charconv>
#include <ctime>
#include <fstream>
#include <iterator>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/base/atomic_file.h"
#include "framework/base/error.h"

namespace hexad::train {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;
using Fact = telemetry::ReportInputs::Fact;
using Sample = telemetry::ReportInputs::Sample;

OrderedJson to_json(const std::vector<Fact>& facts) {
  OrderedJson out = OrderedJson::object();
  for (const Fact& f : facts) out[f.name] = f.value;
  return out;
}

std::vector<Fact> facts_of(const OrderedJson& json) {
  std::vector<Fact> facts;
  for (const auto& [name, value] : json.items()) facts.push_back({name, value.get<std::string>()});
  return facts;
}

OrderedJson to_json(const RunStart& s) {
  return {{"after_step", s.run.first_step},
          {"steps", s.run.total_steps},
          {"date", s.date},
          {"ranks", s.run.ranks},
          {"layout", s.layout},
          {"parameters", s.run.parameters},
          {"active_parameters", s.run.active_parameters},
          {"changes", s.changes},
          {"facts", to_json(s.facts)}};
}

RunStart start_of(const OrderedJson& json) {
  RunStart s;
  s.run = {.first_step = json.at("after_step"),
           .total_steps = json.at("steps"),
           .parameters = json.at("parameters"),
           .active_parameters = json.at("active_parameters"),
           .ranks = json.at("ranks")};
  s.date = json.at("date");
  s.layout = json.at("layout");
  s.changes = json.at("changes").get<std::vector<std::string>>();
  s.facts = facts_of(json.at("facts"));
  return s;
}

OrderedJson to_json(const RunEnd& e) {
  OrderedJson samples = OrderedJson::array();
  for (const Sample& s : e.samples) samples.push_back({{"prompt", s.prompt}, {"text", s.text}});
  return {{"after_step", e.step},      {"date", e.date},     {"trouble", e.trouble},
          {"facts", to_json(e.facts)}, {"samples", samples}, {"timelines", e.timelines}};
}

RunEnd end_of(const OrderedJson& json) {
  RunEnd e{.step = json.at("after_step"),
           .date = json.at("date"),
           .trouble = json.at("trouble"),
           .facts = facts_of(json.at("facts")),
           .samples = {},
           .timelines = json.at("timelines").get<std::vector<std::string>>()};
  for (const OrderedJson& s : json.at("samples")) e.samples.push_back({s.at("prompt"), s.at("text")});
  return e;
}

fs::path history_path(const fs::path& dir) { return dir / "history.json"; }

void write(const fs::path& dir, const RunHistory& history) {
  OrderedJson starts = OrderedJson::array();
  for (const RunStart& s : history.starts) starts.push_back(to_json(s));
  OrderedJson json{{"starts", starts}};
  if (history.end) json["end"] = to_json(*history.end);
  // Replaces invalid UTF-8, which the command line among the facts may contain.
  base::write_file(history_path(dir), json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
}

// Removes the recipes of starts after `step`, because their steps will run again.
void remove_recipes_after(const fs::path& dir, int64_t step) {
  constexpr std::string_view before = "recipe-", after = ".yaml";
  for (const auto& entry : fs::directory_iterator(dir)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(before) || !name.ends_with(after)) continue;
    int64_t of = 0;
    const char *begin = name.data() + before.size(), *end = name.data() + name.size() - after.size();
    if (std::from_chars(begin, end, of).ptr == end && of > step) fs::remove(entry.path());
  }
}

}  // namespace

std::string_view name_of(Outcome outcome) {
  for (const auto& [value, name] : enum_names(Outcome{}))
    if (value == outcome) return name;
  base::fail_invariant(
      base::cat("[run history] outcome ", static_cast<int>(outcome), " has no name; expected an Outcome"));
}

RunEnding ending_of(const RunHistory& history) {
  if (history.end) {
    const std::string& trouble = history.end->trouble;
    if (trouble.empty()) return {Outcome::finished};
    return {trouble.starts_with(trouble_of_preemption) ? Outcome::preempted : Outcome::failed, trouble};
  }
  if (history.starts.empty()) return {};
  return {Outcome::no_end,
          "No end is recorded: the run was killed, or was still training when this report was written."};
}

RunHistory read_history(const fs::path& dir) try {
  std::ifstream file(history_path(dir));
  if (!file) return {};
  const OrderedJson json = OrderedJson::parse(file);
  RunHistory history;
  for (const OrderedJson& s : json.at("starts")) history.starts.push_back(start_of(s));
  if (json.contains("end")) history.end = end_of(json.at("end"));
  return history;
} catch (const nlohmann::json::exception& e) {
  base::fail(base::ExitCode::data, history_path(dir).string(), ": cannot be read (", e.what(),
             "); delete the file to continue the run, with a report that begins at its next step");
}

void record_start(const fs::path& dir, const RunStart& start, const std::string& recipe) {
  RunHistory history = read_history(dir);
  // Removes starts that are not earlier than the new start, because their steps will run again.
  std::erase_if(history.starts, [&](const RunStart& s) { return s.run.first_step >= start.run.first_step; });
  history.starts.push_back(start);
  history.end.reset();
  remove_recipes_after(dir, start.run.first_step);
  base::write_file(recipe_of_start(dir, start), recipe);
  write(dir, history);
}

void record_end(const fs::path& dir, const RunEnd& end) {
  RunHistory history = read_history(dir);
  if (history.end &&
      history.end->step == end.step) {  // no step was trained since, because record_start() removes the end
    if (!end.samples.empty()) history.end->samples = end.samples;
    if (end.trouble.empty()) history.end->trouble.clear();
  } else {
    history.end = end;
  }
  write(dir, history);
}

fs::path recipe_of_start(const fs::path& dir, const RunStart& start) {
  return dir / fmt::format("recipe-{:08}.yaml", start.run.first_step);
}

std::string utc_now() { return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr))); }

}  // namespace hexad::train
