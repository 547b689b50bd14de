#include "parallel/tp/overlap.h"

#include <algorithm>

#include "framework/base/block_sizes.h"

namespace hexad::tp {

using device::Category;
using namespace base;

namespace {

// Maximum number of pieces of an all-reduce. Computation hides all pieces except the last one. With this number, pieces
// are large enough that bandwidth matters more than latency.
constexpr int64_t pieces = 4;

int64_t rows_of_a_piece(int64_t rows, int64_t row_bytes) {
  const auto ceil_div = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  return std::max(
      {ceil_div(rows, pieces), ceil_div(block_sizes().sum_bytes, std::max<int64_t>(row_bytes, 1)), int64_t{1}});
}

Tensor sum_of_all_rows(const Shape& shape, Dtype dtype, Device device, const ProcessGroup& group, Stream& stream,
                       const Addend& addend) {
  const int64_t rows = shape[0], piece = rows_of_a_piece(rows, shape[1] * size_of(dtype));
  Tensor out = Tensor::empty(shape, dtype, device);
  std::vector<Event> summed;
  for (int64_t begin = 0; begin < rows; begin += piece) {
    const int64_t end = std::min(rows, begin + piece);
    const Tensor part = out.slice(0, begin, end);
    addend(part, begin, end);
    summed.push_back(group.all_reduce(part, comm::Reduce::sum, stream));
  }
  for (const Event& event : summed) stream.wait(event);
  return out;
}

Tensor sum_of_own_rows(int64_t share, int64_t width, Dtype dtype, Device device, const ProcessGroup& group,
                       Stream& stream, const Addend& addend) {
  const int size = group.size(), me = group.rank();
  const auto buffer = [&] { return Tensor::empty({share, width}, dtype, device, Category::communication); };
  std::vector<Tensor> addends(size);
  std::vector<Event> arrived(size);
  for (int k = 1; k < size; ++k) {
    const int from = (me + size - k) % size;
    const size_t f = from;
    addends[f] = buffer();
    arrived[f] = group.receive(addends[f], from, stream);
  }
  // Starts with the part of the next rank and ends with this rank's own part. All parts except the last one arrive
  // during the computation.
  for (int k = 1; k <= size; ++k) {
    const int owner = (me + k) % size;
    const Tensor part = buffer();
    addend(part, owner * share, (owner + 1) * share);
    if (owner == me)
      addends[me] = part;
    else
      group.send(part, owner, stream);
  }
  for (const Event& event : arrived) stream.wait(event);
  Tensor out = Tensor::empty({share, width}, dtype, device);
  kernels::kernels(device).pointwise.sum_of(stream, out, addends);
  return out;
}

// Returns a transfer of `wire_bytes` bytes in the tp group.
schedule::Transfer transfer(schedule::TaskKind kind, int64_t wire_bytes, int64_t times, const ProcessGroup& group) {
  return {.kind = kind,
          .wire_bytes = wire_bytes,
          .times = times,
          .group = "tp",
          .group_size = group.size(),
          .crosses_nodes = group.crosses_nodes()};
}

}  // namespace

std::vector<schedule::Transfer> transfers_of_gather(int64_t rows, int64_t row_bytes, const ProcessGroup& group) {
  if (group.size() == 1) return {};
  return {transfer(schedule::TaskKind::send, rows_per_rank("tp", rows, group) * row_bytes, group.size() - 1, group)};
}

std::vector<schedule::Transfer> transfers_of_sum(int64_t rows, int64_t row_bytes, const TensorParallel& tp) {
  if (tp.group->size() == 1) return {};
  if (tp.sequence) return transfers_of_gather(rows, row_bytes, *tp.group);  // the same messages, with addends
  const int64_t piece = rows_of_a_piece(rows, row_bytes), whole = rows / piece, rest = rows % piece;
  const auto of_rows = [&](int64_t n, int64_t times) {
    const int64_t size = tp.group->size();
    return transfer(schedule::TaskKind::all_reduce, 2 * (size - 1) * n * row_bytes / size, times, *tp.group);
  };
  std::vector<schedule::Transfer> all;
  if (whole > 0) all.push_back(of_rows(piece, whole));
  if (rest > 0) all.push_back(of_rows(rest, 1));
  return all;
}

RowGather::RowGather(const Tensor& mine, const ProcessGroup& group, Stream& stream)
    : first_(group.rank()), arrived_(group.size()) {
  const int size = group.size();
  const int64_t share = mine.dim(0);
  rows_ = Tensor::empty({size * share, mine.dim(1)}, mine.dtype(), mine.device(), Category::communication);
  const auto part = [&](int rank) { return rows_.slice(0, rank * share, (rank + 1) * share); };
  for (int k = 1; k < size; ++k) {
    const int from = (first_ + k) % size;
    arrived_[from] = group.receive(part(from), from, stream);
  }
  // Sends to the next lower rank first, because every rank uses the rows of the next higher rank after its own rows.
  for (int k = 1; k < size; ++k) left_.push_back(group.send(mine, (first_ + size - k) % size, stream));
  kernels::kernels(mine.device()).pointwise.copy(stream, part(first_), mine);
}

void RowGather::for_each_part(Stream& stream,
                              const std::function<void(const Tensor& rows, int64_t begin, int64_t end)>& visit) const {
  const int size = static_cast<int>(arrived_.size());
  const int64_t share = rows_.dim(0) / size;
  for (int k = 0; k < size; ++k) {
    const int rank = (first_ + k) % size;
    stream.wait(arrived_[rank]);
    const int64_t begin = rank * share, end = begin + share;
    visit(rows_.slice(0, begin, end), begin, end);
  }
}

const Tensor& RowGather::all(Stream& stream) const {
  for (const Event& event : arrived_) stream.wait(event);
  // Waits for the sends, because the caller may be the last owner of `mine` and may overwrite it. On the host, the
  // sends also own `mine`.
  if (stream.on_device())
    for (const Event& event : left_) stream.wait(event);
  return rows_;
}

Tensor sum_of_products(std::string_view op, const Shape& shape, Dtype dtype, Device device, const TensorParallel& tp,
                       Stream& stream, const Addend& addend) {
  if (!tp.sequence) return sum_of_all_rows(shape, dtype, device, *tp.group, stream, addend);
  return sum_of_own_rows(rows_per_rank(op, shape[0], *tp.group), shape[1], dtype, device, *tp.group, stream, addend);
}

}  // namespace hexad::tp
