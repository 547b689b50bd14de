#include "collectives_check.h"

#include <gtest/gtest.h>

#include <numeric>

namespace hexad::comm {

using device::Stream;
using namespace base;

namespace {

using device::DeviceContext;

// Returns a small integer. Such integers and their sums over a few ranks are exact in bf16.
int64_t value(int rank, int64_t i) { return (i * 7 + rank * 5) % 13 - 6; }

template <class T>
Tensor filled(Shape shape, DeviceContext& context, int rank, int64_t first = 0) {
  std::vector<T> values;
  for (int64_t i = 0, n = shape.numel(); i < n; ++i) values.push_back(static_cast<T>(value(rank, first + i)));
  return Tensor::from<T>(values, shape, context);
}

template <class T, class Expected>
void expect(const Tensor& t, Expected expected, const std::string& what) {
  const std::vector<T> data = t.to_vector<T>();
  for (int64_t i = 0, n = t.numel(); i < n; ++i) {
    const double got = static_cast<double>(data[i]), wanted = static_cast<double>(expected(i));
    if (got != wanted)
      FAIL() << what << ": element " << i << " of " << t.shape() << " is " << got << ", expected " << wanted;
  }
}

int64_t reduced(int ranks, int64_t i, Reduce op) {
  int64_t result = value(0, i);
  for (int r = 1; r < ranks; ++r) {
    const int64_t v = value(r, i);
    result = op == Reduce::sum ? result + v : op == Reduce::max ? std::max(result, v) : std::min(result, v);
  }
  return result;
}

template <class T>
void check_dtype(const ProcessGroup& g, int64_t n, const Place& place) {
  DeviceContext context(place);
  Stream& stream = context.compute();
  const std::string what = cat(name_of(dtype_of<T>), " x ", n, " on ", g.size(), " ranks");
  for (Reduce op : {Reduce::sum, Reduce::max, Reduce::min}) {
    const Tensor x = filled<T>({n}, context, g.rank());
    g.all_reduce(x, op, stream).wait();
    expect<T>(
        x, [&](int64_t i) { return reduced(g.size(), i, op); }, "all_reduce " + what);
  }
  const Tensor in = filled<T>({g.size() * n}, context, g.rank());
  for (const bool in_place : {false, true}) {
    const Tensor piece =
        in_place ? in.slice(0, g.rank() * n, (g.rank() + 1) * n) : Tensor::empty({n}, dtype_of<T>, context);
    g.reduce_scatter(piece, in, stream).wait();
    expect<T>(
        piece, [&](int64_t i) { return reduced(g.size(), g.rank() * n + i, Reduce::sum); },
        cat("reduce_scatter ", in_place ? "in place " : "", what));
  }

  const Tensor all = Tensor::empty({g.size(), n}, dtype_of<T>, context);
  g.all_gather(all, filled<T>({n}, context, g.rank()), stream).wait();
  expect<T>(
      all, [&](int64_t i) { return value(static_cast<int>(i / n), i % n); }, "all_gather " + what);

  for (int root = 0; root < g.size(); ++root) {
    const Tensor x = filled<T>({n}, context, g.rank());
    g.broadcast(x, root, stream).wait();
    expect<T>(
        x, [&](int64_t i) { return value(root, i); }, cat("broadcast from ", root, " ", what));
  }
}

// Function that returns the number of rows that rank `from` sends to rank `to` in an all-to-all.
using Pattern = int64_t (*)(int from, int to);

void check_pattern(const ProcessGroup& g, Pattern rows, int64_t width, const Place& place) {
  DeviceContext context(place);
  Stream& stream = context.compute();
  Splits splits;
  for (int r = 0; r < g.size(); ++r) {
    splits.send.push_back(rows(g.rank(), r));
    splits.receive.push_back(rows(r, g.rank()));
  }
  const auto sum = [](const std::vector<int64_t>& v) { return std::accumulate(v.begin(), v.end(), int64_t{0}); };
  const Tensor in = filled<float>({sum(splits.send), width}, context, g.rank());
  const Tensor out = Tensor::empty({sum(splits.receive), width}, Dtype::f32, context);
  g.all_to_all(out, in, splits, stream).wait();
  int64_t row = 0;
  for (int from = 0; from < g.size(); ++from) {
    int64_t first = 0;  // first row in the sender's tensor
    for (int to = 0; to < g.rank(); ++to) first += rows(from, to);
    const int64_t n = rows(from, g.rank());
    expect<float>(
        out.slice(0, row, row + n), [&](int64_t i) { return value(from, first * width + i); },
        cat("all_to_all from ", from));
    row += n;
  }
}

}  // namespace

void check_collectives(const ProcessGroup& g, const Place& place) {
  for (int64_t n : {0, 1, 7, 4099, 300000}) {
    check_dtype<float>(g, n, place);
    check_dtype<bf16>(g, n, place);
  }
  for (int64_t n : {3, 150001}) {
    check_dtype<double>(g, n, place);
    check_dtype<int64_t>(g, n, place);
  }
  DeviceContext context(place);
  Stream& stream = context.compute();
  g.barrier(stream).wait();
  const int64_t mine[] = {g.rank(), 10 + g.rank()};
  const auto all = g.all_gather_values(mine, context);
  for (int r = 0; r < g.size(); ++r) {
    EXPECT_EQ(all[2 * r], r);
    EXPECT_EQ(all[2 * r + 1], 10 + r);
  }
  EXPECT_EQ(g.all_reduce_value(0.5 + g.rank(), Reduce::max, context), g.size() - 0.5);
  EXPECT_TRUE(g.any(g.rank() == g.size() - 1, context));
  EXPECT_FALSE(g.any(false, context));
}

void check_uneven_splits(const ProcessGroup& g, const Place& place) {
  const Pattern patterns[] = {
      [](int, int) -> int64_t { return 3; },
      [](int from, int to) -> int64_t { return from + 2 * to; },
      [](int from, int to) -> int64_t { return from == 0 ? 5 * to : 0; },      // only rank 0 sends
      [](int, int to) -> int64_t { return to == 0 ? 4 : 0; },                  // all rows go to rank 0
      [](int from, int to) -> int64_t { return from && to ? from * to : 0; },  // rank 0 sends and receives nothing
      [](int, int) -> int64_t { return 0; },
  };
  for (int64_t width : {1, 65, 20000})
    for (Pattern rows : patterns) check_pattern(g, rows, width, place);
}

void check_ring(const ProcessGroup& g, const Place& place) {
  if (g.size() == 1) return;
  DeviceContext context(place);
  Stream& stream = context.compute();
  const int next = (g.rank() + 1) % g.size(), before = (g.rank() + g.size() - 1) % g.size();
  constexpr int64_t n = 500000;
  const Tensor forth = Tensor::empty({n}, Dtype::f32, context), back = Tensor::like(forth);
  // Sends are started before receives and awaited after them, so a send must not block a receive. `outgoing` keeps the
  // sent tensors until the receives are posted: work that reused their memory would wait for the peer.
  std::vector<Event> sent;
  std::vector<Tensor> outgoing;
  for (int to : {next, before}) {
    outgoing.push_back(filled<float>({n}, context, g.rank()));
    sent.push_back(g.send(outgoing.back(), to, stream));
  }
  const Event received = g.receive(forth, before, stream);
  g.receive(back, next, stream).wait();
  received.wait();
  for (const Event& e : sent) e.wait();
  expect<float>(
      forth, [&](int64_t i) { return value(before, i); }, "from the rank before");
  expect<float>(
      back, [&](int64_t i) { return value(next, i); }, "from the next rank");
}

void check_groups_in_flight_together(const ProcessGroup& world, const Place& place) {
  DeviceContext context(place);
  Stream& stream = context.compute();
  const auto dp = world.split(0, world.rank(), TrafficClass::dp, "dp");
  const auto ep = world.split(0, -world.rank(), TrafficClass::ep, "ep");  // the same ranks in another order
  const auto pairs = world.split(world.rank() / 2, world.rank(), TrafficClass::tp, "pairs");
  constexpr int64_t n = 300001;
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::vector<Event> events;
    std::vector<Tensor> sums;
    // All ranks call the operations of a group in the same order, but neighbouring ranks use the groups in different
    // orders.
    std::vector<const ProcessGroup*> order{dp.get(), ep.get(), pairs.get()};
    std::rotate(order.begin(), order.begin() + (world.rank() + repeat) % 3, order.end());
    for (int i = 0; i < 2; ++i)
      for (const ProcessGroup* g : order) {
        sums.push_back(filled<float>({n}, context, g->rank(), i));
        events.push_back(g->all_reduce(sums.back(), Reduce::sum, stream));
      }
    if (world.rank() % 2) std::reverse(events.begin(), events.end());
    for (const Event& e : events) e.wait();
    for (size_t k = 0; k < sums.size(); ++k)
      expect<float>(
          sums[k],
          [&](int64_t i) { return reduced(order[k % 3]->size(), i + static_cast<int64_t>(k / 3), Reduce::sum); },
          order[k % 3]->name());
  }
}

