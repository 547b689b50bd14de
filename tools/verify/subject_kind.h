// Subjects in addition to the recipe itself: the same model with a feature that layouts may get wrong and that the
// recipe may not have. Each subject has its own oracle.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/train/recipe/extensions.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::verify {

/// Recipe on which another subject is based.
struct OwnSubject {
  const train::Recipe& recipe;
  int64_t parameters;  // number of parameters of the recipe's model
  std::string trace;   // file written by write_routing_trace()
};

/// Events in a subject's runs.
enum class Course : uint8_t {
  plain,
  eventful  // runs start at the weights of another run; their first step is not finite and is skipped
};

struct SubjectKind {
  std::string_view name;  // name in lists of layouts
  /// True if the subject differs from the recipe itself, with the parts that the recipe chooses from `extensions`.
  bool (*differs)(const train::Recipe&, const train::Extensions& extensions);
  /// Returns the changes to the recipe.
  std::vector<std::string> (*overrides)(const OwnSubject&);
  /// Further changes, only for the oracle.
  std::vector<std::string> of_oracle{};
  Course course = Course::plain;
};

/// Returns all kinds of subject:
/// - own: the recipe
/// - tied: tied embeddings
/// - forms: norms of queries and keys over all heads, biases of attention, partly turned heads, scaled rotary
///   frequencies; with experts, also a gate on shared ones, a selection bias, a floor of normalised routing weights,
///   groups of experts ranked by their best score (by their two best, if the recipe ranks them by the best one)
/// - latent: latent attention with sizes that no number of ranks divides
/// - prediction: prediction blocks
/// - aux_global_batch: scope of the auxiliary loss
/// - sequences: scopes of the auxiliary loss and of capacity, with which the size of micro-batches must not change the
///   result; the oracle has micro-batches of one sequence and never pads
/// - zipf: skewed routing
/// - idle_ranks: routing from a file that leaves some ranks without rows
/// - eventful: see Course; its learning rate differs from step to step
/// - f32, bf16: weights and activations; the oracle stays in f64
/// - bf16_gradients: like bf16, also for gradients
/// - bf16_moments: like bf16, also for the moments of an optimizer that reads optim.moment_dtype
/// - bf16_rests: like bf16, with main weights stored as rests by an optimizer that can
/// - muon: the optimizer
/// - fp8: rows between ranks
std::span<const SubjectKind> subject_kinds();
/// Returns the kind called `name`.
const SubjectKind& subject_kind(std::string_view name);
/// Returns the changes of `kind` to its runs and its oracle. If the recipe sends rows in fp8, these include the changes
/// with which rounding cannot flip a decision.
std::vector<std::string> overrides_of(const SubjectKind& kind, const OwnSubject& own);

/// Writes a file for model.moe.trace. Tokens of the first half of a global batch visit one quarter of the experts, and
/// tokens of the second half another quarter. Therefore, if experts are distributed over ranks, some ranks get no rows.
/// Other replicas of these ranks' experts see other tokens and do get rows. The file appears atomically, because
/// several processes may write it. Throws Error(resource) if the write fails.
void write_routing_trace(const train::Recipe& recipe, const std::string& file);

}  // namespace hexad::verify
