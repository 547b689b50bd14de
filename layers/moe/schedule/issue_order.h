// Order in which the steps of a pass through the experts are issued, as data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace hexad::moe {

/// Stage of a chunk: its rows are sent to the experts, computed, and returned; its weight gradients follow, in passes
/// that have them.
enum class Stage : uint8_t { dispatch, compute, combine, weights };

struct IssueStep {
  Stage stage;
  size_t chunk;
  bool operator==(const IssueStep&) const = default;
};

/// "dispatch[0] dispatch[1] experts[0] combine[0] weight_gradients[0]", as tasks are called.
std::string to_string(std::span<const IssueStep> steps);

/// Empty for a legal order, else what is wrong with it: "step 2 is experts[0], but dispatch[0] must come before it".
/// In a legal order
///   - every stage of every chunk occurs once, dispatch before compute, and that before combine and before weights;
///   - weights come in the order of chunks: gradients are summed in that order, so all legal orders give the same bits;
///   - `bounded`: at any time at most two chunks are dispatched and not yet combined, since there are buffers for two.
std::string issue_order_problem(std::span<const IssueStep> steps, size_t chunks, bool bounded);

/// An order by name. Dispatch and combine run on one lane, compute and weights on another. Each lane takes its steps in
/// the listed order, and begins one when the chunk's steps before it are done. So an order decides which steps wait for
/// each other, never what is computed.
struct IssueOrder {
  std::string name;
  /// A pure function: all ranks call it with the same number of chunks, and must get the same steps.
  std::function<std::vector<IssueStep>(size_t chunks)> steps;
};

/// The steps of `order`. Throws Error(usage) naming the order and the step when they are illegal.
std::vector<IssueStep> checked_steps(const IssueOrder& order, size_t chunks, bool bounded);

/// S0 S1 C0 R0 W0 S2 C1 R1 W1 C2 R2 W2, in letters (S dispatch, C experts, R combine, W weight gradients): a chunk is
/// sent while the one before it is computed, then that one returns (MPMoE, Fig. 4(b) and section 3.2.1), and its weight
/// gradients are computed meanwhile.
IssueOrder alternating_order();

/// Built-in orders; a user's program may register more:
///   - alternating: see above;
///   - weights_last, S0 S1 C0 R0 S2 C1 R1 C2 R2 W0 W1 W2: all weight gradients at the end, so that no chunk waits for
///     them to be computed; they overlap with the last return;
///   - returns_last, S0 S1 S2 C0 W0 C1 W1 C2 W2 R0 R1 R2: all chunks are sent before the first returns, as Tutel does,
///     and FasterMoE, whose chunks are nodes: what MPMoE is compared with. Results of early chunks wait for late ones
///     to be sent, and the rows of all chunks are in memory at once: with memory_reuse other than none it is legal for
///     two chunks only.
std::vector<IssueOrder> built_in_orders();

}  // namespace hexad::moe
