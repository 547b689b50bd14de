#include "tools/plan/memory_check.h"

#include <sys/vfs.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/base/units.h"
#include "framework/data/digest.h"
#include "framework/device/card_memory.h"
#include "parallel/comm/text_collectives.h"
#include "tools/plan/memory_savings.h"
#include "tools/plan/within_memory.h"
#include "tools/train/process/machine.h"
#include "tools/train/process/say.h"
#include "tools/train/recipe/schedule_check.h"
#include "tools/train/recipe/stages.h"
#include "tools/train/recipe/training_stages.h"

namespace hexad::plan {

using namespace train;

using base::human_bytes;
using Verdict = MemoryFit::Verdict;

namespace {

constexpr double patience = 4;  // maximum seconds of the search for memory savings if a job does not fit

// Bytes needed in one pool. `blocks` counts whole blocks of the allocator, whose sizes are rounded up. The program does
// not touch the bytes added by rounding, so a job is refused only if `bytes` do not fit.
struct Need {
  double bytes = 0, blocks = 0;
};

enum class Place : uint8_t { host, card };

bool is_in_memory(const std::string& folder) {
  constexpr long tmpfs = 0x01021994, ramfs = 0x858458f6;  // magic numbers of file systems in memory: see statfs(2)
  struct statfs status {};
  return statfs(folder.c_str(), &status) == 0 && (status.f_type == tmpfs || status.f_type == ramfs);
}

// Returns the memory that a rank needs in `place`. On a CPU, offloaded tensors are in a file, which counts only if its
// folder is in memory (tmpfs, ramfs). On other devices, offloaded tensors are in host memory.
Need need_of(const MemoryEstimate& m, const Recipe& r, Place place) {
  const bool on_cpu = r.device == device::DeviceKind::cpu;
  const double offloaded = !on_cpu || is_in_memory(r.offload.folder) ? m.offloaded : 0;
  if (r.device != device::DeviceKind::cuda) return {m.total + offloaded, m.blocks + offloaded};
  return place == Place::card ? Need{m.total, m.blocks} : Need{offloaded, offloaded};
}

// Returns the recipe with which the run starts. This recipe has values for all open choices of schedule.moe if
// memory_reuse is open. The value of memory_reuse depends on memory.limit_bytes, but not on the memory of the machine.
Recipe as_started(const Recipe& r, const Extensions& extensions, int64_t world) {
  if (r.model.moe.experts == 0 || r.schedule.moe.memory_reuse) return r;
  if (r.memory.limit() == 0) return with_schedule(r, keeping_schedule(r.schedule.moe.settled()));
  return with_schedule(r, MemoryNeeds(r, extensions, world).within(legal_schedules(r, extensions)).schedules.front());
}

struct Pool {
  std::string name, host;
  Place place;
  int64_t available = std::numeric_limits<int64_t>::max();
  int64_t first_rank = 0, ranks = 0;
  std::vector<int64_t> ranks_of_stage;
};

// Returns the bytes of a sequence with `tokens` tokens in a rank's cache of block `layer`.
double cached_bytes(const Recipe& r, int64_t layer, int64_t tokens) {
  const base::Dtype dtype = train::dtype_of(r.train.precision);
  if (r.model.is_delta(layer))
    return static_cast<double>(r.model.cached_states(r.parallel.tp) * size_of(accumulator_dtype(dtype)));
  return static_cast<double>(r.model.cached_elements(r.parallel.tp) * tokens * size_of(dtype));
}

// Adds the caches of a sequence with `tokens` tokens (layers::KeyValueCache) to the estimates of the pipeline stages.
void add_caches(std::vector<MemoryEstimate>& stages, const Recipe& r, const Extensions& extensions, int64_t tokens) {
  const pp::StageSplit split = stage_split(r, extensions);
  for (size_t s = 0; s < stages.size(); ++s)
    for (int local = 0; local < split.stages().stages_a_rank; ++local) {
      const auto layers = split.layers(static_cast<int>(s), local);
      double bytes = 0;
      for (int64_t l = layers.begin; l < layers.end; ++l) bytes += cached_bytes(r, l, tokens);
      stages[s].activations += bytes, stages[s].total += bytes, stages[s].blocks += bytes;
    }
}

using MemoryOf = std::function<const RankMemory&(int64_t)>;

std::vector<Pool> pools_of(const mesh::Layout& layout, const MemoryOf& memory_of) {
  std::map<std::pair<Place, int64_t>, Pool> pools;
  const size_t stages = layout.size(base::Axis::pp);
  for (int rank = 0; rank < layout.world(); ++rank) {
    const RankMemory& memory = memory_of(rank);
    for (const auto& [place, list] : {std::pair{Place::host, &memory.pools}, {Place::card, &memory.cards}})
      for (const MemoryPool& mine : *list) {
        const auto [entry, added] = pools.try_emplace({place, mine.id});
        Pool& pool = entry->second;
        if (added)
          pool = {.name = mine.name,
                  .host = memory.host,
                  .place = place,
                  .first_rank = rank,
                  .ranks_of_stage = std::vector<int64_t>(stages)};
        pool.available = std::min(pool.available, mine.available);
        ++pool.ranks, ++pool.ranks_of_stage[layout.coordinate(base::Axis::pp, rank)];
      }
  }
  std::vector<Pool> all;
  for (auto& [key, pool] : pools) all.push_back(std::move(pool));
  return all;
}

class Judge {
 public:
  Judge(const Recipe& recipe, const Extensions& extensions, int64_t world, const MemoryOf& memory_of, ModelUse use,
        int64_t cached_tokens)
      : recipe_(recipe),
        use_(use),
        cached_tokens_(cached_tokens),
        extensions_(extensions),
        world_(world),
        pools_(pools_of(mesh::Layout(recipe.parallel.sizes(), static_cast<int>(world)), memory_of)),
        stages_(stages_of(recipe)) {}

