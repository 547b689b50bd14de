// Subject of verify: a recipe with its data, and variations of the recipe (subject_kind.h). An oracle holds the results
// that one rank computes in f64 for a subject.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/config/document.h"
#include "layers/moe/router/routing_log.h"
#include "layers/registry.h"
#include "tools/train/model/evaluation.h"
#include "tools/train/recipe/recipe.h"
#include "tools/verify/tensor_comparison.h"
#include "tools/verify/variant.h"
#include "tools/verify/verify_names.h"

namespace hexad::verify {

class TrainingRun;

/// Number of GPUs that ranks use if the ranks are threads; `one` without GPUs.
enum class CardsOfThreads : uint8_t { one, several };

class Subject {
 public:
  /// Makes a subject that is computed in f64, with an optim.eps of at least 1e-5 and an optim.min_lr_ratio of at least
  /// 0.1. `recipe` must be valid and complete. Checkpoints of runs are written to `folder`. If ranks are processes,
  /// `node_of_rank` has the node of each rank. If ranks are threads on nodes_of_threads(), `node_of_rank` is empty.
  /// Throws Error(usage) if the model or the batch is too big to be computed many times on one machine.
  Subject(Recipe recipe, const Extensions& extensions, int steps, std::string folder,
          CardsOfThreads cards = CardsOfThreads::one, std::vector<int> node_of_rank = {});

  /// Returns the recipe changed for `variant`. Its runs save to folder()/`name`. Throws Error(usage) like `hexad
  /// train`.
  Recipe recipe_for(const Variant& variant, const std::string& name = "run") const;
  /// Returns the recipe of the oracle for subject `kind`: one rank, f64, on the CPU. MoE layers have a single chunk,
  /// and their collectives do not overlap.
  Recipe oracle_recipe(std::string_view kind = "own") const;
  /// Returns the rule that forbids `variant`, without numbers, or the reason why a run of `variant` would test nothing.
  /// Returns an empty text if the variant is legal.
  std::string illegal(const Variant& variant) const;

  const Recipe& recipe() const { return recipe_; }
  const Extensions& extensions() const { return extensions_; }
  const data::Source& source() const { return *source_; }
  /// Returns a description of the data: "the recipe's data, documents cut further", or "synthetic documents", with the
  /// error in brackets if the recipe's data cannot be opened.
  const std::string& source_text() const { return source_text_; }
  int steps() const { return steps_; }
  /// Returns the data of the held-out loss. Only the first heldout_sequences() sequences are used. If batch.micro is
  /// above 1, these sequences do not fill the last micro-batch, so that padding is tested.
  const data::Source& heldout() const { return *heldout_; }
  /// Returns an invented length of each id's text, in bytes. Some lengths are 0.
  std::vector<int32_t> bytes_per_id() const;
  int64_t heldout_sequences() const { return 4 * recipe_.batch.micro + 1; }
  const std::string& folder() const { return folder_; }
  /// Returns the path of the routing trace that compute_oracle() writes for the subject idle_ranks.
  std::string trace_file() const { return folder_ + "/routing-trace.txt"; }

 private:
  void open_data();
  std::vector<int> nodes_of(int world) const;
  Recipe recipe_for(const Variant& variant, const std::string& name, std::vector<std::string> overrides,
                    device::DeviceKind device) const;
  std::vector<std::string> overrides_of(std::string_view kind) const;

  Recipe recipe_;
  const Extensions extensions_;
  int steps_;
  std::string folder_;
  CardsOfThreads cards_;
  std::vector<int> node_of_rank_;  // empty: nodes_of_threads()
  config::Document plain_;         // the recipe with plain options, before overrides
  std::shared_ptr<const data::Source> source_, heldout_;
  std::string source_text_;
};

/// Results of one rank that runs Subject::oracle_recipe().
struct Oracle {
  std::vector<Expected> steps;  // steps[0] is the state before the first step, without result and gradients
  std::string checkpoint;       // folder of the checkpoint saved after the first step
  /// Held-out losses after the last step, without padding. Tokens and bytes are counted in the data themselves.
  Evaluation heldout;
  std::vector<int32_t> continued;  // result of generated() after the last step; empty for an encoder
  layers::RoutingLog routing;      // routing in all steps and in the evaluation; recorded if may_differ_by_rounding()
  // The members below are set only for an eventful kind.
  std::string start{};  // checkpoint with the initial weights
  // Names of the tensors that get a NaN in the first step: the weight `ruined` in the training loop of `hexad train`,
  // the gradient of `ruined_gradient` in other runs.
  std::string ruined{};
  std::string ruined_gradient{};
};
/// Permission for compute_oracle() to write a checkpoint. If several processes compute the same oracle, only one of
/// them may write.
enum class Saves : uint8_t { no, yes };
/// Computes the oracle of subject `kind`. `start` is a checkpoint with the initial weights of an eventful kind. Throws
/// Error(numeric) with the name of the loss or tensor if the oracle itself is not finite. Other errors come from
/// training. The messages say first that the oracle failed.
Oracle compute_oracle(const Subject& subject, Saves saves = Saves::yes, std::string_view kind = "own",
                      const std::string& start = {});
/// Loads the oracle's initial weights if the run is eventful. Does nothing otherwise. Called before the first step.
void begin_course(const Oracle& oracle, TrainingRun& run);
/// Sets an element of the gradient of Oracle::ruined_gradient to NaN in the first step of an eventful run. Called after
/// gradients are reduced.
void ruin_gradient(const Oracle& oracle, TrainingRun& run);

/// True if a run of this recipe can continue a text. Generation requires a decoder, and whole sequences on every rank.
bool can_generate(const Recipe& recipe);
/// Continues the first tokens of the held-out text twice: once with the most probable tokens, once with sampled tokens.
/// Returns the ids of both continuations. Collective.
std::vector<int32_t> generated(const Subject& subject, ModelInstance& instance);

/// Oracles of all kinds of subject. Each oracle is computed on first use.
class Oracles {
 public:
  explicit Oracles(const Subject& subject, Saves saves = Saves::yes) : subject_(subject), saves_(saves) {}
  const Oracle& of(const Variant& variant) { return of(variant["subject"]); }

 private:
  const Oracle& of(const std::string& kind);
  const Subject& subject_;
  Saves saves_;
  std::map<std::string, Oracle> computed_;
};

}  // namespace hexad::verify
