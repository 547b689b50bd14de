#include "layers/moe/pass/pass.h"

#include <memory>
#include <utility>

#include "framework/kernels/compute_share.h"
#include "layers/moe/pass/row_format.h"
#include "parallel/ep/exchange.h"
#include "parallel/ep/offsets.h"

namespace hexad::moe {
namespace {

using device::Event;
using schedule::Cost;
using schedule::Kind;
using schedule::Lane;
using schedule::TaskId;

constexpr TaskId none = -1;

class GraphOfPass {
 public:
  explicit GraphOfPass(MoePass& trip)
      : t_(&trip),
        plan_(trip.plan),
        ranks_(trip.plan.counts.all_to_all_group(trip.groups)),
        nodes_(trip.plan.counts.node_groups(trip.groups)),
        etp_(*trip.groups.etp),
        there_{trip.wire, trip.width, trip.dtype, trip.extras_there * plan_.counts.slots_per_row},
        back_{trip.wire, trip.width, trip.dtype, trip.extras_back * plan_.counts.slots_per_row},
        again_{trip.wire, trip.width, trip.dtype, 0},
        last_(plan_.counts.chunks.size(), none),
        computed_(plan_.counts.chunks.size(), none),
        returned_(plan_.counts.chunks.size(), none),
        arrived_(plan_.counts.chunks.size()),
        boxes_(plan_.counts.chunks.size()),
        unpacks_(plan_.counts.chunks.size()) {
    trip.chunks.assign(plan_.counts.chunks.size(), {});
    if (!trip.accept && !returns_at_once()) {
      const Rows returned = back_.room(plan_.counts.slots(), trip.device, Category::temporary);
      trip.returned = returned.values, trip.returned_extras = returned.extras;
    }
    if (trip.collection) {
      int64_t all = 0;
      for (const auto& counts : trip.collection->counts) all += ep::sum_of(counts);
      trip.collected = Tensor::empty({all, trip.width}, trip.dtype, trip.device, Category::communication);
    }
    if (plan_.counts.merged) trip.together = grouped_room(trip, there_, plan_.counts.rows_computed());
  }

  schedule::TaskGraph make() {
    const size_t n = plan_.counts.chunks.size();
    if (t_->bring.group) bring();
    if (plan_.counts.merged) {
      for (size_t c = 0; c < n; ++c) dispatch(c);
      compute_together();
      for (size_t c = 0; c < n; ++c) combine(c);
      if (t_->weights) weights(0, "W");
      return std::move(graph_);
    }
    for (const IssueStep& step : checked_steps(t_->order, n, t_->bounded)) take(step.stage, step.chunk);
    return std::move(graph_);
  }

 private:
  void take(Stage stage, size_t c) {
    switch (stage) {
      case Stage::dispatch:
        return dispatch(c);
      case Stage::compute:
        return compute(c);
      case Stage::combine:
        return combine(c);
      case Stage::weights:
        if (t_->weights) weights(c, cat("W", c));
    }
  }

  // Rows are sent in the order of the slot rows.
  bool in_order() const { return plan_.counts.spread != ep::Spread::direct && !nodes_; }
  // What returns is the result: one chunk, in order, as it is sent.
  bool returns_at_once() const { return plan_.counts.chunks.size() == 1 && in_order() && back_.plain(); }
  bool shares_width(ep::Spread spread) const { return plan_.counts.spread == spread && etp_.size() > 1; }

