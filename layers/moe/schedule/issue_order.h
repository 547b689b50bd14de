// Order in which a pass through the experts issues its steps, represented as data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace hexad::moe {

/// Stage of a chunk's work: its rows are sent to the experts, computed, and returned. In passes with weight gradients,
/// these are computed at some time after the stage `compute`.
enum class Stage : uint8_t { dispatch, compute, combine, weight_gradients };

struct IssueStep {
  Stage stage;
  size_t chunk;
  bool operator==(const IssueStep&) const = default;
};

/// Returns the names of the steps' tasks: "dispatch[0] dispatch[1] experts[0] combine[0] weight_gradients[0]".
std::string to_string(std::span<const IssueStep> steps);

/// Returns the problem of an illegal order, such as "step 2 is experts[0], but dispatch[0] must come before it".
/// Returns an empty text if the order is legal. In a legal order
///   - every stage of every chunk occurs exactly once: dispatch before compute, and compute before combine and
///     weight_gradients;
///   - weight_gradients are in the order of chunks. Gradients are summed in that order, so all legal orders give
///     bitwise identical results;
///   - if `bounded`, at most two chunks at a time are dispatched but not yet combined, because there are buffers for
///     two.
std::string issue_order_problem(std::span<const IssueStep> steps, size_t chunks, bool bounded);

/// Returns the problem of an order whose chunks share rows (rows: token with chunk_by: experts); empty if there is
/// none. A shared row is sent in the first chunk that computes it, and returns in the last of these chunks. Therefore
/// chunks must be computed in ascending order, and must return in ascending order.
std::string in_turn_problem(std::span<const IssueStep> steps);

/// Named order of steps. The all-to-alls of dispatch and combine run on one lane; compute and weight_gradients run on
/// another lane. Each lane runs its tasks in the listed order of the steps. A compute step starts when the chunk has
/// arrived, and a combine or weight_gradients step when the chunk is computed. The order affects waiting times and
/// memory, but not results.
struct IssueOrder {
  std::string name;
  /// Returns the steps of a pass with `chunks` chunks. Must be a pure function, because all ranks need the same steps.
  std::function<std::vector<IssueStep>(size_t chunks)> steps;
};

/// Returns the steps of `order`. Throws Error(usage), which names the order and the step, if the order is illegal.
std::vector<IssueStep> checked_steps(const IssueOrder& order, size_t chunks, bool bounded);

/// Returns the order `alternating`. For three chunks, it is S0 S1 C0 R0 W0 S2 C1 R1 W1 C2 R2 W2 (S: dispatch, C:
/// experts, R: combine, W: weight gradients). A chunk is sent while the previous chunk is computed. The previous chunk
/// then returns while its weight gradients are computed (MPMoE, Fig. 4(b) and section 3.2.1).
IssueOrder alternating_order();

/// Returns the built-in orders. A user's program may register more orders.
///   - alternating: see above.
///   - weights_last, S0 S1 C0 R0 S2 C1 R1 C2 R2 W0 W1 W2: all weight gradients are computed at the end, so that no
///     chunk waits for them. The weight gradients overlap with the last return.
///   - returns_last, S0 S1 S2 C0 W0 C1 W1 C2 W2 R0 R1 R2: all chunks are sent before the first chunk returns, as in
///     Tutel and in FasterMoE, whose chunks are nodes. The MPMoE paper uses this order for comparison. Results of early
///     chunks wait until all chunks are sent. The rows of all chunks are in memory at the same time. This order is
///     legal for at most two chunks if memory_reuse is not none.
std::vector<IssueOrder> built_in_orders();

}  // namespace hexad::moe
