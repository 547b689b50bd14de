#include "layers/moe/pass/dispatch.h"

#include <utility>

#include "layers/moe/routes/token_rows.h"
#include "parallel/comm/gathered_rows.h"
#include "parallel/ep/exchange.h"
#include "parallel/ep/offsets.h"
#include "parallel/ep/window_exchange.h"

namespace hexad::moe {

using namespace base;
namespace {

// Returns the lane of dispatch.place. In MoNTA's O2, the task is on the lane of the preceding all-gather. In MoNTA's
// O3, it is on a separate lane. Without overlapping collectives, it is on the compute lane. In Parm's SAA, it is also
// on the compute lane: SAA divides only the return, so the task cannot overlap with another chunk.
Lane placing_lane(const PassGraph& g) {
  if (g.counts.in_phases()) return Lane::compute;
  switch (g.routes.settings.schedule.overlap) {
    case Overlap::none:
    case Overlap::sequential:
      return Lane::compute;
    case Overlap::a2a_allgather:
      return Lane::intra;
    case Overlap::a2a_allgather_copy:
      return Lane::copy;
  }
  return Lane::compute;
}

// Returns a buffer for grouped rows, each of which belongs to one slot.
Rows grouped_buffer(const PassGraph& g, RowFormat format, int64_t rows) {
  format.row_weights /= g.counts.slots_per_row;
  return format.buffer(rows, g.device);
}

}  // namespace

Handoff<Tensor> add_token_gather(PassGraph& g, Tensor own) {
  Handoff<Tensor> tokens;
  tokens.put(std::move(own));
  const comm::ProcessGroup* group = g.routes.gatherers;
  if (!group) return tokens;
  const int64_t sent = (group->size() - 1) * (g.routes.end - g.routes.begin) * g.row_bytes();
  g.run_first(g.add({g.first()}, Lane::intra, TaskKind::all_gather, "dispatch.tokens",
                    PassGraph::transfer_cost(*group, "etp", sent, sent), on_lane([tokens, group](Stream& s) mutable {
                      tokens.put(comm::all_gather_rows(tokens.read(), *group, s));
                    })));
  return tokens;
}

Handoff<Tensor> add_weight_gather(PassGraph& g, const Tensor& weights) {
  Handoff<Tensor> gathered;
  const comm::ProcessGroup* group = g.routes.gatherers;
  if (!group) {
    gathered.put(g.routes.own_rows_of_result(weights));
    return gathered;
  }
  const int64_t sent = (group->size() - 1) * weights.bytes();
  g.run_first(g.add({g.first()}, Lane::intra, TaskKind::all_gather, "dispatch.weights",
                    PassGraph::transfer_cost(*group, "etp", sent, sent),
                    on_lane([weights, gathered, group](Stream& s) mutable {
                      gathered.put(comm::all_gather_rows(weights, *group, s));
                    })));
  return gathered;
}

const Tensor& WireWeights::get(Stream& s, const ep::RoutingPlan& plan) {
  if (weights_ && !by_row_.read().defined()) by_row_.put(wire_weights(s, plan, weights_->read()));
  return by_row_.read();
}

Dispatch::Dispatch(PassGraph& g, const Options& options)
    : g_(g),
      name_(options.name),
      format_(g.format(options.row_weights)),
      keeps_weights_(options.keeps_weights),
      chunks_(g.counts.chunks.size()) {
  if (g.counts.merged) together_.put(grouped_buffer(g, format_, g.counts.rows_computed()));
  if (!g.counts.joined) return;
  joined_.put(format_.buffer(g.counts.rows_gathered(), g.device));
  if (keeps_weights_) joined_weights_.put(joined_.read().row_weights);
}

void Dispatch::add(size_t chunk, TaskId after, std::function<RowSource(Stream&)> rows) {
  chunks_[chunk].last = after;
  if (g_.windows) return add_window_exchange(chunk, std::move(rows));
  add_packing(chunk, std::move(rows));
  add_all_to_all(chunk);
  if (g_.shares_width(ep::EspExchange::gather)) add_width_gather(chunk);
  if (g_.counts.merged) add_placing(chunk);  // otherwise, add_arrival() adds this task if it is needed
}

void Dispatch::add_packing(size_t chunk, std::function<RowSource(Stream&)> rows) {
  // In a bounded pass, chunk i is packed once chunk i - 2 has returned, while chunk i - 1 is computed. It is packed on
  // the copy lane, because on the compute lane it would wait until chunk i - 1 is computed.
  const Lane lane = g_.bounded ? Lane::copy : Lane::compute;
  append(chunk, lane, TaskKind::copy, "pack",
         PassGraph::copy_cost(g_.counts.chunks[chunk].rows_to_send() * format_.row_bytes()),
         on_lane([format = format_, rows = std::move(rows), packed = chunks_[chunk].rows](Stream& s) mutable {
           // In plain format, gather_packed() gathers rows: row r is values[index[r]] of the RowSource. If the
           // RowSource has no index, its values are sent without a copy.
           packed.put({format.gather_packed(s, rows(s))});
         }));
}

void Dispatch::add_all_to_all(size_t chunk) {
  const ep::ChunkCounts& counts = g_.counts.chunks[chunk];
  const auto add_level = [&](Lane lane, std::string_view step, Cost cost, auto send) {
    append(chunk, lane, TaskKind::all_to_all, step, std::move(cost),
           [&counts, rows = chunks_[chunk].rows, send](Stream& s) mutable {
             auto [data, arrived] = send(counts, rows.read().values, s);
             rows.put({data});
             return arrived;
           });
  };
  if (!g_.nodes)
    return add_level(Lane::inter, "a2a", g_.all_to_all_cost(g_.all_to_all_group, "", counts.splits, format_),
                     [&ranks = g_.all_to_all_group](const ep::ChunkCounts& at, const Tensor& rows, Stream& s) {
                       return ep::send_to_experts(at, rows, ranks, s);
                     });
  add_level(Lane::intra, "a2a_inside", g_.all_to_all_cost(*g_.nodes->inside, "_inside", counts.steps->inside, format_),
            [nodes = g_.nodes](const ep::ChunkCounts& at, const Tensor& rows, Stream& s) {
              return ep::send_inside_node(at, rows, *nodes, s);
            });
  // The intermediate rank sorts the rows by destination node before it forwards them (NodeSteps::between). The sort
  // needs another copy.
  Cost across = g_.all_to_all_cost(*g_.nodes->across, "_across", counts.steps->across, format_);
  across.copy_bytes = PassGraph::passing_bytes(counts, format_);
  add_level(Lane::inter, "a2a", std::move(across),
            [nodes = g_.nodes](const ep::ChunkCounts& at, const Tensor& rows, Stream& s) {
              return ep::send_between_nodes(at, rows, *nodes, s);
            });
}

// Adds dispatch.pack and dispatch.a2a for an exchange in windows. Here, dispatch.pack only obtains the rows to send. It
// runs on the compute lane, in the order of the chunks.
void Dispatch::add_window_exchange(size_t chunk, std::function<RowSource(Stream&)> rows) {
  const Chunk& here = chunks_[chunk];
  append(chunk, Lane::compute, TaskKind::copy, "pack", PassGraph::copy_cost(0),
         on_lane([rows = std::move(rows), source = here.source](Stream& s) mutable { source.put(rows(s)); }));
  const ep::ChunkCounts& counts = g_.counts.chunks[chunk];
  append(chunk, Lane::inter, TaskKind::all_to_all, "a2a",
         g_.all_to_all_cost(g_.all_to_all_group, "", counts.splits, format_),
         on_lane([&counts, chunk, &g = g_, source = here.source, grouped = here.rows](Stream& s) mutable {
           const RowSource sent = source.take();
           grouped.put({ep::send_by_window(counts, g.routes.plan.indices.chunks[chunk].runs, sent.values, sent.index,
                                           *g.windows, s)});
         }));
}

void Dispatch::add_width_gather(size_t chunk) {
  const ep::ChunkCounts& counts = g_.counts.chunks[chunk];
  const int64_t mine = counts.rows_received() * format_.row_bytes();
  append(chunk, Lane::intra, TaskKind::all_gather, "all_gather",
         PassGraph::transfer_cost(g_.etp, "etp", (g_.etp.size() - 1) * mine,
                                  ep::sum_of(counts.shared) * format_.row_bytes() - mine),
         [&counts, rows = chunks_[chunk].rows, &etp = g_.etp](Stream& s) mutable {
           auto [data, arrived] = ep::gather_rows(counts.shared, rows.read().values, etp, s);
           rows.put({data});
           return arrived;
         });
}

Arrived Dispatch::add_arrival(size_t chunk) {
  if (g_.counts.merged) {
    Arrived all{.after = {}, .rows = together_};
    for (const Chunk& c : chunks_) all.after.push_back(c.last);
    return all;
  }
  if (!format_.plain() || g_.counts.chunks[chunk].placed) add_placing(chunk);
  return {.after = {chunks_[chunk].last}, .rows = chunks_[chunk].rows};
}

void Dispatch::add_placing(size_t chunk) {
  const Chunk& here = chunks_[chunk];
  if (g_.counts.joined) return add_joined_placing(chunk);
  append(chunk, placing_lane(g_), TaskKind::copy, "place",
         PassGraph::copy_cost(g_.counts.chunks[chunk].rows_in_chunk * format_.row_bytes()),
         on_lane([chunk, &g = g_, format = format_, rows = here.rows, row_weights = here.row_weights,
                  together = together_, keeps_weights = keeps_weights_](Stream& s) mutable {
           const ep::ChunkIndices& indices = g.routes.plan.indices.chunks[chunk];
           const Rows grouped =
               g.counts.merged ? together.read() : grouped_buffer(g, format, g.counts.chunks[chunk].rows_computed());
           const Tensor sent = rows.take().values;
           if (!indices.rows_are_tokens()) {
             // In plain format, scatter_unpacked() copies row r to row place[r] of `grouped`.
             format.scatter_unpacked(s, sent, indices.place, grouped);
           } else {
             Rows arrived{sent};
             if (!format.plain()) {
               arrived = format.buffer(sent.dim(0), sent.device());
               format.scatter_unpacked(s, sent, {}, arrived);
             }
             copy_to_groups(s, arrived, indices, grouped);
             if (keeps_weights) row_weights.put(arrived.row_weights);
           }
           if (!g.counts.merged) rows.put(grouped);
         }));
}

// Adds the task that copies rows of this chunk and of earlier chunks to the experts of this chunk.
void Dispatch::add_joined_placing(size_t chunk) {
  const Chunk& here = chunks_[chunk];
  const ep::ChunkCounts& counts = g_.counts.chunks[chunk];
  const bool is_last = chunk + 1 == chunks_.size();
  const int64_t begin = counts.arrived_begin,
                end = is_last ? g_.counts.rows_gathered() : g_.counts.chunks[chunk + 1].arrived_begin;
  const TaskId placed_before = chunk == 0 ? no_task : chunks_[chunk - 1].last;
  chunks_[chunk].last =
      g_.add({here.last, placed_before}, placing_lane(g_), TaskKind::copy, task_name(name_, "place", chunk),
             PassGraph::copy_cost((end - begin + counts.rows_in_chunk) * format_.row_bytes()),
             on_lane([chunk, begin, end, is_last, &g = g_, &counts, format = format_, rows = here.rows,
                      all = joined_](Stream& s) mutable {
               const Rows arrived = is_last ? all.take() : all.read();
               format.scatter_unpacked(s, rows.take().values, {}, part_of(arrived, begin, end));
               const Rows grouped = grouped_buffer(g, format, counts.rows_computed());
               copy_to_groups(s, arrived, g.routes.plan.indices.chunks[chunk], grouped);
               rows.put(grouped);
             }));
}

void Dispatch::append(size_t chunk, Lane lane, TaskKind kind, std::string_view step, Cost cost,
                      schedule::TaskWork work) {
  TaskId& last = chunks_[chunk].last;
  last = g_.add({last}, lane, kind, task_name(name_, step, chunk), std::move(cost), std::move(work));
}

}  // namespace hexad::moe