  MemoryFit verdict() const {
    const Pool* worst = nullptr;
    double worst_share = 0;
    for (const Pool& pool : pools_) {
      const double share =
          needed(pool, recipe_, stages_).blocks / static_cast<double>(std::max<int64_t>(1, pool.available));
      if (share > worst_share) worst = &pool, worst_share = share;
    }
    if (!worst) return {};
    const Need need = needed(*worst, recipe_, stages_);
    const auto available = static_cast<double>(worst->available);
    if (need.bytes * (1 - estimate_error) > available) return {Verdict::too_much, refusal(*worst, need)};
    const double besides = worst->place == Place::host ? process_bytes * static_cast<double>(worst->ranks) : 0;
    if (need.blocks * (1 + estimate_error) + besides > available) return {Verdict::tight, warning(*worst, need)};
    return {};
  }

 private:
  std::vector<MemoryEstimate> stages_of(const Recipe& r) const {
    Recipe run = r;
    // Ranks that share a card do not use NCCL for communication.
    if (std::ranges::any_of(pools_, [](const Pool& p) { return p.place == Place::card && p.ranks > 1; }))
      run.distributed.device_collectives = comm::DeviceCollectives::host;
    run = as_started(run, extensions_, world_);
    if (use_ == ModelUse::training) return estimate_stages(run, extensions_, world_);
    // For generation, estimates a single sequence if tp ranks can divide its tokens. Otherwise, and for evaluation,
    // estimates the recipe's micro-batch.
    if (use_ == ModelUse::generation && run.model.context % run.parallel.tp == 0) run.batch.micro = 1;
    std::vector<MemoryEstimate> stages = estimate_evaluation(run, extensions_, world_);
    if (cached_tokens_ > 0) add_caches(stages, run, extensions_, cached_tokens_);
    return stages;
  }

  Need needed(const Pool& pool, const Recipe& r, const std::vector<MemoryEstimate>& stages) const {
    Need sum;
    for (size_t s = 0; s < stages.size(); ++s) {
      const Need one = need_of(stages[s], r, pool.place);
      const auto ranks = static_cast<double>(pool.ranks_of_stage[s]);
      sum.bytes += ranks * one.bytes, sum.blocks += ranks * one.blocks;
    }
    return sum;
  }

  std::string figures(const Pool& pool, const Need& need) const {
    const std::string who = world_ == 1       ? "the rank"
                            : pool.ranks == 1 ? fmt::format("rank {}", pool.first_rank)
                                              : fmt::format("{} ranks", pool.ranks);
    return fmt::format("{} on {} {} estimated to need {}{}, and {} of {} is available", who, pool.host,
                       pool.ranks == 1 ? "is" : "are", human_bytes(need.bytes), pool.ranks == 1 ? "" : " together",
                       human_bytes(static_cast<double>(pool.available)), pool.name);
  }

