#include "layers/moe/pass/phased_combine.h"

#include <utility>

#include "parallel/ep/exchange.h"
#include "parallel/ep/offsets.h"

namespace hexad::moe {

using namespace base;
namespace {

// Returned rows of all phases, in the order in which this rank sent them.
struct Returned {
  Tensor wire;    // the rows in wire format
  Rows unpacked;  // undefined if `wire` is in plain format, or if rows are unpacked directly to the slot rows
};

// Copies the arriving rows of a phase to their positions in `wire`. The returned event is done once they are copied.
device::Event put(const ep::ReturnPhase& phase, const Tensor& wire, const ep::InFlight& rows, Stream& s) {
  s.wait(rows.arrived);
  phase.landing.scatter_into(wire, rows.data, s);
  return s.record();
}

// Returns the bytes that are copied to take these rows from a tensor or to put them into a tensor; 0 if they are
// adjacent.
int64_t copied_bytes(const ep::RowRanges& rows, const RowFormat& format) {
  return rows.adjacent() ? 0 : rows.rows() * format.row_bytes();
}

TaskId add_all_to_all(PassGraph& g, const RowFormat& format, const ReadyRows& ready, const Tensor& wire, size_t f) {
  const ep::ReturnPhase& phase = g.counts.phased.phases[f];
  const bool is_last = f + 1 == g.counts.phased.phases.size();
  auto leaving = [rows = ready.rows, is_last, &phase](Stream& s) mutable {
    const Tensor all = is_last ? rows.take().values : rows.read().values;
    return phase.leaving.taken_from(all, s);
  };
  if (!g.nodes) {
    Cost cost = g.all_to_all_cost(g.all_to_all_group, "", ep::returning(phase.splits), format);
    cost.copy_bytes = copied_bytes(phase.leaving, format) + copied_bytes(phase.landing, format);
    return g.add({ready.by}, Lane::inter, TaskKind::all_to_all, task_name("combine", "a2a", f), std::move(cost),
                 [&phase, leaving, wire, &ranks = g.all_to_all_group](Stream& s) mutable {
                   const bool in_place = phase.landing.adjacent();
                   const ep::InFlight rows = ep::send_to_tokens(phase, leaving(s), ranks, s,
                                                                in_place ? phase.landing.part_of(wire) : Tensor{});
                   return in_place ? rows.arrived : put(phase, wire, rows, s);
                 });
  }
  Cost across = g.all_to_all_cost(*g.nodes->across, "_across", ep::returning(phase.steps->across), format);
  across.copy_bytes = copied_bytes(phase.leaving, format);
  Cost inside = g.all_to_all_cost(*g.nodes->inside, "_inside", ep::returning(phase.steps->inside), format);
  inside.copy_bytes = (ep::sum_of(phase.steps->inside.receive) + phase.landing.rows()) * format.row_bytes();
  Handoff<Tensor> between;
  const TaskId sent = g.add({ready.by}, Lane::inter, TaskKind::all_to_all, task_name("combine", "a2a", f),
                            std::move(across), [&phase, leaving, between, nodes = g.nodes](Stream& s) mutable {
                              auto [data, arrived] = ep::return_between_nodes(phase, leaving(s), *nodes, s);
                              between.put(data);
                              return arrived;
                            });
  return g.add({sent}, Lane::intra, TaskKind::all_to_all, task_name("combine", "a2a_inside", f), std::move(inside),
               [&phase, wire, between, nodes = g.nodes](Stream& s) mutable {
                 return put(phase, wire, ep::return_inside_node(phase, between.take(), *nodes, s), s);
               });
}

// Writes the sum of the rows copies[i, ...] of `rows` to out[i], for each i. Addends are added in the order of the etp
// ranks.
void sum_copies(Stream& s, const Tensor& out, const Tensor& rows, const Tensor& copies) {
  if (!out.defined()) return;
  const auto& k = kernels_of(out).permute;
  if (copies.dim(1) == 1)
    k.gather(s, out, rows, copies.reshape({copies.dim(0)}), {});
  else
    k.combine(s, out, rows, copies, {}, {});
}

// Computes the slot rows of a set from its returned rows.
void unpack(Stream& s, const ep::PhasedReturn& phased, const ep::ReturnSet& set, const Tensor& copies,
            const RowFormat& format, const Returned& returned, const Rows& slot_rows) {
  if (!copies.defined()) {  // rows were sent in the order of the slot rows
    for (const ep::RowRange& r : set.slots.list())
      format.scatter_unpacked(s, returned.wire.slice(0, r.begin, r.end), {}, part_of(slot_rows, r.begin, r.end));
    return;
  }
  Rows rows{returned.wire};
  if (!format.plain()) {
    rows = returned.unpacked;
    for (int f = set.first_phase; f < set.end_phase; ++f)
      for (const ep::RowRange& r : phased.phases[f].landing.list())
        format.scatter_unpacked(s, returned.wire.slice(0, r.begin, r.end), {}, part_of(rows, r.begin, r.end));
  }
  for (const ep::RowRange& r : set.slots.list()) {
    const Rows out = part_of(slot_rows, r.begin, r.end);
    const Tensor of_set = copies.slice(0, r.begin, r.end);
    sum_copies(s, out.values, rows.values, of_set);
    sum_copies(s, out.row_weights, rows.row_weights, of_set);
  }
}

TaskId add_unpacking(PassGraph& g, const RowFormat& format, const Returned& returned, const Handoff<Rows>& slot_rows,
                     size_t set, std::vector<TaskId> after) {
  const ep::PhasedReturn& phased = g.counts.phased;
  const ep::ReturnSet& here = phased.sets[set];
  int64_t rows = 0;
  for (int f = here.first_phase; f < here.end_phase; ++f) rows += phased.phases[f].landing.rows();
  return g.add(std::move(after), Lane::copy, TaskKind::copy, task_name("combine", "unpack", set),
               PassGraph::copy_cost(rows * format.row_bytes()),
               on_lane([&phased, &here, &indices = g.routes.plan.indices, format, returned, slot_rows](Stream& s) {
                 unpack(s, phased, here, indices.copies, format, returned, slot_rows.read());
               }));
}

void add_all_gather(PassGraph& g, const PhasedReturnTarget& target, size_t set, std::vector<TaskId> after) {
  const RowCollection& collection = *target.collection;
  const comm::ProcessGroup& group = *collection.group;
  int64_t begin = 0;
  for (size_t before = 0; before < set; ++before) begin += ep::sum_of(collection.counts[before]);
  const std::vector<int64_t>& counts = collection.counts[set];
  const int64_t all = ep::sum_of(counts);
  const ep::RowRanges& slots = g.counts.phased.sets[set].slots;
  Cost cost = g.all_gather_cost(group, counts[group.rank()], all);
  cost.copy_bytes = slots.adjacent() ? 0 : slots.rows() * g.row_bytes();
  g.note_gathered(g.add(
      std::move(after), Lane::intra, TaskKind::all_gather, task_name("combine", "all_gather", set), std::move(cost),
      [&slots, &counts, &group, slot_rows = target.slot_rows,
       out = target.collected.slice(0, begin, begin + all)](Stream& s) {
        return ep::gather_rows(counts, slots.taken_from(slot_rows.read().values, s), group, s, out).arrived;
      }));
}

}  // namespace

void add_phased_return(PassGraph& g, const RowFormat& format, const ReadyRows& ready,
                       const PhasedReturnTarget& target) {
  const ep::ChunkCounts& all = g.counts.chunks.front();
  Returned returned;
  if (target.in_place) {
    returned.wire = target.slot_rows.read().values;
  } else {
    returned.wire = format.packed_buffer(all.rows_to_send(), g.device);
    if (!format.plain() && g.routes.plan.indices.copies.defined())
      returned.unpacked = format.buffer(all.rows_to_send(), g.device);
  }
  const ep::PhasedReturn& phased = g.counts.phased;
  for (size_t set = 0; set < phased.sets.size(); ++set) {
    std::vector<TaskId> last;
    for (int f = phased.sets[set].first_phase; f < phased.sets[set].end_phase; ++f)
      last.push_back(add_all_to_all(g, format, ready, returned.wire, static_cast<size_t>(f)));
    if (!target.in_place) last = {add_unpacking(g, format, returned, target.slot_rows, set, std::move(last))};
    for (const TaskId task : last) g.note_set_returned(task);
    if (target.collection) add_all_gather(g, target, set, std::move(last));
  }
}

}  // namespace hexad::moe
