// Variations of the recipe that are verified in addition to the recipe itself. Each variation has a feature that
// layouts may compute wrongly and that the recipe may lack. Each kind of subject has its own oracle.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/train/recipe/extensions.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::verify {

/// The recipe itself, on which all subjects are based.
struct OwnSubject {
  const train::Recipe& recipe;
  int64_t parameters;  // number of parameters of the recipe's model
  std::string trace;   // file written by write_routing_trace()
};

/// Course of a subject's runs.
enum class Course : uint8_t {
  plain,    // no special events
  eventful  // runs start from the weights of another run; their first step is not finite and is skipped
};

struct SubjectKind {
  std::string_view name;  // name in lists of layouts
  /// True if the subject applies to the recipe and differs from it; always true for `own`. `extensions` has the parts
  /// that the recipe may select by name.
  bool (*differs)(const train::Recipe&, const train::Extensions& extensions);
  /// Returns the changes to the recipe, as overrides.
  std::vector<std::string> (*overrides)(const OwnSubject&);
  /// Additional overrides, only for the oracle.
  std::vector<std::string> oracle_overrides{};
  Course course = Course::plain;
};

/// Returns all kinds of subject:
/// - own: the recipe
/// - tied: tied embeddings
/// - forms: less common forms, where the recipe permits them:
///   - norms of queries and keys over all heads (in each head, if norms are zero-centred)
///   - biases, sinks and a gate of attention; clamped queries, keys and values; windows; a bias of the output head
///   - rotary positions on a part of each head; scaled rotary frequencies
///   - a limit of SwiGLU
///   - with experts: shared experts with a gate, biases of experts and router, a dense MLP beside the experts, the
///     other value of model.moe.input, a selection bias, and a floor of normalised routing weights
///   - with experts: groups of experts, ranked by their best score (if the recipe ranks groups by the best score, by
///     their two best scores)
/// - latent: latent attention, with sizes that ranks cannot divide evenly
/// - sparse_mixer: the router of Phi-3.5-MoE
/// - expert_choice: an encoder whose experts choose tokens
/// - llama4: chunks of attention, blocks without rotary positions, a temperature of the queries in these blocks, and
///   norms of queries and keys without gains. With experts, the routing weight multiplies the input of a token's only
///   expert
/// - delta_net: alternating blocks with delta nets and gated attention, and zero-centred norms
/// - prediction: prediction blocks
/// - aux_global_batch: the auxiliary loss covers the global batch
/// - sequences: the auxiliary loss and the capacity cover one sequence, so the size of micro-batches must not change
///   the result. The oracle has micro-batches of one sequence and never pads
/// - zipf: skewed routing
/// - idle_ranks: routing from a file that leaves some ranks without rows, if top_k is below the number of experts
/// - eventful: see Course; the learning rate differs between steps
/// - f32, bf16: dtype of weights and activations; the oracle remains in f64
/// - bf16_gradients: like bf16, with gradients in bf16
/// - bf16_logits: like bf16, with logits in bf16
/// - bf16_moments: like bf16, with moments in bf16, if the optimizer reads optim.moment_dtype
/// - bf16_rests: like bf16, with main weights stored as rests, if the optimizer supports them
/// - muon: the optimizer Muon
/// - fp8: rows between ranks in fp8
std::span<const SubjectKind> subject_kinds();
/// Returns the kind called `name`.
const SubjectKind& subject_kind(std::string_view name);
/// Returns the overrides of `kind` for its runs and its oracle. If the recipe sends rows in fp8, the overrides also
/// prevent rounding from flipping a decision. If an override changes a key of `model`, the overrides also clear
/// optim.freeze and optim.muon_except.
std::vector<std::string> overrides_of(const SubjectKind& kind, const OwnSubject& own);

/// Writes a file for model.moe.trace, with lines for two global batches. The tokens of each half of a batch visit only
/// one block of experts: a quarter of the experts, or top_k experts if these are more.
/// - First batch: the halves visit different blocks, which overlap only if 2 * top_k exceeds the number of experts.
///   Ranks of an ep group with tokens of only one half may get no rows, while replicas of their experts get rows.
/// - Second batch: both halves visit the first block.
///
/// In the second batch, each ep group has a rank without rows. This requires that a rank has at most experts - top_k
/// experts, and at most three quarters of the experts. The file appears atomically, because several processes may write
/// it. Throws Error(resource) if the write fails.
void write_routing_trace(const train::Recipe& recipe, const std::string& file);

}  // namespace hexad::verify
