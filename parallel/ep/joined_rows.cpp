#include "parallel/ep/joined_rows.h"

#include <algorithm>

#include "parallel/ep/index_tensor.h"
#include "parallel/ep/received.h"

namespace hexad::ep {

using device::Category;
using device::Device;
using namespace base;
namespace {

// Joined row that a source sends to this rank.
struct Row {
  std::span<const int32_t> experts;
  int64_t sent_in, returns_in;  // first and last chunk of its experts
};

// Rows of all sources, in the order of their tokens. Source p * etp + j is ep rank p and etp rank j.
class ArrivingRows {
 public:
  ArrivingRows(const SlotOrder& order, const ReceivedCounts& n, const ExpertGroups& g, const RoutingOptions& options,
               Device host)
      : width_(order.row_experts.dim(1)) {
    const comm::ProcessGroup& all = g.sources(options.esp_exchange);
    std::vector<int64_t> to(n.ep, 0);
    for (size_t i = 0; i < order.rows_to.size(); ++i) to[i % to.size()] += order.rows_to[i];
    const std::vector<int64_t> first = offsets_of(to);
    comm::Splits splits;
    std::vector<int32_t> out;
    for (int64_t p = 0; p < n.ep; ++p)
      for (int64_t j = 0; j < n.etp; ++j) {
        for (int64_t i = first[p]; i < first[p + 1]; ++i) {
          const int32_t* experts = order.row_experts.data<int32_t>() + order.by_rank[i] * width_;
          out.insert(out.end(), experts, experts + width_);
        }
        splits.send.push_back(to[p]);
        int64_t rows = 0;
        for (int64_t c = 0; c < n.chunks; ++c) rows += n.rows_at(j, p, c);
        splits.receive.push_back(rows);
      }
    const Tensor send = Tensor::from<int32_t>(out, {sum_of(splits.send), width_}, host, Category::communication);
    received_ = Tensor::empty({sum_of(splits.receive), width_}, Dtype::i32, host, Category::communication);
    device::InlineStream stream;
    all.all_to_all(received_, send, splits, stream).wait();
    begin_ = offsets_of(splits.receive);
    const ReceivedCounts back = n.by_return();
    for (int64_t p = 0; p < n.ep; ++p)
      for (int64_t j = 0; j < n.etp; ++j) add(n, back, j, p, options.chunking, all);
  }

  int64_t width() const { return width_; }
  std::span<const Row> of(int64_t source) const { return std::span(rows_).subspan(begin_[source], count(source)); }

 private:
  int64_t count(int64_t source) const { return begin_[source + 1] - begin_[source]; }

  // Adds the rows of a source. Checks the experts of these rows, and the number of these rows in each chunk.
  void add(const ReceivedCounts& n, const ReceivedCounts& back, int64_t j, int64_t p, const Chunking& chunking,
           const comm::ProcessGroup& all) {
    const int64_t source = p * n.etp + j;
    const std::span<const int32_t> experts(received_.data<int32_t>() + begin_[source] * width_, count(source) * width_);
    std::vector<int64_t> slots(n.local, 0), sent(n.chunks, 0), returned(n.chunks, 0), rows, returning;
    for (int64_t c = 0; c < n.chunks; ++c) {
      for (int64_t e = 0; e < n.local; ++e) slots[e] += n.at(j, p, c, e);
      rows.push_back(n.rows_at(j, p, c)), returning.push_back(back.rows_at(j, p, c));
    }
    const auto rank = static_cast<int>(source);
    check_row_experts(experts, width_, slots, rank, all);
    for (int64_t i = 0; i < count(source); ++i) {
      Row row{experts.subspan(i * width_, width_), n.chunks, -1};
      for (const int32_t e : row.experts) {
        if (e < 0) break;
        const int64_t c = chunking.chunk(0, 1, e, n.local, 0, 1);
        row.sent_in = std::min(row.sent_in, c), row.returns_in = std::max(row.returns_in, c);
      }
      ++sent[row.sent_in], ++returned[row.returns_in];
      rows_.push_back(row);
    }
    check_joined_rows(sent, rows, false, rank, all);
    check_joined_rows(returned, returning, true, rank, all);
  }

