#include "parallel/comm/process_group.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "framework/base/counted.h"
#include "parallel/comm/through_host.h"
#include "parallel/comm/tree.h"

namespace hexad::comm {

using device::Category;
using namespace base;

using Kind = Operation::Kind;

bool ProcessGroup::crosses_nodes() const {
  return std::any_of(node_of_rank_.begin(), node_of_rank_.end(), [&](int node) { return node != node_of_rank_[0]; });
}

bool ProcessGroup::crosses_nodes(const Operation& op) const {
  const auto node = [&](int r) { return node_of_rank_[r]; };
  return op.is_point_to_point() ? node(op.peer) != node(rank()) : crosses_nodes();
}

Event ProcessGroup::issue(Operation op, Stream& stream) const {
  op.check(name_, rank(), size());
  if (takes_device_tensors() || !stream.on_device()) return start(std::move(op), stream);
  return through_host(
      std::move(op), rank(), [this](Operation on_host, Stream& s) { return start(std::move(on_host), s); }, stream);
}

Event ProcessGroup::all_reduce(const Tensor& x, Reduce op, Stream& stream, Where where) const {
  return issue({.kind = Kind::all_reduce, .out = x, .reduce = op, .where = where}, stream);
}
Event ProcessGroup::reduce_scatter(const Tensor& out, const Tensor& in, Stream& stream, Where where) const {
  return issue({.kind = Kind::reduce_scatter, .out = out, .in = in, .where = where}, stream);
}
Event ProcessGroup::all_gather(const Tensor& out, const Tensor& in, Stream& stream, Where where) const {
  return issue({.kind = Kind::all_gather, .out = out, .in = in, .where = where}, stream);
}
Event ProcessGroup::all_to_all(const Tensor& out, const Tensor& in, const Splits& splits, Stream& stream,
                               Where where) const {
  return issue({.kind = Kind::all_to_all, .out = out, .in = in, .splits = splits, .where = where}, stream);
}
Event ProcessGroup::broadcast(const Tensor& x, int root, Stream& stream, Where where) const {
  return issue({.kind = Kind::broadcast, .out = x, .peer = root, .where = where}, stream);
}
Event ProcessGroup::send(const Tensor& x, int to, Stream& stream, Where where) const {
  return issue({.kind = Kind::send, .in = x, .peer = to, .where = where}, stream);
}
Event ProcessGroup::receive(const Tensor& x, int from, Stream& stream, Where where) const {
  return issue({.kind = Kind::receive, .out = x, .peer = from, .where = where}, stream);
}
Event ProcessGroup::barrier(Stream& stream, Where where) const {
  return issue({.kind = Kind::barrier, .where = where}, stream);
}

std::unique_ptr<ProcessGroup> ProcessGroup::subgroup(const std::vector<int>& members, TrafficClass traffic,
                                                     std::string name) const {
  const auto key = std::find(members.begin(), members.end(), rank()) - members.begin();
  return split(*std::min_element(members.begin(), members.end()), static_cast<int>(key), traffic, std::move(name));
}

std::vector<int64_t> ProcessGroup::all_gather_values(std::span<const int64_t> mine, Device device, Where where) const {
  const int64_t count = static_cast<int64_t>(mine.size());
  const Device host = device.host();
  const Tensor in = Tensor::from<int64_t>(mine, {count}, host, Category::communication);
  const Tensor out = Tensor::empty({size() * count}, Dtype::i64, host, Category::communication);
  device::InlineStream stream;
  all_gather(out, in, stream, where).wait();
  return out.to_vector<int64_t>();
}

std::vector<int64_t> ProcessGroup::gather_values(std::span<const int64_t> mine, Device device, Where where) const {
  const auto count = static_cast<int64_t>(mine.size());
  if (count == 0) return {};
  const TreePlace place = tree_place(rank(), 0, size());
  const Device host = device.host();
  const Tensor values = Tensor::empty({(place.own.end - place.own.begin) * count}, Dtype::i64, host,
                                      Category::communication);  // values of the subtree's ranks
  std::ranges::copy(mine, values.data<int64_t>());
  device::InlineStream stream;
  for (const Subtree& child : place.children) {
    const int64_t begin = (child.begin - place.own.begin) * count, end = (child.end - place.own.begin) * count;
    receive(values.slice(0, begin, end), child.rank, stream, where).wait();
  }
  if (place.parent < 0) return values.to_vector<int64_t>();
  send(values, place.parent, stream, where).wait();
  return {};
}

double ProcessGroup::all_reduce_value(double value, Reduce op, Device device, Where where) const {
  const Tensor x = Tensor::from<double>(std::span(&value, 1), {1}, device.host(), Category::communication);
  device::InlineStream stream;
  all_reduce(x, op, stream, where).wait();
  return *x.data<double>();
}

bool ProcessGroup::same_on_all(std::span<const int64_t> mine, Device device, Where where) const {
  std::vector<int64_t> largest(mine.begin(), mine.end());
  // Complements reverse the order, so the maximum of the complements is the complement of the minimum.
  for (const int64_t value : mine) largest.push_back(~value);
  const Tensor x =
      Tensor::from<int64_t>(largest, {static_cast<int64_t>(largest.size())}, device.host(), Category::communication);
  device::InlineStream stream;
  all_reduce(x, Reduce::max, stream, where).wait();
  largest = x.to_vector<int64_t>();
  for (size_t i = 0; i < mine.size(); ++i)
    if (largest[i] != ~largest[mine.size() + i]) return false;
  return true;
}

void ProcessGroup::abort_job(ExitCode code) const {
  abort_other_ranks(code);
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(code));
}

ProcessGroup::Members ProcessGroup::agree(int color, int key, int64_t proposal) const {
  device::DeviceContext host;
  const int64_t mine[] = {color, key, proposal};
  const std::vector<int64_t> all = all_gather_values(mine, host);
  const auto field = [&](int r, int i) { return all[3 * r + i]; };
  Members members{};
  for (int r = 0; r < size(); ++r) {
    members.largest = std::max(members.largest, field(r, 2));
    if (field(r, 0) == color) members.ranks.push_back(r);
  }
  std::stable_sort(members.ranks.begin(), members.ranks.end(), [&](int a, int b) { return field(a, 1) < field(b, 1); });
  members.index =
      static_cast<int>(std::find(members.ranks.begin(), members.ranks.end(), rank()) - members.ranks.begin());
  return members;
}

ProcessGroup::Members ProcessGroup::agree_on(const std::vector<int>& members, int64_t proposal) const {
  const auto mine = std::find(members.begin(), members.end(), rank());
  require(mine != members.end(), "[", name_, "] rank ", rank(), " is not among the ",
          counted(std::ssize(members), "member"), " of its new group; expected a list with this rank");
  device::DeviceContext host;
  const double largest = all_reduce_value(static_cast<double>(proposal), Reduce::max, host);
  return {members, static_cast<int>(mine - members.begin()), static_cast<int64_t>(largest)};
}

}  // namespace hexad::comm