  // Where rows are copied to their places: O2 gathers and copies in one stage, O3 in two.
  Lane copy_lane() const {
    constexpr Lane lanes[] = {Lane::compute, Lane::intra, Lane::copy};
    return lanes[static_cast<size_t>(t_->overlap)];
  }
  Cost wire(const comm::ProcessGroup& group, std::string name, int64_t sent, int64_t received) const {
    return {.wire_bytes = sent,
            .received_bytes = received,
            .group = std::move(name),
            .group_size = group.size(),
            .crosses_nodes = group.crosses_nodes()};
  }
  // Of a group that is the all-to-all's or, with a `level`, one of its two.
  Cost exchange(const comm::ProcessGroup& group, std::string_view level, const comm::Splits& splits,
                const RowFormat& format) const {
    // Rows that a rank keeps for itself do not travel.
    const auto to_others = [&](const std::vector<int64_t>& rows) {
      return (ep::sum_of(rows) - rows[static_cast<size_t>(group.rank())]) * format.row_bytes();
    };
    return wire(group, cat(plan_.counts.spread == ep::Spread::direct ? "experts" : "ep", level), to_others(splits.send),
                to_others(splits.receive));
  }
  static comm::Splits back(const comm::Splits& there) { return {there.receive, there.send}; }
  static Cost copied(int64_t bytes) {
    Cost cost;
    cost.copy_bytes = bytes;
    return cost;
  }
  /// Grouped rows in the products of each expert that has some.
  Cost computed(const std::vector<int64_t>& offsets, const schedule::ByPass<int64_t>& products) const {
    int64_t busy = 0;
    for (size_t e = 0; e + 1 < offsets.size(); ++e) busy += offsets[e] < offsets[e + 1] ? 1 : 0;
    Cost cost;
    for (size_t pass = 0; pass < products.size(); ++pass) {
      cost.flops += static_cast<double>(offsets.back() * products[pass]) * t_->flops_per_row;
      cost.products[pass] = busy * products[pass];
    }
    return cost;
  }

  TaskId add_after(std::vector<TaskId> after, Lane lane, Kind kind, std::string name, Cost cost,
                   schedule::TaskWork work) {
    std::erase(after, none);
    return graph_.add({lane, std::move(name), std::move(cost), kind, t_->bounded}, std::move(after), std::move(work));
  }
  /// After the chunk's last task.
  void add(size_t c, Lane lane, Kind kind, std::string name, Cost cost, schedule::TaskWork work) {
    last_[c] = add_after({last_[c]}, lane, kind, std::move(name), std::move(cost), std::move(work));
  }
  // Work of the experts: beside other chunks' communication with a share of the threads.
  schedule::TaskWork on_share(std::function<void(Stream&)> work) const {
    return plan_.counts.chunks.size() == 1 ? on_lane(std::move(work)) : beside_communication(std::move(work));
  }
  schedule::TaskWork beside_communication(std::function<void(Stream&)> work) const {
    if (t_->compute_share == 1) return on_lane(std::move(work));
    return on_lane([work = std::move(work), share = t_->compute_share](Stream& s) {
      const kernels::ComputeShare capped(share);
      work(s);
    });
  }
  // Work that is done when the lane has passed it.
  static schedule::TaskWork on_lane(std::function<void(Stream&)> work) {
    return [work = std::move(work)](Stream& s) {
      work(s);
      return Event{};
    };
  }

  void bring() {
    const Bringing& b = t_->bring;
    brought_ = add_after({}, Lane::intra, Kind::all_gather, "B", wire(*b.group, "etp", b.bytes, b.bytes),
                         on_lane([t = t_](Stream& s) { t->bring.work(s); }));
  }

  // For rows as they are computed, each of one slot.
  static Rows grouped_room(const MoePass& t, RowFormat format, int64_t count) {
    format.extras /= t.plan.counts.slots_per_row;
    return format.room(count, t.device);
  }

  // Of a row as it was computed.
  int64_t result_bytes() const { return t_->width * size_of(t_->dtype); }
  int64_t rows_there(const ep::ChunkCounts& chunk) const { return chunk.own_rows; }

  void dispatch(size_t c) {
    // Bounded: its buffers are those of the chunk before the last one.
    const TaskId from = t_->bounded && dispatched_ >= 2 ? returned_[combined_[dispatched_ - 2]] : brought_;
    ++dispatched_;
    last_[c] = from;
    if (t_->pack_again) {
      dispatch(c, again_, "'", t_->pack_again,
               [](MoePass& t, size_t i, Rows rows) { t.chunks[i].again = rows.values; });
      last_[c] = from;  // the two ways are independent
    }
    dispatch(c, there_, "", t_->pack, [](MoePass& t, size_t i, Rows rows) { t.chunks[i].there = std::move(rows); });
    if (t_->fetch)
      arrived_[c].push_back(add_after({}, Lane::copy, Kind::copy, cat("F", c),
                                      copied(plan_.counts.chunks[c].rows_computed() * t_->aside_bytes_per_row),
                                      on_lane([t = t_, c](Stream& s) { t->fetch(s, c); })));
  }

