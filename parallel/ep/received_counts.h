// Counts of slots and rows that ranks exchange before a routing plan is made, and the order of grouped rows that
// follows from them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/ep/offsets.h"
#include "parallel/ep/routing_counts.h"

namespace hexad::ep {

/// Numbers of slots and rows, by sender (etp rank j and ep rank p) and chunk c. The local experts of a rank are its own
/// experts, followed by its shadows.
struct ReceivedCounts {
  int64_t etp, ep, chunks, local;
  int64_t here;                         // ep rank of this rank
  std::vector<int64_t> slots;           // number of slots for each local expert of this rank
  std::vector<int64_t> rows;            // number of rows for each ep rank
  std::vector<int64_t> returning_rows;  // like `rows`, by the chunk in which rows return; empty if rows are not joined
  std::vector<int64_t> everywhere;      // number of slots for each expert of all ranks; empty without AllToAll::window

  /// Returns the number of slots that sender (j, p) has for local expert e in chunk c.
  int64_t at(int64_t j, int64_t p, int64_t c, int64_t e) const { return slots[index(j, p, c) * local + e]; }
  /// Returns the numbers of slots of sender (j, p) in chunk c, by local expert.
  std::span<const int64_t> of(int64_t j, int64_t p, int64_t c) const {
    return std::span(slots).subspan(index(j, p, c) * local, local);
  }
  int64_t rows_to(int64_t to, int64_t j, int64_t p, int64_t c) const { return rows[index(j, p, c) * ep + to]; }
  int64_t rows_at(int64_t j, int64_t p, int64_t c) const { return rows_to(here, j, p, c); }
  /// Returns these counts, but with rows counted by the chunk in which they return.
  ReceivedCounts by_return() const {
    ReceivedCounts counts = *this;
    if (!returning_rows.empty()) counts.rows = returning_rows;
    return counts;
  }
  /// Returns the number of slots in chunk c for all local experts, from all ranks.
  int64_t in_chunk(int64_t c) const {
    int64_t all = 0;
    for (int64_t j = 0; j < etp; ++j)
      for (int64_t p = 0; p < ep; ++p) all += sum_of(of(j, p, c));
    return all;
  }

 private:
  int64_t index(int64_t j, int64_t p, int64_t c) const { return (j * ep + p) * chunks + c; }
};

/// Returns the group whose devices gather the counts of a routing plan with these options (Ordering::counting). The
/// group has the ranks of ExpertGroups::sources(). Its ranks also exchange rows in this group. Therefore, counts need
/// no other connections and follow earlier exchanges. Returns null, so that the host exchanges the counts, in these
/// cases:
/// - The group has one rank, or its operations do not run on devices (ProcessGroup::runs_on_devices()).
/// - There are hot experts.
/// - Rows are exchanged in two steps, or etp ranks gather rows.
const comm::ProcessGroup* counting_group(const ExpertGroups& groups, const RoutingOptions& options);

/// Returns the numbers of slots that this rank receives, and of rows that every rank sends. First exchanges the full
/// matrix of counts, by expert, if the order has no SlotOrder::everyones_counts. This exchange is collective over
/// ExpertGroups::sources(), and its tensors are on `device`, which must be a host device. Throws Error(communication)
/// if another rank sent wrong counts.
ReceivedCounts received_counts(const SlotOrder& order, const ExpertGroups& groups, const RoutingOptions& options,
                               device::Device device);

/// Calls f(etp rank, ep rank) for each sender, in the order of the received rows. The order is by ep rank with
/// EspExchange::direct, otherwise by etp rank.
template <class F>
void for_each_source(const ReceivedCounts& n, EspExchange esp_exchange, const F& f) {
  const bool esp_direct = esp_exchange == EspExchange::direct;
  const int64_t outer = esp_direct ? n.ep : n.etp, inner = esp_direct ? n.etp : n.ep;
  for (int64_t a = 0; a < outer; ++a)
    for (int64_t b = 0; b < inner; ++b)
      if (esp_direct)
        f(b, a);
      else
        f(a, b);
}

/// Indices of the first grouped rows, by expert, etp rank, ep rank and chunk.
class GroupedOrder {
 public:
  GroupedOrder(const ReceivedCounts& n, int64_t first_chunk, int64_t last_chunk)
      : n_(n), first_chunk_(first_chunk), chunks_(last_chunk - first_chunk), first_(n.etp * n.ep * chunks_ * n.local) {
    int64_t row = 0;
    offsets.push_back(0);
    for (int64_t e = 0; e < n.local; ++e) {
      for (int64_t j = 0; j < n.etp; ++j)
        for (int64_t p = 0; p < n.ep; ++p)
          for (int64_t c = first_chunk; c < last_chunk; ++c) {
            first_[index(j, p, c, e)] = row;
            row += n.at(j, p, c, e);
          }
      offsets.push_back(row);
    }
  }
  int64_t first(int64_t j, int64_t p, int64_t c, int64_t e) const { return first_[index(j, p, c, e)]; }
  std::vector<int64_t> offsets;

 private:
  size_t index(int64_t j, int64_t p, int64_t c, int64_t e) const {
    return ((j * n_.ep + p) * chunks_ + c - first_chunk_) * n_.local + e;
  }
  const ReceivedCounts& n_;
  int64_t first_chunk_, chunks_;  // chunks whose rows are grouped together: the first chunk, and the number of chunks
  std::vector<int64_t> first_;
};

}  // namespace hexad::ep