  // Returns the memory of a rank by category as text, for the neediest stage of the pool.
  std::string parts(const Pool& pool) const {
    const MemoryEstimate& m = neediest(pool);
    return fmt::format("a rank: weights {}, gradients {}, optimizer {}, activations {}, {}temporary {}",
                       human_bytes(m.weights), human_bytes(m.gradients), human_bytes(m.optimizer),
                       human_bytes(m.activations),
                       m.connections > 0 ? fmt::format("connections of NCCL {}, ", human_bytes(m.connections)) : "",
                       human_bytes(m.temporary));
  }

  const MemoryEstimate& neediest(const Pool& pool) const {
    size_t most = 0;
    for (size_t s = 0; s < stages_.size(); ++s)
      if (pool.ranks_of_stage[most] == 0 || (pool.ranks_of_stage[s] > 0 && stages_[s].total > stages_[most].total))
        most = s;
    return stages_[most];
  }

  // Returns changes that reduce the need or add memory. Most of these changes affect the trained model or need other
  // machines.
  std::string other_keys(const Pool& pool) const {
    const MemoryEstimate& m = neediest(pool);
    const bool states = m.weights + m.gradients + m.optimizer > m.activations + m.temporary;
    if (use_ != ModelUse::training)
      return pool.place == Place::card ? "device: cpu, or a larger GPU" : "more nodes, or a machine with more memory";
    std::string text = states ? "a smaller model (model.layers, model.hidden, model.moe.experts)"
                              : "fewer tokens in a micro-batch (batch.micro, model.context)";
    if (pool.ranks > 1) text += pool.place == Place::card ? ", fewer ranks per GPU" : ", fewer ranks per node";
    return text + (states ? ", more nodes (parallel.pp, tp, ep, zero)" : ", more nodes (parallel.cp, pp, tp)");
  }

  std::string refusal(const Pool& pool, const Need& need) const {
    const std::string help =
        use_ != ModelUse::training
            ? ""
            : savings_text(
                  recipe_, world_, static_cast<double>(pool.available), need.blocks,
                  [&](const Recipe& changed) { return needed(pool, changed, stages_of(changed)).blocks; }, patience);
    return fmt::format("{} ({}){}; other options: {}. To start the run anyway, set memory.limit_bytes: none",
                       figures(pool, need), parts(pool), help, other_keys(pool));
  }

  std::string warning(const Pool& pool, const Need& need) const {
    return fmt::format(
        "memory may not be sufficient: {}; the estimate has an error of up to {:g}%, and does not count the rounding "
        "of blocks or the program itself",
        figures(pool, need), 100 * estimate_error);
  }

