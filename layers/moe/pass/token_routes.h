// Which tokens this rank sends, by which plan, and how results come together again.
#pragma once

#include <memory>
#include <optional>

#include "layers/moe/pass/expert_route.h"
#include "layers/moe/pass/pass.h"

namespace hexad::moe {

struct TokenRoutes {
  ep::RoutingPlan plan;        // of tokens [begin, end), or of those of all etp ranks
  int64_t begin = 0, end = 0;  // of the op's tokens: those that this rank sends
  int copies = 1;              // how often a token is computed

  /// The ranks that first bring their tokens together (DeepSpeed's ESP-AllGather); null: nobody does. This rank's
  /// tokens are then [gathered_begin, gathered_begin + end - begin) of the plan's.
  const comm::ProcessGroup* gatherers = nullptr;
  int64_t gathered_begin() const { return gatherers ? gatherers->rank() * (end - begin) : 0; }
  /// Rows of this rank's own tokens' slots, [end - begin, K].
  Tensor own_rows() const { return plan.indices.rows.slice(0, gathered_begin(), gathered_begin() + end - begin); }

  /// Where the tensor ranks gather what returned to each of them: rows [T, K] of all tokens' slots among those
  /// gathered.
  std::optional<RowCollection> collection;
  Tensor collected_rows;
};

/// Collective over the groups of `route`.
TokenRoutes make_token_routes(const Tensor& ids, bool alike, const ExpertRoute& route, Stream& stream);

}  // namespace hexad::moe
