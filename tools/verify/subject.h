// Subject of verify: a recipe and its kinds of subject_kind.h, with data, and what one rank makes of them in f64.
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

namespace hexad::verify {

class TrainingRun;

using train::Evaluation;
using train::Extensions;
using train::ModelInstance;
using train::Precision;
using train::Recipe;

class Subject {
 public:
  /// `recipe` is valid and completed; it is computed in f64, with an optim.eps of at least 1e-5. Checkpoints of runs go
  /// under `folder`. Throws Error(usage) when the model is too big to be computed many times on one machine.
  Subject(Recipe recipe, const Extensions& extensions, int steps, std::string folder);

  /// The recipe run this way; runs that save do so in `folder`/NAME. Throws Error(usage) as `hexad train` does.
  Recipe recipe_for(const Variant& variant, const std::string& name = "run") const;
  /// The subject `kind` on one rank in f64 on the CPU, its MoE layers doing one thing after another.
  Recipe oracle_recipe(std::string_view kind = "own") const;
  /// The rule that forbids this, without the numbers, or why it would show nothing; empty for none.
  std::string illegal(const Variant& variant) const;

  const Recipe& recipe() const { return recipe_; }
  const Extensions& extensions() const { return extensions_; }
  const data::Source& source() const { return *source_; }
  /// "the recipe's data, cut further", "synthetic documents"
  const std::string& source_text() const { return source_text_; }
  int steps() const { return steps_; }
  /// Data of the held-out loss: the first heldout_sequences() of these, which fill no whole number of passes.
  const data::Source& heldout() const { return *heldout_; }
  /// Lengths of the texts that its ids stand for, some of them empty.
  std::vector<int32_t> bytes_per_id() const;
  int64_t heldout_sequences() const { return 4 * recipe_.batch.micro + 1; }
  const std::string& folder() const { return folder_; }
  /// Trace file of the subject that has one; compute_oracle() writes it.
  std::string trace_file() const { return folder_ + "/routing-trace.txt"; }

 private:
  void open_data();
  Recipe recipe_for(const Variant& variant, const std::string& name, std::vector<std::string> overrides) const;
  std::vector<std::string> overrides_of(std::string_view kind) const;

  Recipe recipe_;
  const Extensions extensions_;
  int steps_;
  std::string folder_;
  config::Document plain_;  // the recipe with plain options, to be overridden
  std::shared_ptr<const data::Source> source_, heldout_;
  std::string source_text_;
};

/// Results that one rank computes from Subject::oracle_recipe().
struct Oracle {
  std::vector<Expected> steps;  // [0]: before the first; without a result and gradients
  std::string checkpoint;       // saved after the first step
  // After the last step:
  Evaluation heldout;              // without padding; its tokens and bytes are counted in the data
  std::vector<int32_t> continued;  // what generated() gives; empty for an encoder
  layers::RoutingLog routing;      // of a kind that may be rounded; else empty
  // For an eventful kind:
  std::string start{};   // a checkpoint, whose weights it starts at
  std::string ruined{};  // name of the tensor whose first gradient is not finite in the first step
};
/// `yes` leaves a checkpoint: of several processes that compute the same, one does.
enum class Saves : uint8_t { no, yes };
/// `start`: a checkpoint, for an eventful kind. Throws Error(numeric), naming a tensor, if the oracle itself is not
/// finite, and Error or what training throws, saying that it was the oracle.
Oracle compute_oracle(const Subject& subject, Saves saves = Saves::yes, std::string_view kind = "own",
                      const std::string& start = {});
/// Takes an eventful run to the weights that the oracle started at; other runs stay as they are. Before the first step.
void begin_course(const Oracle& oracle, TrainingRun& run);
/// Ruins the gradient that the oracle says, in the first step of an eventful run. Gradients are reduced.
void ruin_gradient(const Oracle& oracle, TrainingRun& run);

/// True if a run of this recipe can continue a text: no rank has only a part of the model or of a sequence.
bool can_generate(const Recipe& recipe);
/// Some tokens, always the most probable ones and then drawn ones, after the first of the held-out text. Collective.
std::vector<int32_t> generated(const Subject& subject, ModelInstance& instance);

/// The oracle of every subject that is asked for, computed the first time.
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
