#include "tools/train/recipe/stage_documents.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/ranges.h>

#include "framework/base/counted.h"
#include "tools/train/recipe/step_range.h"

namespace hexad::train {
namespace {

using base::cat;
using config::Document;
using config::Node;
using config::Problems;

// A recipe of which only the list `stages` is read.
struct StageList {
  std::vector<StageConfig> stages;

  template <class V>
  void fields(V& v) {
    v("stages", stages, "stages of training");
  }
};

Node in_section(std::string_view name, Node node) {
  return {.kind = Node::Kind::map, .at = node.at, .key = std::string(name), .children = {std::move(node)}};
}

// Merges the key `over` into `map`. Sections are merged key by key; an empty section changes nothing. A value from the
// command line is replaced only by another value from the command line.
void put(Node& map, Node over) {
  Node* under = map.find(over.key);
  if (!under) return map.children.push_back(std::move(over));
  const bool section = under->kind == Node::Kind::map;
  if (section && over.kind == Node::Kind::null) return;
  if (section && over.kind == Node::Kind::map) {
    for (Node& child : over.children) put(*under, std::move(child));
    return;
  }
  if (!under->at.on_command_line() || over.at.on_command_line()) *under = std::move(over);
}

Document without_stages(Document document) {
  std::erase_if(document.root.children, [](const Node& child) { return child.key == "stages"; });
  return document;
}

void put_stage(Document& document, const Node& stage) {
  for (const Node& child : stage.children) {
    if (child.key == "steps") continue;  // train.steps counts the steps of all stages
    const bool of_model =
        child.key == "context" || child.key == "rotary_theta" || child.key == "yarn" || child.key == "rotary_scaling";
    const std::string_view section = of_model ? "model" : child.key == "lr" ? "optim" : "";
    put(document.root, section.empty() ? child : in_section(section, child));
  }
}

// Returns the key train.steps with the sum `steps`. If the command line gives the steps of a stage, the key gets the
// position of these steps. check_warmup() then accepts the run as a short trial of a longer recipe.
Node steps_of_run(const Node& list, int64_t steps) {
  Node node{.kind = Node::Kind::scalar, .at = list.at, .key = "steps", .text = cat(steps)};
  for (const Node& stage : list.children)
    if (const Node* of_stage = stage.find("steps"); of_stage && of_stage->at.on_command_line()) node.at = of_stage->at;
  return in_section("train", std::move(node));
}

// Adds a problem if the recipe sets train.steps to another value than `steps`, the sum over all stages.
void check_steps(const Document& document, int64_t steps, Problems& problems) {
  const Node* train = document.root.find("train");
  const Node* written = train ? train->find("steps") : nullptr;
  if (written && written->text != cat(steps))
    problems.report(written->at, "train.steps",
                    cat("train.steps (", written->text, ") must be the sum of the steps of all stages (", steps,
                        "); remove train.steps, or change the steps of the stages, such as stages.0.steps"));
}

// Adds a problem if a stage of a model with learned positions changes keys that may change only with rotary positions.
void check_positions(const Recipe& recipe, const Recipe& first, Problems& problems) {
  const layers::ModelConfig &now = recipe.model, &before = first.model;
  if (now.position != layers::PositionKind::learned || !problems.good({"model"})) return;
  if (now.context != before.context)
    problems.add("model.context", cat("must be that of the first stage (", before.context,
                                      ") for model.position: learned, which has a weight for each position"));
  if (now.rotary_theta != before.rotary_theta)
    problems.add("model.rotary_theta", cat("must be that of the first stage (", before.rotary_theta,
                                           ") for model.position: learned, which does not read it"));
  if (!config::differences(now.yarn, before.yarn).empty())
    problems.add("model.yarn", "must be that of the first stage for model.position: learned, which does not read it");
  if (!config::differences(now.rotary_scaling, before.rotary_scaling).empty())
    problems.add("model.rotary_scaling",
                 "must be that of the first stage for model.position: learned, which does not read it");
}

// Adds a problem if the recorded steps begin in this stage, steps (begin, end], but end in a later stage. Such a
// recording is illegal, because each stage overwrites trace.json.gz.
void check_timelines(const Recipe& recipe, int64_t begin, int64_t end, Problems& problems) {
  const std::optional<StepRange> steps = parse_steps(recipe.profile.steps);
  if (!steps) return;
  const int64_t trace = recipe.schedule.trace;
  const int64_t first = trace > 0 ? std::min(steps->first, trace) : steps->first, last = std::max(steps->last, trace);
  if (first <= begin || first > end || last <= end) return;
  problems.add("profile.steps",
               cat(trace > 0 ? cat("and schedule.trace (", trace, ") ") : "",
                   "must name steps of one stage, because trace.json.gz shows only one; this stage ends "
                   "after step ",
                   end, trace > 0 ? "" : cat("; nearest: ", to_string({first, end}))));
}

void throw_if_any(const std::vector<Problems>& by_stage) {
  struct Common {
    Problems::Problem problem;
    std::vector<size_t> stages;  // stage numbers, from 1
  };
  std::vector<Common> all;
  for (size_t s = 0; s < by_stage.size(); ++s)
    for (const Problems::Problem& p : by_stage[s].list()) {
      const auto same = std::ranges::find_if(
          all, [&](const Common& c) { return c.problem.line == p.line && c.problem.at.text() == p.at.text(); });
      if (same == all.end())
        all.push_back({p, {s + 1}});
      else
        same->stages.push_back(s + 1);
    }
  Problems joined;
  for (const auto& [p, stages] : all)
    joined.report(p.at, p.path.empty() ? p.rule : p.path,
                  stages.size() == by_stage.size()
                      ? p.line
                      : fmt::format("{} (stage {} of {})", p.line, fmt::join(stages, ", "), by_stage.size()));
  joined.throw_if_any();
}

}  // namespace

std::vector<StageDocument> stage_documents(const Document& document) {
  const Node* list = document.root.find("stages");
  if (!list) return {};
  Problems problems;
  const Node root{.kind = Node::Kind::map, .at = document.root.at, .children = {*list}};
  const std::vector<StageConfig> stages = config::read<StageList>({root}, problems).stages;
  const Document common = without_stages(document);
  int64_t steps = 0;
  if (!problems.any()) {
    for (const StageConfig& stage : stages) steps += stage.steps;
    if (!stages.empty()) check_steps(document, steps, problems);
  }
  if (problems.any()) config::read<Recipe>(common, problems);  // also reports other keys that cannot be read
  problems.throw_if_any();
  std::vector<StageDocument> all;
  for (size_t s = 0; s < stages.size(); ++s) {
    all.push_back({stages[s].steps, common});
    put_stage(all.back().document, list->children[s]);
    put(all.back().document.root, steps_of_run(*list, steps));
  }
  return all;
}

Document document_of_stage(const Document& document, int64_t number) {
  std::vector<StageDocument> stages = stage_documents(document);
  if (stages.empty() && number == 0) return document;
  const auto count = std::ssize(stages);
  if (stages.empty())
    base::fail(base::ExitCode::usage, "--stage ", number, ": the recipe has no stages; remove --stage");
  const std::string where = document.root.find("stages")->at.text();
  if (number == 0)
    base::fail(base::ExitCode::usage, where, ": the recipe has ", base::counted(count, "stage"),
               "; choose a stage: --stage with a number from 1 to ", count);
  if (number < 0 || number > count)
    base::fail(base::ExitCode::usage, where, ": --stage is ", number, "; expected a number from 1 to ", count);
  return std::move(stages[number - 1].document);
}

Recipe read_stages(const std::vector<StageDocument>& stages,
                   const std::function<Recipe(const Document&, Problems&)>& read) {
  std::vector<Recipe> recipes;
  std::vector<Problems> problems(stages.size());
  int64_t steps = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    recipes.push_back(read(stages[s].document, problems[s]));
    check_positions(recipes[s], recipes[0], problems[s]);
    check_timelines(recipes[s], steps, steps + stages[s].steps, problems[s]);
    steps += stages[s].steps;
  }
  throw_if_any(problems);
  Recipe all = recipes.front();
  for (size_t s = 0; s < stages.size(); ++s) {
    const Recipe& r = recipes[s];
    all.stages.push_back({.steps = stages[s].steps,
                          .context = r.model.context,
                          .rotary_theta = r.model.rotary_theta,
                          .yarn = r.model.yarn,
                          .rotary_scaling = r.model.rotary_scaling,
                          .lr = r.optim.lr,
                          .recompute = r.recompute,
                          .batch = r.batch,
                          .parallel = r.parallel,
                          .schedule = r.schedule});
  }
  return all;
}

}  // namespace hexad::train
