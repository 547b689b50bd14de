#include "tools/hexad/verify/subject.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/base/tolerance.h"
#include "framework/data/training_data.h"
#include "layers/model_size.h"
#include "parallel/comm/self_group.h"
#include "tools/hexad/verify/documents.h"
#include "tools/hexad/verify/training_run.h"

namespace hexad::verify {
namespace {

// Larger ones would take hours, and memory for every rank and the oracle beside them.
constexpr int64_t most_parameters = int64_t{1} << 23, most_tokens = int64_t{1} << 15;

constexpr std::string_view document_name = "layout";

// Adam divides by the root of the second moment. Where a gradient is zero but for rounding, that would divide rounding
// by rounding: no layout gives the same weights then.
constexpr double least_eps = 1e-5;

void require_small(const Recipe& r) {
  const int64_t parameters = layers::model_size(r.model).parameters, tokens = r.batch.global * r.model.context;
  if (parameters <= most_parameters && tokens <= most_tokens) return;
  fail(ExitCode::usage, "verify computes the recipe in f64 on this machine, again and again: at most ",
       fmt::format("{:L} parameters and {:L} tokens a step; this one has {:L} and {:L}", most_parameters, most_tokens,
                   parameters, tokens),
       "; add --shrink, or override model.* and batch.*");
}

// Every problem is a line "POSITION: KEY (VALUE) RULE; HINT". Numbers are left out, so that meshes can be counted by
// rule.
std::string rule_of(std::string line) {
  line = line.substr(0, line.find('\n'));
  for (std::string_view position : {"command line: ", "layout"})
    if (line.starts_with(position)) line = line.substr(line.find(": ", position.size()) + 2);
  line = line.substr(0, line.find(';'));
  std::string rule;
  int depth = 0;
  for (char c : line) {
    if (c == '(') ++depth;
    if (depth == 0 && !(c == ' ' && rule.ends_with(' '))) rule += c;
    if (c == ')') --depth;
  }
  while (rule.ends_with(' ')) rule.pop_back();
  return rule;
}

Expected state_of(const TrainingRun& run) { return {{}, {}, wholes_of(run.weights()), wholes_of(run.states())}; }

}  // namespace

Subject::Subject(Recipe recipe, const layers::Registry& registry, int steps, std::string folder)
    : recipe_(std::move(recipe)), registry_(registry), steps_(steps), folder_(std::move(folder)) {
  require_small(recipe_);
  recipe_.train.precision = Precision::f64;
  recipe_.checkpoint.resume = "none";
  recipe_.optim.eps = std::max(recipe_.optim.eps, least_eps);
  text_ = config::write(recipe_);
  tolerance_ =
      base::step_tolerance(base::Dtype::f64, recipe_.batch.global * recipe_.model.context, recipe_.model.layers);
  open_data();
}

void Subject::open_data() {
  const int64_t sequences = steps_ * recipe_.batch.global;
  if (!recipe_.data.synthetic) try {
      const auto opened = data::open_training_data(
          recipe_.data,
          {.context = recipe_.model.context, .vocab_size = recipe_.model.vocab, .seed = recipe_.train.seed});
      source_ = std::make_shared<FixedSource>(cut_further(*opened.train, sequences));
      source_text_ = "the recipe's data, documents cut further";
      return;
    } catch (const Error& e) {
      source_text_ = cat("synthetic documents (", e.what(), ")");
    }
  else
    source_text_ = "synthetic documents";
  source_ = std::make_shared<FixedSource>(documents(sequences, recipe_.model.context, recipe_.model.vocab));
}

Recipe Subject::recipe_for(const Variant& variant, const std::string& name) const {
  return recipe_for(variant, name, variant.overrides());
}

Recipe Subject::oracle_recipe() const {
  std::vector<std::string> overrides = Variant().overrides();
  for (const char* plain : {"overlap=sequential", "cut=none", "parts=1", "restore=keep", "order=alternating"})
    overrides.push_back(cat("schedule.moe.", plain));
  return recipe_for(Variant(), "oracle", std::move(overrides));
}

Recipe Subject::recipe_for(const Variant& variant, const std::string& name, std::vector<std::string> overrides) const {
  overrides.push_back("run.dir=" + folder_ + "/" + name);
  // A split fits the stages that it was written for.
  const auto& split = recipe_.schedule.pipeline.split;
  if (!split.empty() && variant.mesh[Axis::pp] != recipe_.parallel.pp)
    overrides.push_back("schedule.pipeline.split=[]");
  return load_recipe(config::parse(text_, std::string(document_name), overrides), registry_, variant.mesh.world());
}

std::string Subject::illegal(const Variant& variant) const {
  try {
    recipe_for(variant);
    return {};
  } catch (const Error& e) {
    return rule_of(e.what());
  }
}

Oracle compute_oracle(const Subject& subject, Saves saves) {
  const comm::SelfGroup self;
  Oracle oracle;
  TrainingRun run(subject.oracle_recipe(), self, subject.registry());
  oracle.steps.push_back(state_of(run));
  for (int s = 1; s <= subject.steps(); ++s) {
    const StepResult result = run.step(subject.source());
    Expected step = state_of(run);
    step.result = result;
    step.gradients = wholes_of(run.gradients());
    oracle.steps.push_back(std::move(step));
    if (s != 1) continue;
    if (saves == Saves::yes) run.save();
    oracle.checkpoint = fmt::format("{}/oracle/checkpoints/step-{:08}", subject.folder(), s);
  }
  return oracle;
}

}  // namespace hexad::verify
