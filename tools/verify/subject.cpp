#include "tools/verify/subject.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "framework/base/failure.h"
#include "framework/data/training_data.h"
#include "framework/kernels/kernel_table.h"
#include "layers/model_size.h"
#include "parallel/comm/self_group.h"
#include "parallel/mesh/layout.h"
#include "tools/train/model/generation.h"
#include "tools/train/recipe/schedule_check.h"
#include "tools/verify/exactness.h"
#include "tools/verify/subject_kind.h"
#include "tools/verify/test_documents.h"
#include "tools/verify/training_run.h"

namespace hexad::verify {

using namespace base;
using namespace train;
namespace {

// Largest sizes of a subject. Larger subjects would need hours and too much memory, because all ranks and the oracle
// run on one machine.
constexpr int64_t max_parameters = int64_t{1} << 23, max_tokens = int64_t{1} << 15;

constexpr std::string_view document_name = "layout";

// Lengths, in tokens, of the prompt and of each generated continuation.
constexpr int64_t prompt_tokens = 3, continued_tokens = 4;

// Minimum optim.eps. Adam divides by the root of the second moment plus eps. With a smaller eps, Adam divides rounding
// errors by rounding errors if a gradient is zero except for rounding. Layouts then get different weights.
constexpr double least_eps = 1e-5;

// Minimum optim.min_lr_ratio. With 0, the last step would not change weights.
constexpr double least_lr_ratio = 0.1;

void require_small(const Recipe& r, const Extensions& extensions) {
  const int64_t parameters = layers::parameter_counts(r.model, extensions).parameters,
                tokens = r.batch.global * r.model.context;
  if (parameters <= max_parameters && tokens <= max_tokens) return;
  fail(ExitCode::usage,
       fmt::format(
           "the recipe has {:L} parameters and {:L} tokens per step; expected at most {:L} parameters and {:L} tokens",
           parameters, tokens, max_parameters, max_tokens),
       ", because verify computes each step many times in f64 on this machine; add --shrink, or override model.* and "
       "batch.*");
}

// Returns "KEY RULE" for a problem, which is a line "POSITION: KEY (VALUE) RULE; HINT". Removes text in brackets, so
// that equal rules give equal texts.
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

// Replaces values in `map` by those in `with`, or adds them.
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

// Number of targets in held-out text, and number of bytes of text that these targets represent.
struct Predicted {
  int64_t tokens = 0, bytes = 0;
};
Predicted predicted(const Subject& subject, int64_t sequences) {
  const data::Batch batch = subject.heldout().batch(0, sequences);
  const std::vector<int32_t> bytes = subject.bytes_per_id();
  Predicted out;
  for (const int32_t target : batch.targets)
    if (target >= 0) ++out.tokens, out.bytes += bytes[target];
  return out;
}

// Returns the names of parameters in the order in which forward uses them.
std::vector<std::string> parameter_names(const TrainingRun& run) {
  std::vector<std::string> names;
  for (const auto& p : run.instance.parameters) names.push_back(p->name());
  return names;
}

// Returns the name of the last trainable parameter.
std::string last_trained(const TrainingRun& run) {
  std::string name;
  for (const auto& p : run.instance.parameters)
    if (p->trainable()) name = p->name();
  return name;
}

Expected state_of(const TrainingRun& run) {
  const std::vector<std::string> names = parameter_names(run);
  return {{}, {}, whole_tensors(run.weights(), names), whole_tensors(run.states(), names)};
}

// Throws Error(numeric) if a value of the oracle is not finite, because nothing can be compared with it. Ignores the
// tensor `ruined`, which is intentionally not finite.
void require_finite(const Expected& step, int64_t number, const std::string& ruined) {
  const auto refuse = [&](const std::string& what, double value) {
    fail(ExitCode::numeric, what, " of step ", number, " is ", value,
         ", so nothing can be compared with it; a lower optim.lr or model.init_std may keep it finite");
  };
  if (!std::isfinite(step.result.loss)) refuse("the loss", step.result.loss);
  for (const auto& [kind, tensors] : {std::pair("gradient", &step.gradients), {"weight", &step.weights}})
    for (const auto& [name, whole] : *tensors)
      for (const double value : whole.values)
        if (!std::isfinite(value) && name != ruined) refuse(cat(kind, " ", name), value);
}

}  // namespace

Subject::Subject(Recipe recipe, const Extensions& extensions, int steps, std::string folder, CardsOfThreads cards,
                 std::vector<int> node_of_rank)
    : recipe_(std::move(recipe)),
      extensions_(extensions),
      steps_(steps),
      folder_(std::move(folder)),
      cards_(cards),
      node_of_rank_(std::move(node_of_rank)) {
  require_small(recipe_, extensions_);
  recipe_.train.precision = Precision::f64, recipe_.optim.moment_dtype = optim::MomentDtype::f32;
  recipe_.train.logits_dtype = train::LogitsDtype::f32, recipe_.optim.main_weights = optim::MainWeights::f32;
  recipe_.checkpoint.resume = "none";
  recipe_.optim.eps = std::max(recipe_.optim.eps, least_eps);
  recipe_.optim.min_lr_ratio = std::max(recipe_.optim.min_lr_ratio, least_lr_ratio);
  recipe_.train.steps = steps;  // number of steps that the loop of `hexad train` runs
  recipe_.profile.steps.clear(), recipe_.schedule.trace = 0;
  recipe_.schedule.moe.redecide_every = 0;  // variants set every choice
  plain_ = config::parse(config::write(recipe_), std::string(document_name), Variant().overrides());
  open_data();
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
    const Recipe without = recipe_for(variant, name, overrides, recipe_.device);
    const moe::ReuseStrategy strategy = without.schedule.moe.settled().memory_reuse;
    overrides.push_back(cat("schedule.moe.memory_limit=", least_memory_limit(without, strategy)));
  }
  return recipe_for(variant, name, std::move(overrides), recipe_.device);
}

