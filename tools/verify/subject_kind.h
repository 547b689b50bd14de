// Subjects besides the recipe as it is: the same model with something in it that layouts get wrong, which the recipe
// may not have. Each has an oracle of its own.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/train/recipe/recipe.h"

namespace hexad::verify {

/// Recipe that is made into another subject.
struct OwnSubject {
  const train::Recipe& recipe;
  int64_t parameters;  // of its model
  std::string trace;   // a file that write_routing_trace() wrote
};

/// Events in a subject's runs.
enum class Course : uint8_t {
  plain,
  eventful  // they start at the weights of another run, and the first step is not finite: it is skipped
};

struct SubjectKind {
  std::string_view name;  // in lists of layouts
  /// True if it differs from the recipe itself.
  bool (*differs)(const train::Recipe&);
  /// Changes to the recipe.
  std::vector<std::string> (*overrides)(const OwnSubject&);
  /// Further changes for the oracle alone.
  std::vector<std::string> of_oracle{};
  Course course = Course::plain;
};

/// own (the recipe), tied (embeddings), aux_global_batch (scope of the auxiliary loss), sequences (scopes of the
/// auxiliary loss and of capacity, so that the cut into micro-batches must not matter: the oracle's are of one
/// sequence, and it never pads), zipf (skewed routing), idle_ranks (routing from a file that leaves ranks without
/// rows), eventful (see Course; its learning rate differs from step to step), f32 and bf16 (weights and activations;
/// the oracle stays in f64), bf16_gradients (and gradients), fp8 (rows between ranks).
std::span<const SubjectKind> subject_kinds();
/// The one of that name.
const SubjectKind& subject_kind(std::string_view name);
/// Changes by `kind` to its runs and its oracle; if the recipe has rows in fp8, also those that keep rounding from
/// deciding anything.
std::vector<std::string> overrides_of(const SubjectKind& kind, const OwnSubject& own);

/// For model.moe.trace: the tokens of the first half of a global batch visit a quarter of the experts, those of the
/// second half another one. So with experts over ranks some of these get no rows, while replicas of the same experts,
/// which see other tokens, do. The file is there at once as a whole: several processes may write it. Throws
/// Error(resource) when it cannot be written.
void write_routing_trace(const train::Recipe& recipe, const std::string& file);

}  // namespace hexad::verify