  using Put = void (*)(MoePass&, size_t chunk, Rows rows);

  void dispatch(size_t c, const RowFormat& format, const std::string& mark,
                const std::function<RowSource(Stream&, size_t)>& pack, Put put) {
    MoePass* t = t_;
    const ep::ChunkCounts& chunk = plan_.counts.chunks[c];
    // The second rows travel through a tensor of their own: both may be on their way.
    const auto box = std::make_shared<Tensor>();
    // Rows are packed while the chunk before is computed, where they may be packed only late.
    add(c, t->bounded ? Lane::copy : Lane::compute, Kind::copy, cat("P", mark, c),
        copied(chunk.rows_to_send() * format.row_bytes()),
        on_lane([c, box, format, &pack](Stream& s) { *box = format.pack(s, pack(s, c)); }));
    send(c, mark, box, format);
    if (shares_width(ep::Spread::gather)) {
      const int64_t mine = chunk.rows_received() * format.row_bytes();
      add(c, Lane::intra, Kind::all_gather, cat("G", mark, c),
          wire(etp_, "etp", (etp_.size() - 1) * mine, ep::sum_of(chunk.shared) * format.row_bytes() - mine),
          [t, c, box](Stream& s) {
            auto [data, arrived] = ep::gather_rows(t->plan.counts.chunks[c].shared, *box, *t->groups.etp, s);
            *box = data;
            return arrived;
          });
    }
    if (format.plain() && !chunk.placed && !plan_.counts.merged)
      boxes_[c].push_back({box, put});
    else if (plan_.counts.merged)
      unpack_rows(c, mark, box, format, put);
    else  // with the computation, which shares the lane: what is computed before must not wait for these rows
      return unpacks_[c].push_back([=, this, sent = last_[c]] {
        last_[c] = sent;
        unpack_rows(c, mark, box, format, put);
        arrived_[c].push_back(last_[c]);
      });
    arrived_[c].push_back(last_[c]);
  }

  void send(size_t c, const std::string& mark, const std::shared_ptr<Tensor>& box, const RowFormat& format) {
    const ep::ChunkCounts& chunk = plan_.counts.chunks[c];
    const auto add_step = [&](Lane lane, std::string_view letter, Cost cost, auto step) {
      add(c, lane, Kind::all_to_all, cat(letter, mark, c), std::move(cost), [t = t_, c, box, step](Stream& s) {
        auto [data, arrived] = step(t->plan.counts.chunks[c], *box, s);
        *box = data;
        return arrived;
      });
    };
    if (!nodes_)
      return add_step(Lane::inter, "S", exchange(ranks_, "", chunk.splits, format),
                      [&group = ranks_](const ep::ChunkCounts& at, const Tensor& rows, Stream& s) {
                        return ep::send_to_experts(at, rows, group, s);
                      });
    add_step(Lane::intra, "N", exchange(*nodes_->inside, "_inside", chunk.steps->inside, format),
             [nodes = nodes_](const ep::ChunkCounts& at, const Tensor& rows, Stream& s) {
               return ep::send_inside_node(at, rows, *nodes, s);
             });
    // Rows that pass this rank are sorted by node before they leave it.
    Cost across = exchange(*nodes_->across, "_across", chunk.steps->across, format);
    across.copy_bytes = passing_bytes(chunk, format);
    add_step(Lane::inter, "S", std::move(across),
             [nodes = nodes_](const ep::ChunkCounts& at, const Tensor& rows, Stream& s) {
               return ep::send_between_nodes(at, rows, *nodes, s);
             });
  }
  static int64_t passing_bytes(const ep::ChunkCounts& chunk, const RowFormat& format) {
    return ep::sum_of(chunk.steps->inside.receive) * format.row_bytes();
  }

