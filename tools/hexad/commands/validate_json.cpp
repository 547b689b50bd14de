#include "tools/hexad/commands/validate_json.h"

#include <regex>
#include <sstream>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "framework/config/recipe_error.h"
#include "framework/config/typed_recipe.h"

namespace hexad::app {
namespace {

using config::RecipeProblem;
using Json = nlohmann::ordered_json;

Json memory_of(const plan::MemoryEstimate& m) {
  return {{"weights", m.weights},         {"gradients", m.gradients},
          {"optimizer", m.optimizer},     {"activations", m.activations},
          {"connections", m.connections}, {"temporary", m.temporary},
          {"offloaded", m.offloaded},     {"total", m.total}};
}

// Returns the layers [begin, end) of each virtual stage of each rank.
Json layers_of(const pp::StageSplit& split) {
  Json stages = Json::array();
  for (int rank = 0; rank < split.stages().ranks; ++rank) {
    Json& layers = stages.emplace_back(Json::array());
    for (int local = 0; local < split.stages().stages_a_rank; ++local) {
      const auto [begin, end] = split.layers(rank, local);
      layers.push_back({begin, end});
    }
  }
  return stages;
}

Json by_axis(const std::function<int(base::Axis)>& value) {
  using enum base::Axis;
  Json json = Json::object();
  for (const base::Axis axis : {pp, dp, cp, tp, edp, ep, etp}) json[std::string(mesh::name_of(axis))] = value(axis);
  return json;
}

// Returns the number of places that the groups of each axis span.
Json spread_json(const std::vector<train::AxisSpread>& spread) {
  Json json = Json::object();
  for (const train::AxisSpread& axis : spread) json[std::string(mesh::name_of(axis.axis))] = axis.nodes;
  return json;
}

// Returns the key at the beginning of a message; empty if there is none.
std::string leading_key(const std::string& message) {
  static const std::regex dotted("^[a-z][a-z0-9_]*(\\.[a-z0-9_]+)+");
  std::smatch found;
  return std::regex_search(message, found, dotted) ? found.str() : "";
}

const config::Node* node_of(const config::Document& document, const std::string& key) {
  const config::Node* node = &document.root;
  std::istringstream parts(key);
  for (std::string part; node && std::getline(parts, part, '.');) {
    const bool index = node->kind == config::Node::Kind::list && part.find_first_not_of("0123456789") == part.npos;
    const size_t i = index ? std::stoul(part) : 0;
    node = !index ? node->find(part) : i < node->children.size() ? &node->children[i] : nullptr;
  }
  return node;
}

/// Parses the problems in the text of an error. A line is "recipe.yaml:14: TEXT", "recipe.yaml: TEXT", "command line:
/// KEY=VALUE: TEXT" or "TEXT". A line with TEXT alone continues the previous problem, if there is one.
std::vector<RecipeProblem> problems_in(const std::string& text, const std::string& recipe) {
  static const std::regex placed("^(.+?\\.ya?ml|command line: .*?)(:([0-9]+))?: (.*)$");
  std::vector<RecipeProblem> problems;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch m;
    if (line.starts_with(recipe + ": "))
      problems.push_back({.source = recipe, .key = "", .message = line.substr(recipe.size() + 2)});
    else if (std::regex_match(line, m, placed))
      problems.push_back({.source = m[1], .line = m[3].matched ? std::stoi(m[3]) : 0, .key = "", .message = m[4]});
    else if (problems.empty())
      problems.push_back({.source = recipe, .key = "", .message = line});
    else
      problems.back().message += "\n" + line;
  }
  for (RecipeProblem& p : problems) p.key = leading_key(p.message);
  return problems;
}

/// Sets the file and line of problems that have a key but no line.
void place(std::vector<RecipeProblem>& problems, const std::string& recipe, const std::vector<std::string>& overrides) {
  try {
    const config::Document document = config::load(recipe, overrides);
    for (RecipeProblem& p : problems) {
      const config::Node* node = p.line > 0 || p.key.empty() ? nullptr : node_of(document, p.key);
      if (node && node->at.source) p.source = *node->at.source, p.line = node->at.line;
    }
  } catch (const base::Error&) {  // the recipe is not valid YAML, which `problems` already report
  }
}

Json json_of(const RecipeProblem& p) {
  const bool given = p.source.starts_with(config::command_line_source);  // true if the key was given as key.path=value
  const auto text = [](const std::string& s) { return s.empty() ? Json(nullptr) : Json(s); };
  return {{"file", given ? Json(nullptr) : text(p.source)},
          {"line", given || p.line == 0 ? Json(nullptr) : Json(p.line)},
          {"override", given ? Json(p.source.substr(config::command_line_source.size())) : Json(nullptr)},
          {"key", text(p.key)},
          {"message", p.message}};
}

void print(const Json& json) { fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace)); }