void check_split(const ProcessGroup& world) {
  DeviceContext context;
  const auto parity = world.split(world.rank() % 2, -world.rank(), TrafficClass::ep, "parity");
  const int64_t mine[] = {world.rank()};
  std::vector<int64_t> expected;
  for (int r = world.size() - 1; r >= 0; --r)
    if (r % 2 == world.rank() % 2) expected.push_back(r);
  EXPECT_EQ(parity->all_gather_values(mine, context), expected);
  EXPECT_EQ(parity->size(), static_cast<int>(expected.size()));
  EXPECT_EQ(expected[parity->rank()], world.rank());
  EXPECT_EQ(parity->traffic(), TrafficClass::ep);
  EXPECT_EQ(parity->name(), "parity");
  // An urgent group has the ranks of the group that made it.
  const auto urgent = parity->urgent("urgent");
  EXPECT_EQ(urgent->all_gather_values(mine, context), expected);
  EXPECT_EQ(urgent->traffic(), TrafficClass::ep);
  EXPECT_EQ(urgent->name(), "urgent");
  // Splits a group that split() returned.
  const auto alone = parity->split(world.rank(), 0, TrafficClass::tp, "alone");
  EXPECT_EQ(alone->size(), 1);
  EXPECT_EQ(alone->all_gather_values(mine, context), std::vector<int64_t>{world.rank()});
}

}  // namespace hexad::comm
