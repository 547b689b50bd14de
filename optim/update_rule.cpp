#include "optim/update_rule.h"

#include <algorithm>
#include <cctype>

#include "framework/config/words.h"
#include "framework/kernels/kernel_table.h"
#include "optim/muon.h"

namespace hexad::optim {

using namespace base;
namespace {

using base::cat;

class Adamw final : public UpdateRule {
 public:
  explicit Adamw(const OptimConfig& c) : beta1_(c.beta1), beta2_(c.beta2), eps_(c.eps) {}

  std::vector<std::string> states() const override { return {"moment1", "moment2"}; }
  void update(Stream& stream, std::span<const Slice> slices, const UpdateStep& s) const override {
    std::vector<kernels::AdamwSlice> all;
    for (const Slice& slice : slices)
      all.push_back({slice.main, slice.states[0], slice.states[1], slice.weights, slice.gradient, slice.weight_decay,
                     slice.place, slice.rounding_key});
    kernels::kernels(slices.front().main.device())
        .optimizer.adamw(stream, all, {.lr = s.lr, .beta1 = beta1_, .beta2 = beta2_, .eps = eps_, .step = s.step},
                         s.factor);
  }
  bool only_launches_kernels() const override { return true; }

 private:
  double beta1_, beta2_, eps_;
};

class Sgd final : public UpdateRule {
 public:
  void update(Stream& stream, std::span<const Slice> slices, const UpdateStep& s) const override {
    const auto& k = kernels::kernels(slices.front().main.device()).optimizer;
    for (const Slice& slice : slices) k.sgd(stream, slice.main, slice.weights, slice.gradient, s.lr, s.factor);
  }
  bool only_launches_kernels() const override { return true; }
};

void check_states(const std::string& rule, std::vector<std::string> names, const std::string& marked) {
  const auto refuse = [&](const std::string& why) {
    base::fail(base::ExitCode::usage, "optim.name (", rule, "): ", why);
  };
  for (const std::string& name : names) {
    const bool word =
        !name.empty() && std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) || c == '_'; });
    if (!word || name == "main" || name == "parameter" || name == "state")
      refuse(cat("'", config::shown(name),
                 "' is not a legal name of a state: expected letters, digits and underscores, but not main, parameter "
                 "or state"));
  }
  if (!marked.empty() && std::ranges::find(names, marked) == names.end())
    refuse(cat("marked_state is '", marked, "', which is not a state of the rule; expected one of its states: ",
               config::nearest_first(marked, names)));
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    refuse(cat("two states have the name ", *twice, "; expected unique names"));
}

}  // namespace

std::string misplaced_muon_key(const OptimConfig& config) {
  const OptimConfig unset;
  if (config.name == "muon") return {};
  if (config.muon_momentum != unset.muon_momentum) return "optim.muon_momentum";
  if (config.muon_iterations != unset.muon_iterations) return "optim.muon_iterations";
  return config.muon_except.empty() ? "" : "optim.muon_except";
}

std::string moment_dtype_problem(const OptimConfig& config, const RuleDeclaration& declared) {
  if (config.moment_dtype == MomentDtype::f32 || declared.reads_moment_dtype) return {};
  return cat("must be f32 for the optimizer ", config.name, ", whose states are never in bf16");
}

std::string main_weights_problem(const OptimConfig& config, const RuleDeclaration& declared) {
  if (config.main_weights == MainWeights::f32 || !declared.marked_state.empty()) return {};
  return cat("must be f32 for the optimizer ", config.name, ", which cannot update main weights stored as rests");
}

std::string overlap_problem(const OptimConfig& config, const UpdateRule& rule) {
  if (!config.overlap) return {};
  if (dynamic_cast<const MatrixRule*>(&rule))
    return cat("must be false for the optimizer ", config.name,
               ", whose updates of matrices need the host and other ranks");
  if (rule.only_launches_kernels()) return {};
  return cat("must be false for the optimizer ", config.name,
             ", whose updates do not only launch kernels (UpdateRule::only_launches_kernels)");
}

config::OptionsOwner rule_options(const OptimConfig& config) {
  return {"optim.options", "the optimizer " + config.name};
}

UpdateRules::UpdateRules()
    : Named("optimizers", {{"adamw",
                            {.reads_moment_dtype = true,
                             .marked_state = "moment2",
                             .make = [](const RuleSpec& s) { return std::make_unique<Adamw>(s.config); }}},
                           {"sgd", {.make = [](const RuleSpec&) { return std::make_unique<Sgd>(); }}},
                           {"muon", {.make = [](const RuleSpec& s) {
                              return std::make_unique<Muon>(s.config, std::make_unique<Adamw>(s.config));
                            }}}}) {}

std::unique_ptr<UpdateRule> UpdateRules::make(const OptimConfig& config) const {
  const RuleDeclaration* declared = find(config.name);
  if (!declared)
    base::fail(base::ExitCode::usage, "optim.name (", config::shown(config.name),
               ") is not a registered optimizer; registered: ", config::nearest_first(config.name, names()));
  if (const std::string problem = moment_dtype_problem(config, *declared); !problem.empty())
    base::fail(base::ExitCode::usage, "optim.moment_dtype (bf16) ", problem);
  if (const std::string problem = main_weights_problem(config, *declared); !problem.empty())
    base::fail(base::ExitCode::usage, "optim.main_weights (rest) ", problem);
  auto rule = declared->make(RuleSpec{config, *declared});
  check_states(config.name, rule->states(), declared->marked_state);
  if (const std::string problem = overlap_problem(config, *rule); !problem.empty())
    base::fail(base::ExitCode::usage, "optim.overlap (true) ", problem);
  return rule;
}

}  // namespace hexad::optim