Recipe Subject::oracle_recipe(std::string_view kind) const {
  std::vector<std::string> overrides = Variant().overrides();
  for (const char* plain : {"overlap=sequential", "chunk_by=none", "chunks=1", "order=alternating"})
    overrides.push_back(cat("schedule.moe.", plain));
  for (std::string& o : overrides_of(kind)) overrides.push_back(std::move(o));
  for (const std::string& o : subject_kind(kind).oracle_overrides) overrides.push_back(o);
  overrides.emplace_back("train.precision=f64");
  overrides.emplace_back("train.logits_dtype=f32");
  overrides.emplace_back("optim.moment_dtype=f32");
  overrides.emplace_back("optim.main_weights=f32");
  return recipe_for(Variant(), cat("oracle-", kind), std::move(overrides), device::DeviceKind::cpu);
}

std::vector<std::string> Subject::overrides_of(std::string_view kind) const {
  return verify::overrides_of(subject_kind(kind),
                              {recipe_, layers::parameter_counts(recipe_.model, extensions_).parameters, trace_file()});
}

Recipe Subject::recipe_for(const Variant& variant, const std::string& name, std::vector<std::string> overrides,
                           device::DeviceKind device) const {
  overrides.push_back("run.dir=" + folder_ + "/" + name);
  // Removes schedule.pipeline.split if the variant has another number of stages than the recipe.
  const auto& split = recipe_.schedule.pipeline.split;
  if (!split.empty() && variant.mesh[Axis::pp] != recipe_.parallel.pp)
    overrides.push_back("schedule.pipeline.split=[]");
  // Skips plain overrides, because plain_ already has them. This saves time if thousands of layouts are checked.
  const std::vector<std::string> plain = Variant().overrides();
  std::erase_if(overrides, [&](const std::string& o) { return std::count(plain.begin(), plain.end(), o) > 0; });
  config::Document document = plain_;
  replace(document.root, config::parse("{}", std::string(document_name), overrides).root);
  return load_recipe(document, extensions_, variant.mesh.world(), {}, device);
}

