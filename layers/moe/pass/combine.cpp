// The way back of a chunk's results to the ranks of their tokens: the tasks U, A, R, K, L and X of pass.h.
#include <utility>

#include "layers/moe/pass/pass_builders.h"
#include "parallel/ep/exchange.h"
#include "parallel/ep/offsets.h"

namespace hexad::moe {

using namespace base;
namespace {

// Whether ranks that share an expert's width add up their results before these return.
bool adds_up(const PassGraph& g) {
  return g.shares_width(ep::EspExchange::gather) || g.shares_width(ep::EspExchange::replicated);
}

// U: results, which lie grouped by expert, go back into the order in which their rows arrived; of rows of tokens, those
// of a row's copies become their sum. Then they are packed for R, unless A comes between, which adds up unpacked rows.
void add_reducing(PassGraph& g, size_t c) {
  const RowFormat format = g.format_back();
  const bool summed = adds_up(g);
  g.add(c, Lane::compute, TaskKind::copy, cat("U", c),
        PassGraph::copied(g.counts.chunks[c].own_rows * format.row_bytes()),
        on_lane([c, format, summed, &pass = g.pass, &buffers = g.buffers](Stream& s) {
          const ep::ChunkIndices& indices = pass.plan.indices.chunks[c];
          PassBuffers::Chunk& here = buffers.chunks[c];
          const Rows results = pass.plan.counts.merged ? buffers.together : std::exchange(here.results, {});
          RowSource ready{results.values, indices.place};
          if (indices.of_tokens()) {
            const Rows sums = reduce_groups(s, results, indices, std::exchange(here.row_weights, {}));
            ready = {.values = sums.values, .row_weights = sums.row_weights};
          } else {
            ready.row_weights = gather_rows_by(s, {results.row_weights}, indices.place).values;
          }
          if (summed)
            here.results = {gather_rows_by(s, {ready.values}, ready.index).values, ready.row_weights};
          else
            here.returning = format.pack(s, ready);
        }));
}

// A of EspExchange::gather: each etp rank has addends for the rows of all of them, and gets the sums for the rows that
// it had received itself.
void add_reduce_scatter(PassGraph& g, size_t c) {
  const ep::ChunkCounts& chunk = g.counts.chunks[c];
  const int64_t mine = chunk.rows_received() * g.result_bytes();
  g.add(
      c, Lane::intra, TaskKind::reduce_scatter, cat("A", c),
      PassGraph::transfer(g.etp, "etp", ep::sum_of(chunk.shared) * g.result_bytes() - mine, (g.etp.size() - 1) * mine),
      on_lane([format = g.format_back(), &chunk, &here = g.buffers.chunks[c], &etp = g.etp](Stream& s) {
        const Rows rows = std::exchange(here.results, {});
        const auto sum = [&](const Tensor& x) {
          return x.defined() ? ep::add_shared_rows(chunk.shared, x, etp, s) : x;
        };
        here.returning = format.pack(s, {sum(rows.values), {}, sum(rows.row_weights)});
      }));
}

// A of EspExchange::replicated: each etp rank was sent all rows and has addends for all, and gets all sums.
void add_all_reduce(PassGraph& g, size_t c) {
  const int64_t ranks = g.etp.size();
  const int64_t sent = 2 * (ranks - 1) * g.counts.chunks[c].rows_received() * g.result_bytes() / ranks;
  g.add(c, Lane::intra, TaskKind::all_reduce, cat("A", c), PassGraph::transfer(g.etp, "etp", sent, sent),
        on_lane([format = g.format_back(), &here = g.buffers.chunks[c], &etp = g.etp](Stream& s) {
          const Rows rows = std::exchange(here.results, {});
          for (const Tensor& x : {rows.values, rows.row_weights})
            if (x.defined()) s.wait(ep::add_held_rows(x, etp, s).arrived);
          here.returning = format.pack(s, {rows.values, {}, rows.row_weights});
        }));
}

// How the rows that return in a chunk become slot rows in PassBuffers::returned.
enum class Landing : uint8_t {
  as_they_are,  // the received tensor becomes `returned` itself: there is one chunk, and its rows are in order
  in_place,     // they are received into the chunk's part of `returned`
  unpacked,     // Li copies them there or, in a bounded pass, hands them to PassWork::accept
};

Landing landing_of(const PassGraph& g) {
  if (g.pass.bounded) return Landing::unpacked;
  if (g.returns_at_once()) return Landing::as_they_are;
  return g.format_back().plain() && g.in_order() ? Landing::in_place : Landing::unpacked;
}

comm::Splits back(const comm::Splits& there) { return {there.receive, there.send}; }

void add_returning(PassGraph& g, size_t c) {
  const ep::ChunkCounts& chunk = g.counts.chunks[c];
  const RowFormat format = g.format_back();
  PassBuffers::Chunk& here = g.buffers.chunks[c];
  const Cost cost = g.nodes ? g.exchange(*g.nodes->across, "_across", back(chunk.steps->across), format)
                            : g.exchange(g.ranks, "", back(chunk.splits), format);
  g.add(c, Lane::inter, TaskKind::all_to_all, cat("R", c), cost,
        [landing = landing_of(g), &chunk, &here, &buffers = g.buffers, &ranks = g.ranks, nodes = g.nodes](Stream& s) {
          if (here.results.values.defined()) here.returning = std::exchange(here.results, {}).values;
          const Tensor out =
              landing == Landing::in_place ? buffers.returned.slice(0, chunk.slots_begin, chunk.slots_end) : Tensor{};
          const Tensor rows = std::exchange(here.returning, {});
          auto [data, arrived] =
              nodes ? ep::return_between_nodes(chunk, rows, *nodes, s) : ep::send_to_tokens(chunk, rows, ranks, s, out);
          if (landing == Landing::as_they_are)
            buffers.returned = data;
          else if (landing == Landing::unpacked)
            here.returning = data;
          return arrived;
        });
  if (!g.nodes) return;
  Cost inside = g.exchange(*g.nodes->inside, "_inside", back(chunk.steps->inside), format);
  inside.copy_bytes = g.passing_bytes(c, format);
  g.add(c, Lane::intra, TaskKind::all_to_all, cat("K", c), std::move(inside),
        [&chunk, &here, nodes = g.nodes](Stream& s) {
          auto [data, arrived] = ep::return_inside_node(chunk, std::exchange(here.returning, {}), *nodes, s);
          here.returning = data;
          return arrived;
        });
}

// The slot rows of a chunk, made from `sent`, the rows that returned in `format`. With EspExchange::direct a row was
// sent to every etp rank, and its slot row is the sum of the addends that returned (PlanIndices::copies).
Rows slot_rows(const MoePass& pass, size_t c, const RowFormat& format, const Tensor& sent, Stream& s) {
  const ep::ChunkCounts& chunk = pass.plan.counts.chunks[c];
  Rows rows{sent};
  if (!format.plain()) {
    rows = format.buffer(chunk.rows_to_send(), pass.rows.device);
    format.unpack(s, sent, {}, rows);
  }
  if (!pass.plan.indices.copies.defined()) return rows;
  const Tensor copies = pass.plan.indices.copies.slice(0, chunk.slots_begin, chunk.slots_end);
  if (copies.dim(1) == 1) return gather_rows_by(s, rows, copies.reshape({chunk.slots()}));
  Rows sums = format.buffer(chunk.slots(), pass.rows.device);
  const auto& k = kernels::kernels(pass.rows.device).permute;
  k.combine(s, sums.values, rows.values, copies, {}, {});
  if (rows.row_weights.defined()) k.combine(s, sums.row_weights, rows.row_weights, copies, {}, {});
  return sums;
}

void add_unpacking(PassGraph& g, size_t c) {
  const ep::ChunkCounts& chunk = g.counts.chunks[c];
  const RowFormat format = g.format_back();
  g.add(c, Lane::copy, TaskKind::copy, cat("L", c), PassGraph::copied(chunk.rows_to_send() * format.row_bytes()),
        on_lane([c, format, &chunk, &pass = g.pass, &work = g.work, &buffers = g.buffers](Stream& s) {
          const Tensor sent = std::exchange(buffers.chunks[c].returning, {});
          const Rows rows = slot_rows(pass, c, format, sent, s);
          if (pass.bounded) return work.accept(s, c, rows);
          const auto hand_on = [&](const Tensor& all, const Tensor& part) {
            if (part.defined())
              kernels::kernels(pass.rows.device)
                  .pointwise.copy(s, all.slice(0, chunk.slots_begin, chunk.slots_end), part);
          };
          hand_on(buffers.returned, rows.values);
          hand_on(buffers.returned_row_weights, rows.row_weights);
        }));
}

void add_collecting(PassGraph& g, size_t c) {
  const ep::ChunkCounts& chunk = g.counts.chunks[c];
  const RowCollection& collection = *g.pass.collection;
  const comm::ProcessGroup& group = *collection.group;
  int64_t begin = 0;
  for (size_t before = 0; before < c; ++before) begin += ep::sum_of(collection.counts[before]);
  const std::vector<int64_t>& counts = collection.counts[c];
  const int64_t all = ep::sum_of(counts), mine = counts[static_cast<size_t>(group.rank())];
  const Tensor out = g.buffers.collected.slice(0, begin, begin + all);
  g.add(c, Lane::intra, TaskKind::all_gather, cat("X", c),
        PassGraph::transfer(group, "tp", (group.size() - 1) * mine * g.result_bytes(), (all - mine) * g.result_bytes()),
        [out, &chunk, &counts, &group, &buffers = g.buffers](Stream& s) {
          const Tensor own = buffers.returned.slice(0, chunk.slots_begin, chunk.slots_end);
          return ep::gather_rows(counts, own, group, s, out).arrived;
        });
}

}  // namespace

void add_combine(PassGraph& g, size_t c) {
  const bool plain = g.format_back().plain();
  // Without U, results return in the order in which they were computed. Where A follows, U is not needed for packing:
  // A packs its sums. U is not on L's lane, where it would wait until the chunk before has returned.
  if (g.counts.chunks[c].placed || g.counts.merged || (!plain && !adds_up(g))) add_reducing(g, c);
  if (g.shares_width(ep::EspExchange::gather)) add_reduce_scatter(g, c);
  if (g.shares_width(ep::EspExchange::replicated)) add_all_reduce(g, c);
  add_returning(g, c);
  if (landing_of(g) == Landing::unpacked) add_unpacking(g, c);
  g.chunks[c].returned = g.chunks[c].last;
  g.combined.push_back(c);
  if (g.pass.collection) add_collecting(g, c);
}

}  // namespace hexad::moe
