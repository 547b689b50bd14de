#include "layers/moe/pass/combine.h"

#include <utility>

#include "layers/moe/routes/token_rows.h"
#include "parallel/ep/exchange.h"
#include "parallel/ep/offsets.h"
#include "parallel/ep/window_exchange.h"

namespace hexad::moe {

using namespace base;
namespace {

// Returns the cost of gathering shares of `bytes` each from the tensor-parallel ranks.
Cost share_gather_cost(const comm::ProcessGroup& ranks, int64_t bytes) {
  const int64_t sent = (ranks.size() - 1) * bytes;
  return PassGraph::transfer_cost(ranks, "tp", sent, sent);
}

// Returns the work of a task that gathers the shares `own` [share, ...] of all ranks in a new tensor `all` [T, ...].
schedule::TaskWork share_gather_work(const comm::ProcessGroup& ranks, const Handoff<Tensor>& own, Handoff<Tensor> all) {
  return [&ranks, own, all](Stream& s) mutable {
    const Tensor& share = own.read();
    Shape shape = share.shape();
    shape[0] *= ranks.size();
    all.put(Tensor::empty(shape, share.dtype(), share.device()));
    return ranks.all_gather(all.read(), share, s);
  };
}

}  // namespace

Combine::Combine(PassGraph& g, Options options)
    : g_(g), options_(std::move(options)), format_(g.format(options_.row_weights)), chunks_(g.counts.chunks.size()) {
  if (!g.bounded && return_target() != ReturnTarget::as_received)
    slot_rows_.put(format_.buffer(g.counts.slots(), g.device, Category::temporary));
  if (g.counts.joined) {
    RowFormat of_slots = format_;
    of_slots.row_weights /= g.counts.slots_per_row;
    joined_.put(of_slots.buffer(g.counts.rows_computed(), g.device));
  }
  if (!options_.collection) return;
  int64_t all = 0;
  for (const auto& counts : options_.collection->counts) all += ep::sum_of(counts);
  collected_ = Tensor::empty({all, g.width}, g.dtype, g.device, Category::communication);
}

void Combine::add(size_t chunk, const Computed& computed, Handoff<Tensor> row_weights) {
  Chunk& here = chunks_[chunk];
  here.last = computed.by;
  // The tasks that return the chunk share the handoff here.rows. Each task takes the rows from the handoff, and puts
  // the changed rows back. Results of chunks that are computed together remain in computed.results.
  if (!g_.counts.merged) here.rows = computed.results;
  // Results are in the order of computation, but must be returned in the order in which their rows arrived. The task
  // combine.reorder restores this order if dispatch.place changed it. The task also packs rows that are not in plain
  // format. If a later task sums results, that task packs the sums instead.
  if (g_.counts.joined)
    add_joined_reordering(chunk, computed.results, row_weights);
  else if (g_.counts.chunks[chunk].placed || g_.counts.merged || (!format_.plain() && !sums_before_return()))
    add_reordering(chunk, computed.results, row_weights);
  if (g_.shares_width(ep::EspExchange::gather)) add_reduce_scatter(chunk);
  if (g_.shares_width(ep::EspExchange::replicated)) add_all_reduce(chunk);
  if (g_.counts.in_phases())
    return add_phased_return(g_, format_, {here.last, here.rows},
                             {.slot_rows = slot_rows_,
                              .in_place = return_target() == ReturnTarget::in_place,
                              .collection = options_.collection,
                              .collected = collected_});
  if (g_.windows)
    add_window_exchange(chunk);
  else
    add_all_to_all(chunk);
  if (return_target() == ReturnTarget::unpacked) add_unpacking(chunk);
  g_.note_returned(chunk, here.last);
  if (!options_.collection) return;
  add_all_gather(chunk);
  g_.note_gathered(here.last);
}

// Adds the task that undoes the grouping by expert. The task first sums the results of each row's copies if rows belong
// to tokens. Finally, it packs the rows if etp ranks do not sum them before the return: such sums need unpacked rows.
void Combine::add_reordering(size_t chunk, Handoff<Rows> results, Handoff<Tensor> row_weights) {
  append(chunk, reordering_lane(), TaskKind::copy, "reorder",
         PassGraph::copy_cost(g_.counts.chunks[chunk].rows_in_chunk * format_.row_bytes()),
         on_lane([&indices = g_.routes.plan.indices.chunks[chunk], merged = g_.counts.merged, format = format_,
                  summed = sums_before_return(), results, row_weights, rows = chunks_[chunk].rows](Stream& s) mutable {
           const Rows grouped = merged ? results.read() : results.take();
           // Undoes dispatch.place, which copied row r to row place[r].
           RowSource ready{grouped.values, indices.place};
           if (indices.rows_are_tokens()) {
             const Rows sums = reduce_groups(s, grouped, indices, row_weights.take());
             ready = {.values = sums.values, .row_weights = sums.row_weights};
           } else {
             ready.row_weights = gather_rows_by(s, {grouped.row_weights}, indices.place).values;
           }
           if (summed)
             rows.put({gather_rows_by(s, {ready.values}, ready.index).values, ready.row_weights});
           else
             rows.put({format.gather_packed(s, ready)});
         }));
}

// Returns the lane of combine.reorder. In MoNTA's O3, it is the copy lane, so that the task overlaps with collectives
// of other chunks and with weight gradients. Otherwise, it is the compute lane. O3 also uses the compute lane if the
// pass has tasks combine.unpack. These are on the copy lane: behind one of them, combine.reorder would wait until the
// previous chunk has returned.
Lane Combine::reordering_lane() const {
  const bool copies = g_.counts.merged && g_.routes.settings.schedule.overlap == Overlap::a2a_allgather_copy;
  return copies && return_target() != ReturnTarget::unpacked ? Lane::copy : Lane::compute;
}

// Stores the results of this chunk after the results of earlier chunks. A row may have results in several chunks. If
// this chunk has the last of them, also sums all results of the row.
void Combine::add_joined_reordering(size_t chunk, Handoff<Rows> results, Handoff<Tensor> row_weights) {
  const ep::ChunkCounts& counts = g_.counts.chunks[chunk];
  TaskId& last = chunks_[chunk].last;
  // The cost counts a copy of the chunk's results, and sums over as many results as the chunk has. The number of summed
  // results is correct on average over the chunks.
  last = reordered_ = g_.add({last, reordered_}, Lane::compute, TaskKind::copy, task_name("combine", "reorder", chunk),
                             PassGraph::copy_cost(counts.rows_in_chunk * (g_.row_bytes() + format_.row_bytes())),
                             on_lane([&counts, &indices = g_.routes.plan.indices.chunks[chunk], format = format_,
                                      summed = sums_before_return(), results, row_weights, joined = joined_,
                                      rows = chunks_[chunk].rows](Stream& s) mutable {
                               const Rows made = results.take(), all = joined.read();
                               const Rows kept =
                                   part_of(all, counts.computed_begin, counts.computed_begin + counts.rows_in_chunk);
                               const auto& k = kernels_of(all.values).pointwise;
                               k.copy(s, kept.values, made.values);
                               if (kept.row_weights.defined()) k.copy(s, kept.row_weights, made.row_weights);
                               const Rows sums = reduce_groups(s, all, indices, row_weights.read());
                               if (summed)
                                 rows.put(sums);
                               else
                                 rows.put({format.gather_packed(s, {sums.values, {}, sums.row_weights})});
                             }));
}

// Sums the addends of the etp ranks, and packs the sums. Each etp rank has addends for the rows of all etp ranks, and
// receives the sums of its own rows.
void Combine::add_reduce_scatter(size_t chunk) {
  const ep::ChunkCounts& counts = g_.counts.chunks[chunk];
  const std::vector<int64_t>& shared = counts.return_counts().shared;
  const int64_t mine = counts.rows_to_return() * format_.unpacked_bytes();
  append(chunk, Lane::intra, TaskKind::reduce_scatter, "reduce_scatter",
         PassGraph::transfer_cost(g_.etp, "etp", ep::sum_of(shared) * format_.unpacked_bytes() - mine,
                                  (g_.etp.size() - 1) * mine),
         on_lane([format = format_, &shared, rows = chunks_[chunk].rows, &etp = g_.etp](Stream& s) mutable {
           const Rows addends = rows.take();
           const auto sum = [&](const Tensor& x) { return x.defined() ? ep::add_shared_rows(shared, x, etp, s) : x; };
           rows.put({format.gather_packed(s, {sum(addends.values), {}, sum(addends.row_weights)})});
         }));
}

// Sums the addends of the etp ranks, and packs the sums. Each etp rank has addends for all rows, and receives all sums.
void Combine::add_all_reduce(size_t chunk) {
  const int64_t ranks = g_.etp.size();
  const int64_t sent = 2 * (ranks - 1) * g_.counts.chunks[chunk].rows_to_return() * format_.unpacked_bytes() / ranks;
  append(chunk, Lane::intra, TaskKind::all_reduce, "all_reduce", PassGraph::transfer_cost(g_.etp, "etp", sent, sent),
         on_lane([format = format_, rows = chunks_[chunk].rows, &etp = g_.etp](Stream& s) mutable {
           const Rows sums = rows.take();
           for (const Tensor& x : {sums.values, sums.row_weights})
             if (x.defined()) s.wait(ep::add_replicated_rows(x, etp, s).arrived);
           rows.put({format.gather_packed(s, {sums.values, {}, sums.row_weights})});
         }));
}

Combine::ReturnTarget Combine::return_target() const {
  // True if rows return in the order of the slot rows. False for EspExchange::direct, although rows return in this
  // order if etp is 1.
  const bool in_order = g_.counts.esp_exchange != ep::EspExchange::direct && !g_.nodes;
  if (g_.bounded || !format_.plain() || !in_order) return ReturnTarget::unpacked;
  return g_.counts.chunks.size() == 1 && !g_.counts.in_phases() ? ReturnTarget::as_received : ReturnTarget::in_place;
}

void Combine::add_all_to_all(size_t chunk) {
  const ep::ChunkCounts& counts = g_.counts.chunks[chunk];
  const ep::MovedRows& moved = counts.return_counts();
  Handoff<Rows> rows = chunks_[chunk].rows;
  const Cost cost = g_.nodes
                        ? g_.all_to_all_cost(*g_.nodes->across, "_across", ep::returning(moved.steps->across), format_)
                        : g_.all_to_all_cost(g_.all_to_all_group, "", ep::returning(moved.splits), format_);
  append(chunk, Lane::inter, TaskKind::all_to_all, "a2a", cost,
         [target = return_target(), &counts, &moved, rows, slot_rows = slot_rows_, &ranks = g_.all_to_all_group,
          nodes = g_.nodes](Stream& s) mutable {
           const Tensor sent = rows.take().values;
           const Tensor out = target == ReturnTarget::in_place
                                  ? slot_rows.read().values.slice(0, counts.slots_begin, counts.slots_end)
                                  : Tensor{};
           auto [data, arrived] = nodes ? ep::return_between_nodes(moved, sent, *nodes, s)
                                        : ep::send_to_tokens(moved, sent, ranks, s, out);
           if (target == ReturnTarget::as_received)
             slot_rows.put({data});
           else if (target == ReturnTarget::unpacked)
             rows.put({data});
           return arrived;
         });
  if (!g_.nodes) return;
  Cost inside = g_.all_to_all_cost(*g_.nodes->inside, "_inside", ep::returning(moved.steps->inside), format_);
  inside.copy_bytes = PassGraph::passing_bytes(moved, format_);
  append(chunk, Lane::intra, TaskKind::all_to_all, "a2a_inside", std::move(inside),
         [&moved, rows, nodes = g_.nodes](Stream& s) mutable {
           auto [data, arrived] = ep::return_inside_node(moved, rows.take().values, *nodes, s);
           rows.put({data});
           return arrived;
         });
}

void Combine::add_window_exchange(size_t chunk) {
  const ep::ChunkCounts& counts = g_.counts.chunks[chunk];
  append(chunk, Lane::inter, TaskKind::all_to_all, "a2a",
         g_.all_to_all_cost(g_.all_to_all_group, "", ep::returning(counts.splits), format_),
         on_lane([this, chunk, &counts, target = return_target(), rows = chunks_[chunk].rows](Stream& s) mutable {
           const Tensor results = rows.take().values;
           const Tensor out = target == ReturnTarget::in_place
                                  ? slot_rows_.read().values.slice(0, counts.slots_begin, counts.slots_end)
                                  : format_.buffer(counts.slots(), g_.device).values;
           ep::return_by_window(out, counts, g_.routes.plan.indices.chunks[chunk].runs, results, *g_.windows, s);
           if (target == ReturnTarget::as_received)
             slot_rows_.put({out});
           else if (target == ReturnTarget::unpacked)
             rows.put({out});
         }));
}

void Combine::add_unpacking(size_t chunk) {
  const ep::ChunkCounts& counts = g_.counts.chunks[chunk];
  append(chunk, Lane::copy, TaskKind::copy, "unpack",
         PassGraph::copy_cost(counts.rows_to_get_back() * format_.row_bytes()),
         on_lane([this, chunk, &counts, packed = chunks_[chunk].rows](Stream& s) mutable {
           const Rows rows = unpacked(chunk, packed.take().values, s);
           if (g_.bounded) return options_.accept(s, chunk, rows);
           const auto hand_on = [&](const Tensor& all, const Tensor& part) {
             if (part.defined())
               kernels::kernels(g_.device).pointwise.copy(s, all.slice(0, counts.slots_begin, counts.slots_end), part);
           };
           hand_on(slot_rows().values, rows.values);
           hand_on(slot_rows().row_weights, rows.row_weights);
         }));
}

// Returns the slot rows of a chunk, made from the returned rows `sent`. With EspExchange::direct, every etp rank
// returns one addend of each row. A slot row is then the sum of its addends (RoutingIndices::copies).
Rows Combine::unpacked(size_t chunk, const Tensor& sent, Stream& s) const {
  const ep::ChunkCounts& counts = g_.counts.chunks[chunk];
  Rows rows{sent};
  if (!format_.plain()) {
    rows = format_.buffer(counts.rows_to_get_back(), g_.device);
    format_.scatter_unpacked(s, sent, {}, rows);
  }
  const Tensor& all_copies = g_.routes.plan.indices.copies;
  if (!all_copies.defined()) return rows;
  const Tensor copies = all_copies.slice(0, counts.slots_begin, counts.slots_end);
  if (copies.dim(1) == 1) return gather_rows_by(s, rows, copies.reshape({counts.slots()}));
  Rows sums = format_.buffer(counts.slots(), g_.device);
  const auto& k = kernels::kernels(g_.device).permute;
  k.combine(s, sums.values, rows.values, copies, {}, {});
  if (rows.row_weights.defined()) k.combine(s, sums.row_weights, rows.row_weights, copies, {}, {});
  return sums;
}

void Combine::add_all_gather(size_t chunk) {
  const ep::ChunkCounts& chunk_counts = g_.counts.chunks[chunk];
  const RowCollection& collection = *options_.collection;
  const comm::ProcessGroup& group = *collection.group;
  int64_t begin = 0;
  for (size_t before = 0; before < chunk; ++before) begin += ep::sum_of(collection.counts[before]);
  const std::vector<int64_t>& counts = collection.counts[chunk];
  const int64_t all = ep::sum_of(counts), mine = counts[group.rank()];
  const Tensor out = collected_.slice(0, begin, begin + all);
  append(chunk, Lane::intra, TaskKind::all_gather, "all_gather", g_.all_gather_cost(group, mine, all),
         [out, &chunk_counts, &counts, &group, slot_rows = slot_rows_](Stream& s) {
           const Tensor own = slot_rows.read().values.slice(0, chunk_counts.slots_begin, chunk_counts.slots_end);
           return ep::gather_rows(counts, own, group, s, out).arrived;
         });
}

void Combine::sum_own_slots(Stream& s, const Tensor& out, const Tensor& weights,
                            std::span<const Tensor> addends) const {
  const Routes& routes = g_.routes;
  const Tensor own_weights = weights.defined() ? routes.own_rows_of_result(weights) : Tensor{};
  kernels::kernels(g_.device).permute.combine(s, out, slot_rows().values, routes.rows_of_own_slots(), own_weights,
                                              addends);
}

void Combine::sum_collected_slots(Stream& s, const Tensor& out, const Tensor& weights,
                                  std::span<const Tensor> addends) const {
  kernels::kernels(g_.device).permute.combine(s, out, collected_, options_.collection->rows, weights, addends);
}

// True if ranks that share an expert's width sum their results before the return.
bool Combine::sums_before_return() const {
  return g_.shares_width(ep::EspExchange::gather) || g_.shares_width(ep::EspExchange::replicated);
}

void Combine::append(size_t chunk, Lane lane, TaskKind kind, std::string_view step, Cost cost,
                     schedule::TaskWork work) {
  TaskId& last = chunks_[chunk].last;
  last = g_.add({last}, lane, kind, task_name("combine", step, chunk), std::move(cost), std::move(work));
}

TaskId add_token_combine(PassGraph& g, Lane lane, std::function<void(Stream&)> combine) {
  return g.add(g.result_tasks(), lane, TaskKind::copy, "combine.tokens",
               PassGraph::copy_cost(g.counts.slots() * g.row_bytes()), on_lane(std::move(combine)));
}

void add_share_gather(PassGraph& g, std::vector<TaskId> after, std::string name, int64_t own_bytes,
                      const Handoff<Tensor>& own, Handoff<Tensor> all) {
  g.add(std::move(after), Lane::intra, TaskKind::all_gather, std::move(name), share_gather_cost(g.tensor, own_bytes),
        share_gather_work(g.tensor, own, all));
}

// The graph has one task, so schedule.moe.overlap has no effect. The task is issued at once, as in a pass that is not
// bounded. It therefore communicates in PassSettings::tensor and not in PassSettings::lane_groups.
Tensor gather_gradient_of_shares(const PassSettings& settings, const Tensor& own) {
  const comm::ProcessGroup& ranks = *settings.tensor;
  Handoff<Tensor> share, all;
  share.put(own);
  schedule::TaskGraph graph;
  graph.add({Lane::intra, "shares.all_gather", share_gather_cost(ranks, own.bytes()), TaskKind::all_gather}, {},
            share_gather_work(ranks, share, all));
  run_graph(graph, settings, PassKind::gradient_of_shares, own.device());
  return all.take();
}

}  // namespace hexad::moe
