// Which tokens this rank sends, by which plan, and how results come together again.
#pragma once

#include <optional>
#include <vector>

#include "layers/moe/experts.h"
#include "layers/moe/pass/expert_route.h"
#include "layers/moe/pass/pass.h"

namespace hexad::moe {

struct TokenRoutes {
  ep::RoutingPlan plan;        // of tokens [begin, end), or of those of all etp ranks
  int64_t begin = 0, end = 0;  // of the op's tokens: those that this rank sends
  int copies = 1;              // how often a token is computed

  /// The ranks that first gather their tokens (DeepSpeed's ESP-AllGather); null: nobody does. This rank's tokens are
  /// then [gathered_begin, gathered_begin + end - begin) of the plan's.
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

/// As make_token_routes(), with as many chunks of tokens as schedule.memory_limit asks for under this very routing:
/// schedule.chunks at least, at most one for every token. Collective; all ranks that share the experts get the same
/// number of chunks, ranks with replicas of these experts perhaps another.
TokenRoutes make_limited_routes(const Tensor& ids, bool alike, const ExpertRoute& route, const ExpertShape& shape,
                                Dtype dtype, Stream& stream);

/// One chunk's tokens among the op's, and the rows [tokens, K] of their slots among the chunk's.
struct ChunkTokens {
  int64_t begin, end;
  Tensor rows;
};
/// Of chunks of tokens, in order.
std::vector<ChunkTokens> chunk_tokens(const TokenRoutes& routes, Stream& stream);

}  // namespace hexad::moe