namespace {

// Returns the reason why ranks on these nodes cannot have windows; empty if they can. Only NCCL maps the memory of
// several cards, and threads on several cards use NCCL only if the recipe requests NCCL.
std::string window_problem(const Recipe& recipe, const mesh::Layout& layout, const std::vector<int>& node_of_rank,
                           CardsOfThreads cards) {
  if (recipe.device == device::DeviceKind::cuda) {
    using enum comm::DeviceCollectives;
    const comm::DeviceCollectives collectives = recipe.distributed.device_collectives;
    if (collectives == host) return "window=yes needs distributed.device_collectives auto or nccl";
    if (cards == CardsOfThreads::several && collectives != nccl)
      return "window=yes with ranks that are threads on several GPUs needs distributed.device_collectives nccl";
  }
  const bool across = !group_across_nodes(layout, Axis::ep, node_of_rank).empty();
  return across ? "window=yes needs every ep group on one node" : "";
}

}  // namespace

std::vector<int> Subject::nodes_of(int world) const {
  return node_of_rank_.empty() ? nodes_of_threads(world) : node_of_rank_;
}

std::string Subject::illegal(const Variant& variant) const {
  if (const std::string& start = variant["start"]; start != "fresh" && steps_ == 1)
    return cat("start=", start, " begins after the first step: --steps must be at least 2");
  if (!subject_kind(variant["subject"]).differs(recipe_, extensions_))
    return cat("subject=", variant["subject"], " changes nothing in this recipe; expected a subject that does");
  try {
    const Recipe recipe = recipe_for(variant);
    const mesh::Layout layout(recipe.parallel.sizes(), variant.mesh.world());
    const std::vector<int> nodes = nodes_of(layout.world());
    if (variant["all_to_all"] == "hierarchical" && !has_two_levels(layout, nodes))
      return cat("all_to_all=hierarchical with order=", variant["order"],
                 " needs every ep group on several nodes, with several ranks on each");
    return variant["window"] == "yes" ? window_problem(recipe, layout, nodes, cards_) : "";
  } catch (const Error& e) {
    return rule_of(e.what());
  }
}

std::vector<int32_t> Subject::bytes_per_id() const {
  std::vector<int32_t> bytes(recipe_.model.vocab);
  for (size_t id = 0; id < bytes.size(); ++id) bytes[id] = static_cast<int32_t>(id % 5);
  return bytes;
}

void begin_course(const Oracle& oracle, TrainingRun& run) {
  if (!oracle.start.empty()) run.init_from(oracle.start);
}

void ruin_gradient(const Oracle& oracle, TrainingRun& run) {
  if (!oracle.ruined.empty() && run.progress.step == 0) run.ruin_gradient(oracle.ruined_gradient);
}