  void unpack_rows(size_t c, const std::string& mark, const std::shared_ptr<Tensor>& box, const RowFormat& format,
                   Put put) {
    add(c, copy_lane(), Kind::copy, cat("D", mark, c), copied(rows_there(plan_.counts.chunks[c]) * format.row_bytes()),
        on_lane([t = t_, c, box, format, put](Stream& s) {
          const ep::ChunkCounts& at = t->plan.counts.chunks[c];
          const Rows rows = t->plan.counts.merged ? t->together : grouped_room(*t, format, at.rows_computed());
          const Tensor sent = std::exchange(*box, {});
          const ep::ChunkIndices& indices = t->plan.indices.chunks[c];
          if (!indices.of_tokens())
            format.unpack(s, sent, indices.place, rows);
          else if (const Tensor numbers = copy_to_groups(s, format, sent, indices, rows);
                   t->weighs && numbers.defined())
            t->chunks[c].weights = numbers;
          if (!t->plan.counts.merged) put(*t, c, rows);
        }));
  }

  // As late as it keeps nothing from being sent, and early enough to wait for no row.
  void compute_shared() {
    const SharedWork& shared = t_->shared;
    if (!shared.compute) return;
    Cost cost;
    cost.products = shared.products;
    for (int64_t products : shared.products) cost.flops += static_cast<double>(products) * shared.flops;
    add_after({}, Lane::compute, Kind::compute, "H", std::move(cost),
              beside_communication([&shared](Stream&) { shared.compute(); }));
  }

  void compute(size_t c) {
    MoePass* t = t_;
    if (order_.empty()) compute_shared();
    const int64_t rows = plan_.counts.chunks[c].rows_computed();
    for (const auto& unpack : unpacks_[c]) unpack();
    std::vector<TaskId> after = std::move(arrived_[c]);
    if (t->bounded) {
      if (!order_.empty()) after.push_back(computed_[order_.back()]);
      if (order_.size() >= 2) after.push_back(returned_[order_[order_.size() - 2]]);
    }
    order_.push_back(c);
    last_[c] = computed_[c] =
        add_after(std::move(after), Lane::compute, Kind::compute, cat("C", c),
                  computed(plan_.counts.chunks[c].offsets, t->products),
                  on_share([t, c, boxes = std::move(boxes_[c])](Stream& s) {
                    for (const auto& [box, put] : boxes) put(*t, c, {std::exchange(*box, {})});
                    MoePass::Travelling& here = t->chunks[c];
                    here.computed = t->compute(s, c, std::exchange(here.there, {}), std::exchange(here.again, {}));
                  }));
    if (t->offload)
      add_after({computed_[c]}, Lane::copy, Kind::copy, cat("O", c), copied(rows * t->aside_bytes_per_row),
                on_lane([t, c](Stream& s) { t->offload(s, c); }));
  }

  void compute_together() {
    MoePass* t = t_;
    compute_shared();
    const TaskId all =
        add_after(last_, Lane::compute, Kind::compute, "C", computed(plan_.counts.chunks.front().offsets, t->products),
                  on_lane([t](Stream& s) { t->together = t->compute(s, 0, std::exchange(t->together, {}), {}); }));
    for (size_t c = 0; c < last_.size(); ++c) last_[c] = computed_[c] = all;
  }