void print_problems(const base::Error& error, const std::string& recipe, const std::vector<std::string>& overrides) {
  const auto* listed = dynamic_cast<const config::RecipeError*>(&error);
  std::vector<RecipeProblem> problems = listed ? listed->problems() : problems_in(error.what(), recipe);
  place(problems, recipe, overrides);
  Json list = Json::array();
  for (const RecipeProblem& p : problems) list.push_back(json_of(p));
  print({{"recipe", recipe}, {"valid", false}, {"exit_code", static_cast<int>(error.code())}, {"problems", list}});
}

Json json_of(const Validation& v) {
  Json memory_by_stage = Json::array(), traffic = Json::object();
  for (const plan::MemoryEstimate& stage : v.estimates.stages) memory_by_stage.push_back(memory_of(stage));
  for (int c = 0; c < comm::traffic_class_count; ++c)
    if (const auto kind = static_cast<comm::TrafficClass>(c); v.estimates.traffic[kind] > 0)
      traffic[std::string(name_of(kind))] = v.estimates.traffic[kind];
  const auto& neediest = v.estimates.stages.at(v.estimates.neediest());
  Json json{
      {"recipe", v.recipe},
      {"valid", true},
      {"exit_code", 0},
      {"ranks", v.ranks},
      {"fewest_ranks", v.fewest_ranks},
      {"layout", by_axis([&](base::Axis axis) { return v.layout.size(axis); })},
      {"order", v.layout.order().empty() ? "auto" : v.layout.order()},
      {"start", v.start_line},
      {"warnings", v.warnings},
      {"resumes_from", v.start.checkpoint.empty()
                           ? Json(nullptr)
                           : Json{{"checkpoint", v.start.checkpoint}, {"step", v.start.trained_steps}}},
      {"parameters", v.size.parameters},
      {"active_parameters", v.size.active_parameters},
      {"expert_parameters", v.size.expert_parameters},
      {"flops_per_token", v.size.flops_per_token},
      {"tokens_per_step", v.tokens_per_step},
      {"memory_bytes", memory_of(neediest)},
      {"memory_limit_bytes", v.memory_limit_bytes > 0 ? Json(v.memory_limit_bytes) : Json(nullptr)},
      {"memory_bytes_by_stage", memory_by_stage},
      {"layers_by_stage", layers_of(v.stages)},
      {"sent_bytes_per_step", traffic},
      {"checkpoint",
       {{"bytes", v.checkpoint_bytes},
        {"seconds", v.checkpoint_time.most > 0 ? Json{v.checkpoint_time.least, v.checkpoint_time.most} : Json(nullptr)},
        {"seconds_are", v.checkpoint_time.source}}}};
  if (v.step)
    json["step"] = {{"cluster", v.step->cluster},
                    {"seconds", v.step->seconds},
                    {"seconds_interval", {v.step->error.least(v.step->seconds), v.step->error.most(v.step->seconds)}},
                    {"interval", v.step->error.explanation()},
                    {"tokens_per_second", v.step->rates.tokens_per_second},
                    {"mfu", v.step->rates.peak_flops_per_second > 0 ? Json(v.step->rates.mfu()) : Json(nullptr)},
                    {"assumed", v.step->assumed},
                    {"places", v.step->places},
                    {"places_of_groups", spread_json(v.step->spread)}};
  for (int rank = 0; v.with_mesh && rank < v.layout.world(); ++rank)
    json["mesh"].push_back(by_axis([&](base::Axis axis) { return v.layout.coordinate(axis, rank); }));
  return json;
}

}  // namespace

std::string json_of(const std::vector<Validation>& stages) {
  const Validation& first = stages.front();
  Json json;
  if (first.stage.empty()) {
    json = json_of(first);
  } else {
    json = {{"recipe", first.recipe}, {"valid", true}, {"exit_code", 0}, {"stages", Json::array()}};
    for (const Validation& stage : stages) {
      json["stages"].push_back(json_of(stage));
      json["stages"].back()["stage"] = stage.stage;
    }
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

base::ExitCode with_json_problems(const std::string& recipe, const std::vector<std::string>& overrides,
                                  const std::function<base::ExitCode()>& validate) {
  try {
    return validate();
  } catch (const base::Error& e) {
    print_problems(e, recipe, overrides);
    throw;
  }
}

}  // namespace hexad::app