  int64_t width_;
  Tensor received_;
  std::vector<int64_t> begin_;  // first row of each source
  std::vector<Row> rows_;
};

// Assigns numbers to the rows of each source and chunk, in the order in which the rows arrive or return.
class Numbering {
 public:
  Numbering(const ReceivedCounts& n, EspExchange esp_exchange, bool over_all_chunks) : etp_(n.etp), ep_(n.ep) {
    next_.assign(n.chunks * n.ep * n.etp, 0);
    int64_t row = 0;
    for (int64_t c = 0; c < n.chunks; ++c) {
      if (!over_all_chunks) row = 0;
      for_each_source(n, esp_exchange, [&](int64_t j, int64_t p) {
        next_[index(c, p * etp_ + j)] = row;
        row += n.rows_at(j, p, c);
      });
      ends_.push_back(row);
    }
  }
  /// Returns the number of the next row of a source in chunk c.
  int64_t next(int64_t c, int64_t source) { return next_[index(c, source)]++; }
  /// Returns the number that follows the number of the last row in chunk c.
  int64_t end(int64_t c) const { return ends_[c]; }

 private:
  size_t index(int64_t c, int64_t source) const { return c * ep_ * etp_ + source; }

  int64_t etp_, ep_;
  std::vector<int64_t> next_, ends_;
};

}  // namespace

std::vector<ChunkIndices> join_rows(const SlotOrder& order, const ReceivedCounts& n, const ExpertGroups& groups,
                                    const RoutingOptions& options, Device device) {
  const ArrivingRows rows(order, n, groups, options, device.host());
  const int64_t width = rows.width();
  const ReceivedCounts back = n.by_return();
  Numbering arrived(n, options.esp_exchange, true), returns(back, options.esp_exchange, false);
  std::vector<GroupedOrder> grouped;
  std::vector<int64_t> computed{0};  // for each chunk: number of rows that are computed in earlier chunks
  struct Lists {
    std::vector<int64_t> source, entry, reduced, returned;
  };
  std::vector<Lists> lists(n.chunks);
  for (int64_t c = 0; c < n.chunks; ++c) {
    grouped.emplace_back(n, c, c + 1);
    const int64_t in_chunk = n.in_chunk(c);
    computed.push_back(computed.back() + in_chunk);
    lists[c].source.assign(in_chunk, 0), lists[c].entry.assign(in_chunk, 0);
    lists[c].reduced.assign(returns.end(c) * width, -1), lists[c].returned.assign(returns.end(c), 0);
  }
  for (int64_t p = 0; p < n.ep; ++p)
    for (int64_t j = 0; j < n.etp; ++j) {
      const int64_t source = p * n.etp + j;
      std::vector<int64_t> next;  // next grouped row of each local expert in its chunk
      for (int64_t e = 0; e < n.local; ++e)
        next.push_back(grouped[options.chunking.chunk(0, 1, e, n.local, 0, 1)].first(
            j, p, options.chunking.chunk(0, 1, e, n.local, 0, 1), e));
      for (const Row& row : rows.of(source)) {
        const int64_t arrival = arrived.next(row.sent_in, source), result = returns.next(row.returns_in, source);
        Lists& last = lists[row.returns_in];
        last.returned[result] = arrival;
        for (int64_t m = 0; m < width && row.experts[m] >= 0; ++m) {
          const int32_t e = row.experts[m];
          const int c = options.chunking.chunk(0, 1, e, n.local, 0, 1);
          const int64_t place = next[e]++;
          lists[c].source[place] = arrival;
          lists[c].entry[place] = arrival * width + m;
          last.reduced[result * width + m] = computed[c] + place;
        }
      }
    }
  std::vector<ChunkIndices> chunks;
  for (const Lists& l : lists) {
    ChunkIndices& chunk = chunks.emplace_back();
    chunk.source = index_tensor(l.source, device);
    chunk.entry = index_tensor(l.entry, device);
    chunk.reduced = index_tensor(l.reduced, device).reshape({static_cast<int64_t>(l.returned.size()), width});
    chunk.returned = index_tensor(l.returned, device);
  }
  return chunks;
}

}  // namespace hexad::ep