namespace {

// Returns the summed loss, in nats, of the first `sequences` held-out sequences, with batch.micro = `micro`.
double nats(const Subject& subject, TrainingRun& run, int64_t sequences, int64_t micro) {
  Recipe recipe = run.recipe;
  recipe.batch.micro = micro;
  return evaluate(run.instance, recipe, subject.heldout(), sequences, {}).loss *
         static_cast<double>(predicted(subject, sequences).tokens);
}

// Returns the losses of the held-out set without padded sequences. Adds the loss of the remaining sequences, with
// batch.micro = 1, to the loss of the full micro-batches. The added loss is the difference of two evaluations. A first
// evaluation only fills the routing log.
Evaluation heldout_without_padding(const Subject& subject, TrainingRun& run) {
  const int64_t all = subject.heldout_sequences(), micro = run.recipe.batch.micro, full = all / micro * micro;
  evaluate(run.instance, run.recipe, subject.heldout(), all, {});  // only to fill the routing log
  run.instance.routing_to = nullptr;
  double sum = nats(subject, run, full, micro);
  if (full < all) sum += nats(subject, run, all, 1) - nats(subject, run, full, 1);
  const Predicted counted = predicted(subject, all);
  return {.tokens = counted.tokens,
          .processed = all * run.recipe.model.context,
          .loss = sum / static_cast<double>(counted.tokens),
          .bits_per_byte = sum / std::numbers::ln2 / static_cast<double>(counted.bytes)};
}

void compute(Oracle& oracle, const Subject& subject, Saves saves, std::string_view kind) {
  const comm::SelfGroup self;
  const Recipe recipe = subject.oracle_recipe(kind);
  if (recipe.model.moe.trace == subject.trace_file()) write_routing_trace(recipe, subject.trace_file());
  TrainingRun run(recipe, self, subject.extensions(), [&](TrainingRun& r) { ruin_gradient(oracle, r); });
  // The oracle rounds rows with the reference kernels, so that the kernels of a run are compared with the reference
  // kernels.
  for (const auto& [index, layer] : run.instance.model.moe_layers())
    layer->send_rows_with(&kernels::reference_table.wire);
  Variant own;
  own.choose("subject", kind);
  if (may_differ_by_rounding(subject.recipe_for(own))) run.instance.routing_to = &oracle.routing;
  if (!oracle.start.empty()) {
    oracle.ruined = parameter_names(run).back();  // the loss of every token depends on this tensor
    oracle.ruined_gradient = last_trained(run);
  }
  begin_course(oracle, run);
  oracle.steps.push_back(state_of(run));
  // Scales the auxiliary losses, which are sums over micro-batches, because the oracle may have smaller and more
  // micro-batches.
  const double share = static_cast<double>(recipe.batch.micro) / static_cast<double>(subject.recipe().batch.micro);
  for (int s = 1; s <= subject.steps(); ++s) {
    StepResult result = run.step(subject.source());
    for (auto& router : result.routers) router.aux_loss *= share, router.z_loss *= share;
    Expected step = state_of(run);
    step.result = std::move(result);
    step.gradients = whole_tensors(run.gradients(), parameter_names(run));
    require_finite(step, s, s == 1 ? oracle.ruined_gradient : "");
    oracle.steps.push_back(std::move(step));
    if (s != 1) continue;
    if (saves == Saves::yes) run.save();
    oracle.checkpoint = fmt::format("{}/checkpoints/step-{:08}", run.recipe.run.dir, s);
  }
  oracle.heldout = heldout_without_padding(subject, run);
  if (can_generate(run.recipe)) oracle.continued = generated(subject, run.instance);
}

}  // namespace

Oracle compute_oracle(const Subject& subject, Saves saves, std::string_view kind, const std::string& start) {
  Oracle oracle;
  oracle.start = start;
  try {
    compute(oracle, subject, saves, kind);
  } catch (const std::exception& e) {
    const Failure failure = failure_of(e);
    fail(failure.code, "the oracle (subject=", kind, " on one rank in f64 on the CPU) failed: ", failure.text);
  }
  return oracle;
}

bool can_generate(const Recipe& r) { return r.model.kind == layers::ModelKind::decoder && r.parallel.cp == 1; }

std::vector<int32_t> generated(const Subject& subject, ModelInstance& instance) {
  const std::vector<int32_t> text = subject.heldout().batch(0, 1).ids;
  const std::span prompt(text.data(), std::min<size_t>(prompt_tokens, text.size()));
  std::vector<int32_t> out;
  for (const double temperature : {0.0, 1.0})
    for (const int32_t id : generate(instance, prompt, {.max_tokens = continued_tokens, .temperature = temperature}))
      out.push_back(id);
  return out;
}

const Oracle& Oracles::of(const std::string& kind) {
  const auto found = computed_.find(kind);
  if (found != computed_.end()) return found->second;
  const std::string start = subject_kind(kind).course == Course::eventful ? of(std::string("own")).checkpoint : "";
  return computed_.emplace(kind, compute_oracle(subject_, saves_, kind, start)).first->second;
}

}  // namespace hexad::verify