  void combine(size_t c) {
    MoePass* t = t_;
    const ep::ChunkCounts& chunk = plan_.counts.chunks[c];
    const bool summed = shares_width(ep::Spread::gather) || shares_width(ep::Spread::held);
    const RowFormat format = back_;
    // Sums are taken of rows as they were computed; otherwise they are made ready to be sent at once. Not on the lane
    // of what comes after they returned: a chunk's results would wait for those of the one before.
    if (chunk.placed || plan_.counts.merged || (!format.plain() && !summed))
      add(c, Lane::compute, Kind::copy, cat("U", c), copied(rows_there(chunk) * format.row_bytes()),
          on_lane([t, c, format, summed](Stream& s) {
            const ep::ChunkIndices& at = t->plan.indices.chunks[c];
            const Rows results = t->plan.counts.merged ? t->together : std::exchange(t->chunks[c].computed, {});
            RowSource ready{results.values, at.place};
            if (at.of_tokens()) {
              const Rows sums = reduce_groups(s, results, at, std::exchange(t->chunks[c].weights, {}));
              ready = {.values = sums.values, .extras = sums.extras};
            } else {
              ready.extras = gather_rows_by(s, {results.extras}, at.place).values;
            }
            if (summed)
              t->chunks[c].computed = {gather_rows_by(s, {ready.values}, ready.index).values, ready.extras};
            else
              t->chunks[c].returning = format.pack(s, ready);
          }));
    if (shares_width(ep::Spread::gather)) {
      const int64_t mine = chunk.rows_received() * result_bytes();
      add(c, Lane::intra, Kind::reduce_scatter, cat("A", c),
          wire(etp_, "etp", ep::sum_of(chunk.shared) * result_bytes() - mine, (etp_.size() - 1) * mine),
          on_lane([t, c, format](Stream& s) {
            const Rows rows = std::exchange(t->chunks[c].computed, {});
            const std::vector<int64_t>& shared = t->plan.counts.chunks[c].shared;
            const auto sum = [&](const Tensor& x) {
              return x.defined() ? ep::add_shared_rows(shared, x, *t->groups.etp, s) : x;
            };
            t->chunks[c].returning = format.pack(s, {sum(rows.values), {}, sum(rows.extras)});
          }));
    }
    if (shares_width(ep::Spread::held)) {
      const int64_t sent = 2 * (etp_.size() - 1) * chunk.rows_received() * result_bytes() / etp_.size();
      add(c, Lane::intra, Kind::all_reduce, cat("A", c), wire(etp_, "etp", sent, sent),
          on_lane([t, c, format](Stream& s) {
            const Rows rows = std::exchange(t->chunks[c].computed, {});
            for (const Tensor& x : {rows.values, rows.extras})
              if (x.defined()) s.wait(ep::add_held_rows(x, *t->groups.etp, s).arrived);
            t->chunks[c].returning = format.pack(s, {rows.values, {}, rows.extras});
          }));
    }
    const bool at_once = returns_at_once() && !t->accept;
    const bool in_place = !at_once && !t->accept && format.plain() && in_order();
    const Cost returning = nodes_ ? exchange(*nodes_->across, "_across", back(chunk.steps->across), format)
                                  : exchange(ranks_, "", back(chunk.splits), format);
    add(c, Lane::inter, Kind::all_to_all, cat("R", c), returning,
        [t, c, at_once, in_place, &group = ranks_, nodes = nodes_](Stream& s) {
          const ep::ChunkCounts& at = t->plan.counts.chunks[c];
          MoePass::Travelling& here = t->chunks[c];
          if (here.computed.values.defined()) here.returning = std::exchange(here.computed, {}).values;
          const Tensor out = in_place ? t->returned.slice(0, at.slots_begin, at.slots_end) : Tensor{};
          const Tensor rows = std::exchange(here.returning, {});
          auto [data, arrived] =
              nodes ? ep::return_between_nodes(at, rows, *nodes, s) : ep::send_to_tokens(at, rows, group, s, out);
          if (at_once)
            t->returned = data;
          else if (!in_place)
            here.returning = data;
          return arrived;
        });
    if (nodes_) {
      Cost inside = exchange(*nodes_->inside, "_inside", back(chunk.steps->inside), format);
      inside.copy_bytes = passing_bytes(chunk, format);
      add(c, Lane::intra, Kind::all_to_all, cat("K", c), std::move(inside), [t, c, nodes = nodes_](Stream& s) {
        Tensor& rows = t->chunks[c].returning;
        auto [data, arrived] = ep::return_inside_node(t->plan.counts.chunks[c], std::exchange(rows, {}), *nodes, s);
        rows = data;
        return arrived;
      });
    }
    if (!at_once && !in_place)
      add(c, Lane::copy, Kind::copy, cat("L", c), copied(chunk.rows_to_send() * format.row_bytes()),
          on_lane([t, c, format](Stream& s) { unpack(*t, c, format, s); }));
    returned_[c] = last_[c];
    combined_.push_back(c);
    if (t->collection) collect(c);
  }

