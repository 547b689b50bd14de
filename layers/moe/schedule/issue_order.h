// In which order the steps of a pass through the experts are issued, as data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace hexad::moe {

/// What happens to a chunk: its rows are sent to the experts, computed, and returned; its weight gradients follow, in
/// passes that have them.
enum class Stage : uint8_t { dispatch, compute, combine, weights };

struct IssueStep {
  Stage stage;
  size_t chunk;
  bool operator==(const IssueStep&) const = default;
};

/// "S0 S1 C0 R0 W0": dispatch S, compute C, combine R, weights W, as tasks are called (pass.h).
std::string to_string(std::span<const IssueStep> steps);

/// Why steps cannot be taken in this order ("step 2 is C0, but S0 has to come before it"), or nothing when they can:
///   every stage of every chunk once;
///   a chunk's dispatch before its compute, and that before its combine and its weights;
///   weights by chunk, so that their sums are added up in one order: every legal order gives the same bits;
///   `bounded`: at most two chunks dispatched and not yet combined, as they share two buffers.
std::string why_illegal(std::span<const IssueStep> steps, size_t chunks, bool bounded);

/// An order by name. Steps are issued as listed: each goes to its lane as soon as what it needs is there and the lane
/// has passed what was listed earlier. Dispatches and combines share a lane, computes and weights another one, so an
/// order decides what waits behind what there, never what is computed.
struct IssueOrder {
  std::string name;
  /// A pure function: all ranks call it with the same number of chunks, and must get the same steps.
  std::function<std::vector<IssueStep>(size_t chunks)> steps;
};

/// The steps of `order`. Throws Error(usage) naming the order and the step when they are illegal.
std::vector<IssueStep> checked_steps(const IssueOrder& order, size_t chunks, bool bounded);

/// S0 S1 C0 R0 W0 S2 C1 R1 W1 C2 R2 W2: one dispatch ahead, sending and returning in turn (MPMoE, Fig. 4(b) and section
/// 3.2.1), and weight gradients while the next chunk is on its way.
IssueOrder alternating_order();

/// All there are without a user's:
///   alternating: see above;
///   weights_last, S0 S1 C0 R0 S2 C1 R1 C2 R2 W0 W1 W2: no result waits for weight gradients, which fill the time of
///   the
///     last returns;
///   returns_last, S0 S1 S2 C0 W0 C1 W1 C2 W2 R0 R1 R2: all is sent before anything returns. So do the systems that
///   MPMoE
///     is compared with: Tutel issues all its sending, then all computing, then all returning, and so does FasterMoE
///     with parts that are nodes. Early chunks' results wait behind late chunks' rows, and all chunks are there at
///     once: it needs restore: keep unless there are two.
std::vector<IssueOrder> built_in_orders();

}  // namespace hexad::moe
