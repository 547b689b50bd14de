#include "parallel/ep/window_exchange.h"

#include <algorithm>

#include "framework/kernels/kernel_table.h"
#include "framework/tensor/host_read.h"

namespace hexad::ep {

using device::Category;
using namespace base;
namespace {

// Returns the part of this rank's window that holds `rows`.
Tensor part_for(const Tensor& rows, const comm::Windows& windows) { return windows.own().slice(0, 0, rows.bytes()); }

// Counts the bytes that this rank sends to other ranks. `rows` has the number of rows for each rank.
void count_traffic(const std::vector<int64_t>& rows, int64_t row_bytes, const comm::ProcessGroup& group) {
  group.meter()->add_device_operation(group.traffic(), 0, (sum_of(rows) - rows[group.rank()]) * row_bytes);
}

int64_t row_bytes_of(const Tensor& rows) { return rows.dim(1) * size_of(rows.dtype()); }

}  // namespace

int64_t max_rows_received(const ReceivedCounts& n) {
  const int64_t parts = n.chunks * n.ep;  // a part contains the rows of one chunk for one rank
  std::vector<int64_t> rows(parts, 0);
  for (int64_t p = 0; p < n.ep; ++p)
    for (int64_t part = 0; part < parts; ++part)
      rows[part] += sum_of(std::span(n.everywhere).subspan((p * parts + part) * n.local, n.local));
  return *std::max_element(rows.begin(), rows.end());
}

Tensor window_runs(const ReceivedCounts& n, int64_t chunk, device::Device device) {
  const int64_t experts = n.ep * n.local;
  std::vector<int64_t> ends, ranks, shifts;
  int64_t sent = 0;
  for (int64_t to = 0; to < n.ep; ++to) {
    int64_t place = 0;
    // Grouped rows are sorted by expert, then by the rank of their source.
    for (int64_t e = to * n.local; e < (to + 1) * n.local; ++e)
      for (int64_t p = 0; p < n.ep; ++p) {
        const int64_t rows = n.everywhere[(p * n.chunks + chunk) * experts + e];
        if (p == n.here && rows > 0) {
          ends.push_back(sent + rows), ranks.push_back(to), shifts.push_back(place - sent);
          sent += rows;
        }
        place += rows;
      }
  }
  const auto count = static_cast<int64_t>(ends.size());
  ends.insert(ends.end(), ranks.begin(), ranks.end());
  ends.insert(ends.end(), shifts.begin(), shifts.end());
  return Tensor::from<int64_t>(ends, {3, count}, device, Category::communication);
}

void check_windows(comm::Windows& windows, device::Device device, Stream& stream) {
  const comm::ProcessGroup& group = windows.group();
  const int64_t ranks = group.size(), me = group.rank();
  const int64_t width = std::min<int64_t>(1024, windows.bytes() / (ranks * size_of(Dtype::i64)));
  std::vector<int64_t> ends, to, shifts, sent, expected;  // row p goes to row `me` of the window of rank p
  for (int64_t p = 0; p < ranks; ++p) {
    ends.push_back(p + 1), to.push_back(p), shifts.push_back(me - p);
    for (int64_t i = 0; i < width; ++i) {
      sent.push_back((me * ranks + p) * width + i);
      expected.push_back((p * ranks + me) * width + i);
    }
  }
  ends.insert(ends.end(), to.begin(), to.end());
  ends.insert(ends.end(), shifts.begin(), shifts.end());
  const Tensor runs = Tensor::from<int64_t>(ends, {3, ranks}, device, Category::communication),
               rows = Tensor::from<int64_t>(sent, {ranks, width}, device, Category::communication),
               arrived = Tensor::like(rows, Category::communication),
               returned = Tensor::like(rows, Category::communication);
  const auto& k = kernels::kernels(device).permute;
  windows.open(stream);
  k.put(stream, windows.own(), windows.distances(), runs, rows, {});
  windows.wait_for_ranks(stream);
  arrived.copy_from(part_for(arrived, windows), stream);
  k.pull(stream, returned, windows.own(), windows.distances(), runs);
  windows.close(stream);
  const auto differs = [&](const Tensor& t, const std::vector<int64_t>& values) {
    const tensor::HostRead read = tensor::read_to_host("windows: check", t, stream);
    return !std::ranges::equal(read.wait<int64_t>(), values);
  };
  const bool wrong = differs(arrived, expected), lost = differs(returned, sent);
  if (group.any(wrong || lost, device))
    fail(ExitCode::communication, "schedule.moe.all_to_all is window, but rows that the ranks of group ", group.name(),
         " copied to each other's windows did not arrive or did not return; legal here: direct");
}

Tensor send_by_window(const ChunkCounts& counts, const Tensor& runs, const Tensor& values, const Tensor& index,
                      comm::Windows& windows, Stream& stream) {
  const Tensor rows =
      Tensor::empty({counts.rows_received(), values.dim(1)}, values.dtype(), values.device(), Category::communication);
  windows.open(stream);
  kernels::kernels(values.device()).permute.put(stream, windows.own(), windows.distances(), runs, values, index);
  windows.wait_for_ranks(stream);
  rows.copy_from(part_for(rows, windows), stream);
  windows.close(stream);
  count_traffic(counts.splits.send, row_bytes_of(rows), windows.group());
  return rows;
}

void return_by_window(const Tensor& out, const ChunkCounts& counts, const Tensor& runs, const Tensor& results,
                      comm::Windows& windows, Stream& stream) {
  windows.open(stream);
  part_for(results, windows).copy_from(results, stream);
  windows.wait_for_ranks(stream);
  kernels::kernels(out.device()).permute.pull(stream, out, windows.own(), windows.distances(), runs);
  // Keeps the results, because the copy above does not own them and, on a CPU lane with a thread, runs later.
  windows.close(stream).keep(results.storage());
  count_traffic(counts.splits.receive, row_bytes_of(results), windows.group());
}

}  // namespace hexad::ep