  // What came back, as slot rows.
  static void unpack(MoePass& t, size_t c, const RowFormat& format, Stream& s) {
    const ep::ChunkCounts& at = t.plan.counts.chunks[c];
    const Tensor sent = std::exchange(t.chunks[c].returning, {});
    Rows rows{sent};
    if (!format.plain()) {
      rows = format.room(at.rows_to_send(), t.device);
      format.unpack(s, sent, {}, rows);
    }
    if (t.plan.indices.copies.defined()) {
      const Tensor copies = t.plan.indices.copies.slice(0, at.slots_begin, at.slots_end);
      if (copies.dim(1) == 1) {
        rows = gather_rows_by(s, rows, copies.reshape({at.slots()}));
      } else {
        Rows sums = format.room(at.slots(), t.device);
        const auto& k = kernels::kernels(t.device).permute;
        k.combine(s, sums.values, rows.values, copies, {}, {});
        if (rows.extras.defined()) k.combine(s, sums.extras, rows.extras, copies, {}, {});
        rows = sums;
      }
    }
    if (t.accept) return t.accept(s, c, rows);
    const auto hand_on = [&](const Tensor& all, const Tensor& part) {
      if (part.defined())
        kernels::kernels(t.device).pointwise.copy(s, all.slice(0, at.slots_begin, at.slots_end), part);
    };
    hand_on(t.returned, rows.values);
    hand_on(t.returned_extras, rows.extras);
  }

  void collect(size_t c) {
    MoePass* t = t_;
    const RowCollection& rows = *t->collection;
    const comm::ProcessGroup& group = *rows.group;
    int64_t begin = 0;
    for (size_t before = 0; before < c; ++before) begin += ep::sum_of(rows.counts[before]);
    const int64_t all = ep::sum_of(rows.counts[c]), mine = rows.counts[c][static_cast<size_t>(group.rank())];
    const Tensor out = t->collected.slice(0, begin, begin + all);
    const int64_t row_bytes = result_bytes();
    add(c, Lane::intra, Kind::all_gather, cat("X", c),
        wire(group, "tp", (group.size() - 1) * mine * row_bytes, (all - mine) * row_bytes), [t, c, out](Stream& s) {
          const ep::ChunkCounts& at = t->plan.counts.chunks[c];
          const Tensor own = t->returned.slice(0, at.slots_begin, at.slots_end);
          return ep::gather_rows(t->collection->counts[c], own, *t->collection->group, s, out).arrived;
        });
  }

  void weights(size_t c, std::string name) {
    add_after({computed_[c]}, Lane::compute, Kind::compute, std::move(name),
              computed(plan_.counts.chunks[c].offsets, {0, 0, t_->weight_products}),
              on_share([t = t_, c](Stream& s) { t->weights(s, c); }));
  }

  MoePass* t_;
  const ep::RoutingPlan& plan_;
  const comm::ProcessGroup& ranks_;  // of the all-to-all
  const comm::NodeGroups* nodes_;    // its two levels; null: it takes one step
  const comm::ProcessGroup& etp_;
  const RowFormat there_, back_, again_;
  schedule::TaskGraph graph_;
  TaskId brought_ = none;
  std::vector<size_t> order_, combined_;  // chunks computed, and returned, so far
  size_t dispatched_ = 0;
  // By chunk:
  std::vector<TaskId> last_, computed_, returned_;
  std::vector<std::vector<TaskId>> arrived_;                                 // what the experts wait for
  std::vector<std::vector<std::pair<std::shared_ptr<Tensor>, Put>>> boxes_;  // rows that need no copy
  std::vector<std::vector<std::function<void()>>> unpacks_;                  // rows that do
};

}  // namespace

schedule::TaskGraph make_pass_graph(MoePass& trip) { return GraphOfPass(trip).make(); }

}  // namespace hexad::moe
