#include "parallel/ep/received_counts.h"

#include <numeric>

#include "parallel/ep/received.h"

namespace hexad::ep {
namespace {

// True if the sender and receiver of a row determine its chunk. Only the sums of the counts over all chunks are then
// sent.
bool chunk_is_of_pair(const Chunking& chunking) { return chunking.by == Chunking::By::peers; }

// Returns the counts to send: [chunks, n] or, if chunk_is_of_pair(), the sums [n] over all chunks.
std::vector<int64_t> chunks_to_send(const std::vector<int64_t>& counts, const Chunking& chunking) {
  if (!chunk_is_of_pair(chunking)) return counts;
  const size_t n = counts.size() / chunking.chunks;
  std::vector<int64_t> sums(n, 0);
  for (size_t i = 0; i < counts.size(); ++i) sums[i % n] += counts[i];
  return sums;
}

// Exchanges the counts of all ranks of `all`. Returns one CountsMessage per rank.
std::vector<int64_t> exchanged(const SlotOrder& order, const RoutingOptions& options, const comm::ProcessGroup& all,
                               device::Device device) {
  std::vector<int64_t> mine = options.hot.by_expert(chunks_to_send(order.counts, options.chunking));
  if (options.row_of == RowOf::token) {
    const std::vector<int64_t> rows = chunks_to_send(order.rows_to, options.chunking);
    mine.insert(mine.end(), rows.begin(), rows.end());
  }
  if (order.joined) mine.insert(mine.end(), order.returns_from.begin(), order.returns_from.end());
  mine.push_back(sum_of(order.counts));
  return all.all_gather_values(mine, device);
}

}  // namespace

const comm::ProcessGroup* counting_group(const ExpertGroups& g, const RoutingOptions& options) {
  const bool esp_direct = options.esp_exchange == EspExchange::direct;
  const comm::ProcessGroup& group = esp_direct ? *g.experts : *g.ep;
  const bool two_steps =
      options.all_to_all == AllToAll::hierarchical && (esp_direct ? g.experts_nodes : g.ep_nodes) != nullptr;
  const bool has_all_sources = group.size() == g.sources(options.esp_exchange).size();
  const bool counts =
      group.size() > 1 && group.runs_on_devices() && has_all_sources && !two_steps && !options.hot.any();
  return counts ? &group : nullptr;
}

ReceivedCounts received_counts(const SlotOrder& order, const ExpertGroups& g, const RoutingOptions& options,
                               device::Device device) {
  const bool rows_are_tokens = options.row_of == RowOf::token, gathered = !order.everyones_counts.empty(),
             of_pair = !gathered && chunk_is_of_pair(options.chunking);
  const int64_t ep = g.ep->size(), local = order.experts / ep;
  const CountsMessage message{of_pair ? 1 : options.chunking.chunks, order.experts - ep * options.hot.count(), ep,
                              rows_are_tokens ? order.row_experts.dim(1) : 0, order.joined};
  const comm::ProcessGroup& all = g.sources(options.esp_exchange);
  const std::vector<int64_t> matrix = gathered ? order.everyones_counts : exchanged(order, options, all, device);
  const size_t size = matrix.size() / all.size();
  for (int q = 0; q < all.size(); ++q) message.check(std::span(matrix).subspan(q * size, size), q, all);
  ReceivedCounts counts{all.size() / ep, ep, options.chunking.chunks, local, g.ep->rank(), {}, {}, {}, {}};
  for (int64_t j = 0; j < counts.etp; ++j)
    for (int64_t p = 0; p < ep; ++p) {
      const auto of_source = std::span(matrix).subspan((p * counts.etp + j) * size, size);
      const auto rows = of_source.subspan(message.chunks * message.experts);
      const auto returning = order.joined ? rows.subspan(message.chunks * ep) : rows;
      for (int64_t c = 0; c < counts.chunks; ++c) {
        const int64_t of_message = of_pair ? 0 : c;
        const std::vector<int64_t> slots =
            options.hot.by_number(of_source.subspan(of_message * message.experts, message.experts), p);
        for (int64_t to = 0; to < ep; ++to) {
          const bool sent = !of_pair || options.chunking.chunk(0, 1, to * local, local, static_cast<int>(p),
                                                               static_cast<int>(ep)) == c;
          const auto of_rank = slots.begin() + to * local;
          if (to == counts.here && sent) counts.slots.insert(counts.slots.end(), of_rank, of_rank + local);
          if (to == counts.here && !sent) counts.slots.insert(counts.slots.end(), local, 0);
          if (options.all_to_all == AllToAll::window)
            for (int64_t e = 0; e < local; ++e) counts.everywhere.push_back(sent ? of_rank[e] : 0);
          const int64_t n =
              rows_are_tokens ? rows[of_message * ep + to] : std::accumulate(of_rank, of_rank + local, int64_t{0});
          counts.rows.push_back(sent ? n : 0);
          if (order.joined) counts.returning_rows.push_back(returning[c * ep + to]);
        }
      }
    }
  return counts;
}

}  // namespace hexad::ep