  const Recipe& recipe_;
  const ModelUse use_;
  const int64_t cached_tokens_;
  const Extensions& extensions_;
  const int64_t world_;
  const std::vector<Pool> pools_;
  const std::vector<MemoryEstimate> stages_;
};

std::string packed(const RankMemory& memory) {
  const auto list = [](const std::vector<MemoryPool>& pools) {
    nlohmann::json out = nlohmann::json::array();
    for (const MemoryPool& p : pools) out.push_back({p.id, p.name, p.available});
    return out;
  };
  return nlohmann::json{{"host", memory.host}, {"pools", list(memory.pools)}, {"cards", list(memory.cards)}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

RankMemory unpacked(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  const auto list = [&](const char* key) {
    std::vector<MemoryPool> pools;
    for (const auto& p : json.at(key)) pools.push_back({p.at(0), p.at(1), p.at(2)});
    return pools;
  };
  return {.host = json.at("host"), .pools = list("pools"), .cards = list("cards")};
}

// Returns the argument `mine` of rank 0 on all ranks. Collective.
MemoryFit broadcast(const MemoryFit& mine, const comm::ProcessGroup& group) {
  device::DeviceContext host;
  const std::string text = broadcast_text(mine.text, 0, group, host);
  const int verdict = group.rank() == 0 ? static_cast<int>(mine.verdict) : 0;
  return {static_cast<Verdict>(group.all_reduce_value(verdict, comm::Reduce::max, host)), text};
}

// Prints the text of the verdict on rank 0, preceded by `stage`, which is a stage_prefix() or empty. Returns false if
// the job does not fit.
bool accepted(const MemoryFit& fit, const comm::World& world, const std::string& stage = "") {
  const bool starts = fit.verdict != Verdict::too_much;
  if (world.rank() == 0 && !fit.text.empty())
    say(base::cat(starts ? "warning: " : "", stage, starts ? "" : "the model does not fit: ", fit.text));
  return starts;
}

}  // namespace

RankMemory RankMemory::here(device::DeviceKind device, int place) {
  RankMemory memory{.host = host_name(), .pools = memory_pools()};
  if (device != device::DeviceKind::cuda) return memory;
  const device::CardMemory card = device::cuda_card_memory(place);
  memory.cards.push_back(
      {static_cast<int64_t>(data::digest_of(card.id).low), "the memory of a GPU (" + card.name + ")", card.available});
  return memory;
}

MemoryFit memory_fit(const Recipe& recipe, const Extensions& extensions, int64_t world, const MemoryOf& memory_of,
                     ModelUse use, int64_t cached_tokens) {
  const MemoryFit fit = Judge(recipe, extensions, world, memory_of, use, cached_tokens).verdict();
  if (fit.verdict == Verdict::too_much) return fit;
  for (int64_t r = 0; r < world; ++r)
    if (const RankMemory& m = memory_of(r); m.pools.empty())
      return {Verdict::unknown,
              base::cat("the memory of ", m.host,
                        " cannot be read from /proc/meminfo, so the program cannot detect a model that "
                        "does not fit; set memory.limit_bytes to limit the memory")};
  return fit;
}

MemoryFit memory_fit(const Recipe& recipe, const Extensions& extensions, const comm::World& world, ModelUse use,
                     int64_t cached_tokens) {
  if (!recipe.memory.checks_machine()) return {};
  const auto phase = world.file_work().announce("estimating the memory that the model needs");
  device::DeviceContext host;
  const std::string mine = packed(RankMemory::here(recipe.device, world.local_rank()));
  std::vector<RankMemory> ranks;  // empty except on rank 0
  comm::gather_bytes({mine.begin(), mine.end()}, world.group(), host, [&](int, const std::vector<uint8_t>& bytes) {
    ranks.push_back(unpacked({bytes.begin(), bytes.end()}));
  });
  MemoryFit fit;
  if (world.rank() == 0) {
    fit = memory_fit(
        recipe, extensions, world.size(), [&](int64_t r) -> const RankMemory& { return ranks[r]; }, use, cached_tokens);
  }
  return broadcast(fit, world.group());
}

bool fits_in_memory(const Recipe& recipe, const Extensions& extensions, const comm::World& world, ModelUse use,
                    int64_t cached_tokens) {
  return accepted(memory_fit(recipe, extensions, world, use, cached_tokens), world);
}

bool stages_fit_in_memory(const Recipe& recipe, const Extensions& extensions, const comm::World& world) {
  for (int64_t stage = 0; stage < stage_count(recipe); ++stage) {
    const MemoryFit fit = memory_fit(with_stage(recipe, stage), extensions, world);
    if (!accepted(fit, world, stage_prefix(recipe, stage))) return false;
  }
  return true;
}

MemoryFit memory_fit_on_this_machine(const Recipe& recipe, const Extensions& extensions, int64_t ranks, ModelUse use) {
  if (!recipe.memory.checks_machine()) return {};
  // Collects one entry for each card of this machine, or a single entry on a CPU. Rank r has the limits of the entry
  // with index r modulo the number of entries.
  std::vector<RankMemory> cycle;
  std::set<int64_t> seen;
  for (int64_t r = 0; r < ranks; ++r) {
    RankMemory memory = RankMemory::here(recipe.device, static_cast<int>(r));
    if (!seen.insert(memory.cards.empty() ? 0 : memory.cards.front().id).second) break;
    cycle.push_back(std::move(memory));
  }
  return memory_fit(
      recipe, extensions, ranks, [&](int64_t r) -> const RankMemory& { return cycle[r % cycle.size()]; }, use);
}

}  // namespace hexad::plan
