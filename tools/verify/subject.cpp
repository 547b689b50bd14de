#include "tools/verify/subject.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/base/tolerance.h"
#include "framework/data/training_data.h"
#include "layers/model_size.h"
#include "parallel/comm/self_group.h"
#include "tools/train/generation.h"
#include "tools/train/schedule_check.h"
#include "tools/verify/documents.h"
#include "tools/verify/subject_kind.h"
#include "tools/verify/training_run.h"

namespace hexad::verify {

using namespace base;
using namespace train;
namespace {

// Larger ones would take hours, and memory for every rank and the oracle beside them.
constexpr int64_t most_parameters = int64_t{1} << 23, most_tokens = int64_t{1} << 15;

constexpr std::string_view document_name = "layout";

// Of a continued text: the prompt, and what follows it each time.
constexpr int64_t prompt_tokens = 3, continued_tokens = 4;

// Adam divides by the root of the second moment. Where a gradient is zero but for rounding, that would divide rounding
// by rounding: no layout gives the same weights then.
constexpr double least_eps = 1e-5;

void require_small(const Recipe& r, const Extensions& extensions) {
  const int64_t parameters = layers::parameter_counts(r.model, extensions).parameters,
                tokens = r.batch.global * r.model.context;
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

// Values of `with` take the place of those in `map`.
void replace(config::Node& map, const config::Node& with) {
  for (const config::Node& child : with.children) {
    config::Node* found = map.find(child.key);
    if (!found)
      map.children.push_back(child);
    else if (child.kind == config::Node::Kind::map && found->kind == config::Node::Kind::map)
      replace(*found, child);
    else
      *found = child;
  }
}

int64_t predicted_tokens(const data::Source& source, int64_t sequences) {
  const data::Batch batch = source.batch(0, sequences);
  return std::count_if(batch.targets.begin(), batch.targets.end(), [](int32_t target) { return target >= 0; });
}

Expected state_of(const TrainingRun& run) { return {{}, {}, wholes_of(run.weights()), wholes_of(run.states())}; }

}  // namespace

Subject::Subject(Recipe recipe, const Extensions& extensions, int steps, std::string folder)
    : recipe_(std::move(recipe)), extensions_(extensions), steps_(steps), folder_(std::move(folder)) {
  require_small(recipe_, extensions_);
  recipe_.train.precision = Precision::f64;
  recipe_.checkpoint.resume = "none";
  recipe_.optim.eps = std::max(recipe_.optim.eps, least_eps);
  plain_ = config::parse(config::write(recipe_), std::string(document_name), Variant().overrides());
  open_data();
}

double Subject::tolerance(Precision precision) const {
  const int64_t tokens = recipe_.batch.global * recipe_.model.context, layers = recipe_.model.layers;
  return precision == Precision::f64 ? base::step_tolerance(base::Dtype::f64, tokens, layers)
                                     : base::rounded_step_tolerance(train::dtype_of(precision), tokens, layers);
}

void Subject::open_data() {
  constexpr uint64_t heldout_seed = 7;
  heldout_ = std::make_shared<FixedSource>(
      documents(heldout_sequences(), recipe_.model.context, recipe_.model.vocab, heldout_seed));
  const int64_t sequences = steps_ * recipe_.batch.global;
  if (recipe_.data.source_name() != "synthetic") try {
      const auto opened = data::open_training_data(
          recipe_.data,
          {.context = recipe_.model.context, .vocab_size = recipe_.model.vocab, .seed = recipe_.train.seed},
          extensions_.sources);
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
  std::vector<std::string> overrides = variant.overrides();
  for (std::string& o : overrides_of(variant["subject"])) overrides.push_back(std::move(o));
  if (variant.has_memory_limit()) {
    const Recipe without = recipe_for(variant, name, overrides);
    const moe::ReuseStrategy strategy = without.schedule.moe.settled().memory_reuse;
    overrides.push_back(cat("schedule.moe.memory_limit=", least_memory_limit(without, strategy)));
  }
  return recipe_for(variant, name, std::move(overrides));
}

Recipe Subject::oracle_recipe(std::string_view kind) const {
  std::vector<std::string> overrides = Variant().overrides();
  for (const char* plain : {"overlap=sequential", "chunk_by=none", "chunks=1", "order=alternating"})
    overrides.push_back(cat("schedule.moe.", plain));
  for (std::string& o : overrides_of(kind)) overrides.push_back(std::move(o));
  overrides.emplace_back("train.precision=f64");
  overrides.emplace_back("device=cpu");
  return recipe_for(Variant(), cat("oracle-", kind), std::move(overrides));
}

std::vector<std::string> Subject::overrides_of(std::string_view kind) const {
  return subject_kind(kind).overrides(
      {recipe_, layers::parameter_counts(recipe_.model, extensions_).parameters, trace_file()});
}

Recipe Subject::recipe_for(const Variant& variant, const std::string& name, std::vector<std::string> overrides) const {
  overrides.push_back("run.dir=" + folder_ + "/" + name);
  // A split fits the stages that it was written for.
  const auto& split = recipe_.schedule.pipeline.split;
  if (!split.empty() && variant.mesh[Axis::pp] != recipe_.parallel.pp)
    overrides.push_back("schedule.pipeline.split=[]");
  // Thousands of layouts are looked at: what is plain has been read already.
  const std::vector<std::string> plain = Variant().overrides();
  std::erase_if(overrides, [&](const std::string& o) { return std::count(plain.begin(), plain.end(), o) > 0; });
  config::Document document = plain_;
  replace(document.root, config::parse("{}", std::string(document_name), overrides).root);
  return load_recipe(document, extensions_, variant.mesh.world());
}

std::string Subject::illegal(const Variant& variant) const {
  if (variant["start"] == "resumed" && steps_ == 1)
    return "start=resumed begins after the first step: --steps must be at least 2";
  if (!subject_kind(variant["subject"]).differs(recipe_))
    return cat("subject=", variant["subject"], " is what the recipe has already");
  try {
    recipe_for(variant);
    return {};
  } catch (const Error& e) {
    return rule_of(e.what());
  }
}

Oracle compute_oracle(const Subject& subject, Saves saves, std::string_view kind) {
  const comm::SelfGroup self;
  Oracle oracle;
  const Recipe recipe = subject.oracle_recipe(kind);
  if (recipe.model.moe.trace == subject.trace_file()) write_routing_trace(recipe, subject.trace_file());
  TrainingRun run(recipe, self, subject.extensions());
  if (subject_kind(kind).rounded) run.instance.routing_to = &oracle.routing;
  oracle.steps.push_back(state_of(run));
  for (int s = 1; s <= subject.steps(); ++s) {
    const StepResult result = run.step(subject.source());
    Expected step = state_of(run);
    step.result = result;
    step.gradients = wholes_of(run.gradients());
    oracle.steps.push_back(std::move(step));
    if (s != 1) continue;
    if (saves == Saves::yes) run.save();
    oracle.checkpoint = fmt::format("{}/checkpoints/step-{:08}", run.recipe.run.dir, s);
  }
  const int64_t sequences = subject.heldout_sequences();
  oracle.heldout = evaluate(run.instance, run.recipe, subject.heldout(), sequences, {});
  oracle.heldout.tokens = predicted_tokens(subject.heldout(), sequences);
  if (can_generate(run.recipe)) oracle.continued = generated(subject, run.instance);
  return oracle;
}

bool can_generate(const Recipe& r) {
  return r.model.kind == layers::ModelKind::decoder && r.parallel.pp * r.parallel.tp * r.parallel.cp == 1;
}

std::vector<int32_t> generated(const Subject& subject, ModelInstance& instance) {
  const std::vector<int32_t> text = subject.heldout().batch(0, 1).ids;
  const std::span prompt(text.data(), std::min<size_t>(prompt_tokens, text.size()));
  std::vector<int32_t> out;
  for (const double temperature : {0.0, 1.0})
    for (const int32_t id : generate(instance, prompt, {.max_tokens = continued_tokens, .temperature = temperature}))
      out.push_back(id);
  return out;
}

const Oracle& Oracles::of(const Variant& variant) {
  const std::string& kind = variant["subject"];
  const auto found = computed_.find(kind);
  if (found != computed_.end()) return found->second;
  return computed_.emplace(kind, compute_oracle(subject_, saves_, kind)).first->second;
}

}  // namespace hexad::verify
