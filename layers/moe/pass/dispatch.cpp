// The way of a chunk's rows to the ranks of their experts: the tasks B, P, N, S, G, D and F of pass.h.
#include <utility>

#include "layers/moe/pass/pass_builders.h"
#include "parallel/ep/exchange.h"
#include "parallel/ep/offsets.h"

namespace hexad::moe {

using namespace base;
namespace {

// How one of the two things that a pass dispatches goes to the experts: its rows, or T_DI once more (P' to D'). Both
// may be on their way at the same time, so each has buffers of its own.
struct Way {
  std::string_view mark;  // in names of tasks
  RowFormat format;
  RowSource (PassWork::*pack)(Stream& s, size_t chunk);
  DispatchBuffer PassBuffers::Chunk::*buffer;
};

Way way_of(const PassGraph& g, Dispatched what) {
  if (what == Dispatched::inputs) return {"'", g.format(0), &PassWork::pack_inputs, &PassBuffers::Chunk::inputs};
  return {"", g.format(g.pass.rows.weights_out), &PassWork::pack, &PassBuffers::Chunk::rows};
}

void add_packing(PassGraph& g, size_t c, const Way& way) {
  // A bounded pass packs a chunk when the one before the last has returned: by then the chunk before is being computed,
  // and on the compute lane packing would wait for its end.
  const Lane lane = g.pass.bounded ? Lane::copy : Lane::compute;
  DispatchBuffer& buffer = g.buffers.chunks[c].*way.buffer;
  g.add(c, lane, TaskKind::copy, cat("P", way.mark, c),
        PassGraph::copied(g.counts.chunks[c].rows_to_send() * way.format.row_bytes()),
        on_lane([c, way, &buffer, &work = g.work](Stream& s) {
          buffer.sent = way.format.pack(s, (work.*way.pack)(s, c));
        }));
}

void add_sending(PassGraph& g, size_t c, const Way& way) {
  const ep::ChunkCounts& chunk = g.counts.chunks[c];
  DispatchBuffer& buffer = g.buffers.chunks[c].*way.buffer;
  const auto add_step = [&](Lane lane, std::string_view letter, Cost cost, auto step) {
    g.add(c, lane, TaskKind::all_to_all, cat(letter, way.mark, c), std::move(cost), [&chunk, &buffer, step](Stream& s) {
      auto [data, arrived] = step(chunk, buffer.sent, s);
      buffer.sent = data;
      return arrived;
    });
  };
  if (!g.nodes)
    return add_step(Lane::inter, "S", g.exchange(g.ranks, "", chunk.splits, way.format),
                    [&ranks = g.ranks](const ep::ChunkCounts& at, const Tensor& rows, Stream& s) {
                      return ep::send_to_experts(at, rows, ranks, s);
                    });
  add_step(Lane::intra, "N", g.exchange(*g.nodes->inside, "_inside", chunk.steps->inside, way.format),
           [nodes = g.nodes](const ep::ChunkCounts& at, const Tensor& rows, Stream& s) {
             return ep::send_inside_node(at, rows, *nodes, s);
           });
  // What N brought here is sorted by node (NodeSteps::between) before it is sent on: a copy that S has to do as well.
  Cost across = g.exchange(*g.nodes->across, "_across", chunk.steps->across, way.format);
  across.copy_bytes = g.passing_bytes(c, way.format);
  add_step(Lane::inter, "S", std::move(across),
           [nodes = g.nodes](const ep::ChunkCounts& at, const Tensor& rows, Stream& s) {
             return ep::send_between_nodes(at, rows, *nodes, s);
           });
}

void add_width_gather(PassGraph& g, size_t c, const Way& way) {
  const ep::ChunkCounts& chunk = g.counts.chunks[c];
  DispatchBuffer& buffer = g.buffers.chunks[c].*way.buffer;
  const int64_t mine = chunk.rows_received() * way.format.row_bytes();
  g.add(c, Lane::intra, TaskKind::all_gather, cat("G", way.mark, c),
        PassGraph::transfer(g.etp, "etp", (g.etp.size() - 1) * mine,
                            ep::sum_of(chunk.shared) * way.format.row_bytes() - mine),
        [&chunk, &buffer, &etp = g.etp](Stream& s) {
          auto [data, arrived] = ep::gather_rows(chunk.shared, buffer.sent, etp, s);
          buffer.sent = data;
          return arrived;
        });
}

// The lane of D. MoNTA's O2 has D and G, the gather before it, in one stage, and O3 in two.
Lane placing_lane(Overlap overlap) {
  switch (overlap) {
    case Overlap::sequential:
      return Lane::compute;
    case Overlap::a2a_allgather:
      return Lane::intra;
    case Overlap::a2a_allgather_copy:
      return Lane::copy;
  }
  return Lane::compute;
}

void add_placing(PassGraph& g, size_t c, const Way& way) {
  g.add(c, placing_lane(g.pass.overlap), TaskKind::copy, cat("D", way.mark, c),
        PassGraph::copied(g.counts.chunks[c].own_rows * way.format.row_bytes()),
        on_lane([c, way, &pass = g.pass, &buffers = g.buffers](Stream& s) {
          const bool merged = pass.plan.counts.merged;
          const ep::ChunkIndices& indices = pass.plan.indices.chunks[c];
          PassBuffers::Chunk& chunk = buffers.chunks[c];
          DispatchBuffer& buffer = chunk.*way.buffer;
          const Rows rows =
              merged ? buffers.together : grouped_buffer(pass, way.format, pass.plan.counts.chunks[c].rows_computed());
          const Tensor sent = std::exchange(buffer.sent, {});
          if (!indices.of_tokens())
            way.format.unpack(s, sent, indices.place, rows);
          else if (const Tensor weights = copy_to_groups(s, way.format, sent, indices, rows);
                   pass.rows.weighs && weights.defined())
            chunk.row_weights = weights;
          if (!merged) buffer.rows = rows;
        }));
}

void add_way(PassGraph& g, size_t c, Dispatched what) {
  const Way way = way_of(g, what);
  ChunkTasks& tasks = g.chunks[c];
  add_packing(g, c, way);
  add_sending(g, c, way);
  if (g.shares_width(ep::EspExchange::gather)) add_width_gather(g, c, way);
  const bool placed = !way.format.plain() || g.counts.chunks[c].placed || g.counts.merged;
  // D is added with the chunk's C (add_late_placing): a lane runs its tasks in the order in which they were added, so
  // on the compute lane the experts' work for the chunk before would wait for the rows of this one to arrive.
  if (placed && !g.counts.merged) return tasks.unplaced.push_back({what, tasks.last});
  if (placed) add_placing(g, c, way);
  tasks.arrived.push_back(tasks.last);
}

}  // namespace

void add_gather(PassGraph& g) {
  g.gathered =
      g.add_after({}, Lane::intra, TaskKind::all_gather, "B",
                  PassGraph::transfer(*g.pass.gathering.group, "etp", g.pass.gathering.bytes, g.pass.gathering.bytes),
                  on_lane([&work = g.work](Stream& s) { work.gather(s); }));
}

void add_dispatch(PassGraph& g, size_t c) {
  const MoePass& pass = g.pass;
  ChunkTasks& tasks = g.chunks[c];
  // A bounded pass has buffers for two chunks: this one takes those of the last but one, once that has returned.
  const size_t before = g.dispatched.size();
  const TaskId from = pass.bounded && before >= 2 ? g.chunks[g.combined[before - 2]].returned : g.gathered;
  g.dispatched.push_back(c);
  if (pass.reuse.inputs_again) {
    tasks.last = from;
    add_way(g, c, Dispatched::inputs);
  }
  tasks.last = from;  // the two ways are independent
  add_way(g, c, Dispatched::rows);
  if (pass.reuse.fetched_row_bytes > 0)
    tasks.arrived.push_back(
        g.add_after({}, Lane::copy, TaskKind::copy, cat("F", c),
                    PassGraph::copied(g.counts.chunks[c].rows_computed() * pass.reuse.fetched_row_bytes),
                    on_lane([c, &work = g.work](Stream& s) { work.fetch(s, c); })));
}

void add_late_placing(PassGraph& g, size_t c) {
  ChunkTasks& tasks = g.chunks[c];
  for (const auto& [what, arrived] : tasks.unplaced) {
    tasks.last = arrived;
    add_placing(g, c, way_of(g, what));
    tasks.arrived.push_back(tasks.last);
  }
}

}  // namespace hexad::moe
