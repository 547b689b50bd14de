#include "tools/plan/memory_report.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "framework/base/enum_names.h"
#include "framework/base/units.h"
#include "tools/plan/memory_estimate.h"
#include "tools/plan/memory_savings.h"
#include "tools/plan/routed_memory.h"
#include "tools/plan/step_on_meta.h"
#include "tools/train/recipe/schedule_check.h"

namespace hexad::plan {

using namespace train;

namespace {

using base::human_bytes;

template <class Bytes>
size_t neediest(const std::vector<MemoryEstimate>& stages, Bytes bytes) {
  return std::ranges::max_element(stages, {}, bytes) - stages.begin();
}

// Returns the largest memory of any stage in bytes. The sizes of blocks are rounded up, like for memory.limit_bytes.
double max_blocks(const std::vector<MemoryEstimate>& stages) {
  return stages[neediest(stages, &MemoryEstimate::blocks)].blocks;
}

// Returns lines about the memory that is needed if tokens do not load the experts evenly.
std::string routing_lines(const RoutedMemory& memory) {
  std::string text;
  for (const auto& [load, name] : {std::pair{memory.p99, "routing at p99"}, {memory.worst, "worst case"}})
    if (load.times > 1)
      text += fmt::format("  {:<18}{:>18}   the experts of one rank get {:.3g} times an even share of the tokens\n",
                          name, human_bytes(load.bytes), load.times);
  return text;
}

// Returns a line about the memory of the neediest of `ranks` if no other rank is ever late. Returns an empty text if
// this memory is less than 1% below `total`, and under ZeRO-0 and ZeRO-1. Late peers make a rank hold whole buckets of
// gradients longer only under ZeRO-2 and ZeRO-3.
std::string prompt_line(const Recipe& r, const Extensions& extensions, const mesh::Layout& layout,
                        const std::vector<int>& ranks, double total) {
  if (r.parallel.zero < 2 || layout.world() == 1) return {};
  double least = 0;
  for (const int rank : ranks) least = std::max(least, least_memory(r, extensions, layout, rank));
  if (least > 0.99 * total) return {};
  return fmt::format("  {:<18}{:>18}   if no other rank is ever late; `total` assumes late ranks\n", "  prompt peers",
                     human_bytes(least));
}

std::string how_loaded(const moe::MoeConfig& m) {
  if (m.routing == moe::Routing::model) return "evenly loaded experts";
  if (m.routing == moe::Routing::trace) return "experts loaded as in the trace";
  return base::cat("experts loaded by routing: ", base::enum_name(m.routing));
}

std::string stage_lines(const std::vector<MemoryEstimate>& stages, size_t worst) {
  const size_t count = stages.size();
  if (count == 1) return {};
  constexpr size_t max_lines = 8;
  std::string text;
  for (size_t s = 0; s < count; ++s) {
    const bool shown = s + 1 < max_lines || s + 1 == count || s == worst || count <= max_lines;
    if (!shown) {
      if (s + 1 == max_lines) text += "  ...\n";
      continue;
    }
    text += fmt::format("  {:<18}{:>18}   activations {}, micro-batches in flight: {}\n", fmt::format("stage {}", s),
                        human_bytes(stages[s].total), human_bytes(stages[s].activations), stages[s].in_flight);
  }
  return text;
}

std::string traffic_lines(const TrafficEstimate& traffic) {
  std::string text;
  for (int c = 0; c < comm::traffic_class_count; ++c)
    if (const auto kind = static_cast<comm::TrafficClass>(c); kind != comm::TrafficClass::control && traffic[kind] > 0)
      text += fmt::format("  {:<18}{:>18}\n", name_of(kind), human_bytes(traffic[kind]));
  return text.empty() ? text : "\nbytes sent by a rank in a step (estimate)\n" + text;
}

}  // namespace

MemoryReport::MemoryReport(const Recipe& recipe, const Extensions& extensions, int64_t world)
    : recipe_(recipe), extensions_(extensions), world_(world), planned_(recipe) {
  if (recipe.schedule.moe.memory_reuse || recipe.model.moe.experts == 0) return;
  within_ = MemoryNeeds(recipe_, extensions_, world_).within(legal_schedules(recipe_, extensions_));
  planned_ = with_schedule(recipe_, within_->schedules.front());
}

size_t MemoryReport::Estimates::neediest() const { return plan::neediest(stages, &MemoryEstimate::total); }

MemoryReport::Estimates MemoryReport::estimates() const {
  const Recipe& r = planned_;
  const mesh::Layout layout(r.parallel.sizes(), static_cast<int>(world_));
  Estimates all;
  for (const std::vector<int>& ranks : distinct_ranks(r, layout, RoutingLoad::even)) {
    MemoryEstimate& most = all.stages.emplace_back();
    for (const int rank : ranks) {
      const StepOnMeta step = step_on_meta(r, extensions_, layout, rank, RoutingLoad::even, Wanted::all);
      if (const MemoryEstimate m = memory_of(step, r, layout, rank); m.total > most.total) most = m;
      if (const TrafficEstimate t{step.sent}; t.total() > all.traffic.total()) all.traffic = t;
    }
  }
  return all;
}

std::string MemoryReport::table() const {
  const Recipe& r = planned_;
  const Estimates all = estimates();
  const std::vector<MemoryEstimate>& stages = all.stages;
  const size_t worst = all.neediest(), count = stages.size();
  const MemoryEstimate& m = stages[worst];
  std::string text = fmt::format("memory of a rank on {} (estimate)", name_of(r.device));
  if (count > 1) text += fmt::format("{:>4}stage {} of {} needs the most memory", "", worst, count);
  text += "\n";
  const auto row = [&](std::string_view name, double bytes, const std::string& note) {
    text += fmt::format("  {:<18}{:>18}{}{}\n", name, human_bytes(bytes), note.empty() ? "" : "   ", note);
  };
  row("weights", m.weights, "");
  row("gradients", m.gradients, "");
  row("optimizer", m.optimizer, "");
  if (m.offloaded > 0) row("  offloaded", m.offloaded, "not part of the total");
  row("activations", m.activations,
      (m.in_flight == 1
           ? "of one micro-batch, "
           : fmt::format("of {} micro-batches in flight{}, ", m.in_flight,
                         r.schedule.pipeline.stages_a_rank() > 1 && count > 1 ? " in virtual stages" : "")) +
          how_loaded(r.model.moe));
  if (m.connections > 0) row("connections", m.connections, "NCCL's buffers between ranks");
  row("temporary", m.temporary, "results in flight, rows of other ranks, scratch");
  row("total", m.total,
      recipe_.schedule.moe.memory_reuse
          ? ""
          : base::cat("memory_reuse: ", base::enum_name(r.schedule.moe.settled().memory_reuse)));
  if (r.memory.limit() > 0)
    row("  memory limit", static_cast<double>(r.memory.limit()),
        fmt::format("counted towards the limit: {}, the total in whole blocks of memory", human_bytes(m.blocks)));
  const mesh::Layout layout(r.parallel.sizes(), static_cast<int>(world_));
  text += prompt_line(r, extensions_, layout, distinct_ranks(r, layout, RoutingLoad::even)[worst], m.total);
  return text + routing_lines(routed_memory(r, extensions_, world_, m.total)) + stage_lines(stages, worst) +
         traffic_lines(all.traffic);
}

// Returns the memory that `changed` needs. Assumes the schedule that needs the least memory in the unchanged recipe if
// memory_reuse is open. Another schedule may need less in `changed`.
double MemoryReport::needed_by(const Recipe& changed) const {
  if (!within_) return max_blocks(estimate_stages(changed, extensions_, world_));
  moe::MoeSchedule s = within_->smallest;
  if (!contradictions(changed, s).empty()) s = keeping_schedule(s);
  return MemoryNeeds(changed, extensions_, world_).of(s);
}

std::string MemoryReport::problem() const {
  const auto limit = static_cast<double>(recipe_.memory.limit());
  if (limit == 0 || (within_ && within_->least <= limit)) return {};
  const auto stages = estimate_stages(planned_, extensions_, world_);
  const double need = within_ ? within_->least : max_blocks(stages);
  if (need <= limit) return {};
  return fmt::format("memory.limit_bytes is {}, but a rank{} is estimated to need {}, {} more{}", human_bytes(limit),
                     stages.size() > 1 ? fmt::format(" of stage {}", neediest(stages, &MemoryEstimate::blocks)) : "",
                     human_bytes(need), human_bytes(need - limit),
                     savings_text(recipe_, world_, limit, need, [&](const Recipe& r) { return needed_by(r); }));
}

std::string memory_comparison(const Recipe& recipe, const train::Extensions& extensions, int64_t world,
                              const std::map<std::string, int64_t>& measured) {
  const auto stages = estimate_stages(recipe, extensions, world);
  std::string text;
  const auto add = [&](const std::string& name, const std::string& category, auto bytes) {
    double most = 0;
    for (const MemoryEstimate& m : stages) most = std::max(most, std::invoke(bytes, m));
    const auto at = measured.find(category);
    const double counted = at == measured.end() ? 0 : static_cast<double>(at->second);
    if (most == 0 && counted == 0) return;
    text += fmt::format("{}{} {} ({})", text.empty() ? "" : ", ", name, human_bytes(most), human_bytes(counted));
  };
  add("weights", "parameter", &MemoryEstimate::weights);
  add("gradients", "gradient", &MemoryEstimate::gradients);
  add("optimizer", "optimizer", &MemoryEstimate::optimizer);
  add("activations", "activation", &MemoryEstimate::activations);
  add("connections", "connection", &MemoryEstimate::connections);
  add("total", "total", &MemoryEstimate::total);
  return text;
}

}  // namespace hexad::plan
