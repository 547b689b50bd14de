#include "tools/train/schedule_check.h"

#include <algorithm>

#include "framework/config/words.h"
#include "layers/moe/schedule/memory_limit.h"

namespace hexad::train {
namespace {

using base::cat;
using config::Problems;
using moe::Cut;
using moe::Duplicates;
using moe::MoeSchedule;
using moe::Overlap;

class Contradictions {
 public:
  void add(std::string path, std::string what) { list.push_back({std::move(path), std::move(what)}); }
  std::vector<Contradiction> list;
};

void check_duplicates(const Recipe& r, const MoeSchedule& s, Contradictions& problems) {
  const int64_t tp = r.parallel.tp, etp = r.parallel.etp.value_or(tp);
  if (r.parallel.sp && tp > 1 &&
      (s.duplicates == Duplicates::replicated || s.duplicates == Duplicates::pause_after_gate))
    problems.add("schedule.moe.duplicates",
                 "needs tokens that tp ranks hold alike, but parallel.sp divides them before the layer; legal with it: "
                 "baseline, drop, pause_before_gate");
  else if (s.duplicates == Duplicates::replicated && tp % etp != 0)
    problems.add("schedule.moe.duplicates", cat("needs the etp ranks (", etp, ") among the tp ranks (", tp,
                                                ") that hold the same tokens: parallel.etp must divide parallel.tp"));
}

void check_spread(const MoeSchedule& s, Contradictions& problems) {
  if (!s.esp_exchange) return;
  const bool held = *s.esp_exchange == ep::EspExchange::held;
  if (held && s.divides())
    problems.add(
        "schedule.moe.esp_exchange",
        "held means that every etp rank is sent all rows by its own peers, which only duplicates: baseline and "
        "replicated do; legal here: auto, gather, direct");
  if (!held && !s.divides())
    problems.add(
        "schedule.moe.esp_exchange",
        "must be auto or held for duplicates: baseline and replicated, which send every etp rank its own copy");
}

void check_chunks(const Recipe& r, const MoeSchedule& s, Contradictions& problems) {
  if (s.chunks > 1 && !s.overlaps())
    return problems.add("schedule.moe.chunks",
                        "has nothing to divide: set schedule.moe.cut or schedule.moe.overlap, or chunks: 1");
  if (s.chunks == 1 && s.overlaps())
    return problems.add("schedule.moe.chunks",
                        cat("must be at least 2 for ", s.is_cut() ? "schedule.moe.cut" : "schedule.moe.overlap",
                            ": of one chunk nothing overlaps"));
  const int64_t ep = r.parallel.ep;
  const bool phases = s.cut == Cut::nodes || (!s.is_cut() && s.duplicates == Duplicates::pause_after_gate);
  if (phases && ep > 1 && s.chunks > ep)  // one rank alone sends nothing: there is one chunk
    problems.add("schedule.moe.chunks", cat("must be at most parallel.ep (", ep,
                                            ") where the all-to-all is divided by "
                                            "peers (cut: nodes, or the phases of pause_after_gate)"));
  if (s.cut == Cut::experts && r.model.moe.experts % ep == 0 && s.chunks > r.model.moe.experts / ep)
    problems.add("schedule.moe.chunks", cat("must be at most the experts of a rank (", r.model.moe.experts, " / ", ep,
                                            " = ", r.model.moe.experts / ep, ") for cut: experts"));
}

void check_memory_reuse(const MoeSchedule& s, Contradictions& problems) {
  if (s.memory_reuse == moe::ReuseStrategy::none) return;
  const auto refuse = [&](std::string_view why) {
    problems.add("schedule.moe.memory_reuse", cat("works chunk by chunk: ", why, "; or memory_reuse: none"));
  };
  if (s.cut == Cut::nodes || s.cut == Cut::experts) refuse("schedule.moe.cut must be none or tokens");
  if (s.overlap != Overlap::sequential) refuse("schedule.moe.overlap must be sequential");
  if (s.duplicates != Duplicates::pause_before_gate) refuse("schedule.moe.duplicates must be pause_before_gate");
}

void check_products(const MoeSchedule& s, Contradictions& problems) {
  if (s.dense_rows && s.products != moe::Products::by_load)
    problems.add("schedule.moe.dense_rows",
                 "is read by schedule.moe.products: by_load alone: choose that, or dense_rows: auto");
}

void check_memory_limit(const Recipe& r, const MoeSchedule& s, Contradictions& problems) {
  if (!s.memory_limit) return;
  if (s.memory_reuse == moe::ReuseStrategy::none)
    return problems.add("schedule.moe.memory_limit",
                        "needs schedule.moe.memory_reuse: s1 to s4, as kept activations are of the whole micro-batch");
  if (s.all_to_all == ep::AllToAll::hierarchical)
    return problems.add(
        "schedule.moe.memory_limit",
        "does not count rows that pass a rank on their way to another one: schedule.moe.all_to_all must "
        "be direct, or memory_limit: none");
  if (s.rows == ep::RowOf::token)
    return problems.add("schedule.moe.memory_limit",
                        "counts the buffers of rows of slots: schedule.moe.rows must be slot, or memory_limit: none");
  const int64_t least = least_memory_limit(r, s.memory_reuse);
  if (*s.memory_limit < least)
    problems.add("schedule.moe.memory_limit",
                 cat("is less than chunks of one token need, wherever they go; the least is ", least));
}

void check_shared(const Recipe& r, const MoeSchedule& s, Contradictions& problems) {
  if (s.shared == moe::SharedExperts::beside && r.model.moe.shared_experts == 0)
    problems.add("schedule.moe.shared",
                 "has nothing to compute beside the routed experts: model.moe.shared_experts is 0; legal here: after");
}

// What the recipe says, or everything.
template <class E>
std::vector<E> choices(const std::optional<E>& said) {
  if (said) return {*said};
  std::vector<E> all;
  for (const auto& [value, name] : enum_names(E{})) all.push_back(value);
  return all;
}

// Numbers of chunks that are predicted: MPMoE's and MoNTA's.
constexpr int64_t chunks_tried[] = {2, 4, 8, 16};

// Why the steps of a cut schedule are illegal, or nothing.
std::string order_problem(const MoeSchedule& s, const layers::Registry& registry) {
  if (!s.is_cut()) return {};
  const moe::IssueOrder& order = *registry.moe_order(s.order);
  // Under a memory limit there may be more; what is wrong with an order shows in few.
  const auto fewest = static_cast<size_t>(s.chunks), most = s.memory_limit ? fewest + 16 : fewest;
  for (size_t chunks = fewest; chunks <= most; ++chunks)
    if (const std::string why = why_illegal(order.steps(chunks), chunks, s.memory_reuse != moe::ReuseStrategy::none);
        !why.empty())
      return cat("is illegal for ", chunks, " chunks: ", why);
  return {};
}

// Schedules in the making: each call multiplies them by the values of one choice.
class Combinations {
 public:
  explicit Combinations(MoeSchedule first) : all_{std::move(first)} {}

  /// `values` tells what a schedule may have in `member`; nothing: it is none.
  template <class T, class F>
  void vary(T MoeSchedule::*member, F values) {
    std::vector<MoeSchedule> varied;
    for (const MoeSchedule& s : all_)
      for (const T& value : values(s)) {
        varied.push_back(s);
        varied.back().*member = value;
      }
    all_ = std::move(varied);
  }
  std::vector<MoeSchedule> take() { return std::move(all_); }

 private:
  std::vector<MoeSchedule> all_;
};

std::vector<MoeSchedule> combinations(const Recipe& r, const layers::Registry& registry) {
  const moe::MoeScheduleConfig& config = r.schedule.moe;
  const int64_t etp = r.parallel.etp.value_or(r.parallel.tp);
  const bool alone = r.parallel.tp * etp == 1;
  const auto to_all = [](auto values) { return [values](const MoeSchedule&) { return values; }; };
  Combinations all(config.settled());
  all.vary(&MoeSchedule::duplicates, to_all(alone && !config.duplicates ? std::vector{Duplicates::pause_before_gate}
                                                                        : choices(config.duplicates)));
  all.vary(&MoeSchedule::overlap,
           to_all(alone && !config.overlap ? std::vector{Overlap::sequential} : choices(config.overlap)));
  std::vector<Cut> cuts = choices(config.cut);
  if (r.parallel.ep == 1 && !config.cut) std::erase(cuts, Cut::nodes);
  all.vary(&MoeSchedule::cut, to_all(cuts));
  // A recomputed block keeps, whatever is chosen.
  const bool keeps = !config.memory_reuse && r.recompute == layers::Recompute::block;
  all.vary(&MoeSchedule::memory_reuse,
           to_all(keeps ? std::vector{moe::ReuseStrategy::none} : choices(config.memory_reuse)));
  all.vary(&MoeSchedule::chunks, [&](const MoeSchedule& s) {
    if (config.chunks || !s.overlaps()) return std::vector{config.chunks.value_or(1)};
    return std::vector(std::begin(chunks_tried), std::end(chunks_tried));
  });
  all.vary(&MoeSchedule::rows,
           to_all(r.parallel.ep * etp == 1 && !config.rows ? std::vector{ep::RowOf::slot} : choices(config.rows)));
  all.vary(&MoeSchedule::esp_exchange, [&](const MoeSchedule& s) {
    std::vector<std::optional<ep::EspExchange>> exchanges{config.esp_exchange};
    // Whether there are two levels is a matter of the groups that an exchange sends in: the layer checks those of one.
    const bool one_level = config.all_to_all == ep::AllToAll::direct;
    if (!config.esp_exchange && etp > 1 && s.divides() && one_level) exchanges.emplace_back(ep::EspExchange::direct);
    return exchanges;
  });
  all.vary(&MoeSchedule::order, [&](const MoeSchedule& s) {
    return config.order || !s.is_cut() ? std::vector{s.order} : registry.moe_order_names();
  });
  return all.take();
}

}  // namespace

int64_t least_memory_limit(const Recipe& r, moe::ReuseStrategy strategy) {
  const moe::MoeConfig& m = r.model.moe;
  const int64_t ep = r.parallel.ep, etp = r.parallel.etp.value_or(r.parallel.tp);
  const moe::ExpertShape shape{r.model.hidden, (m.expert_hidden + etp - 1) / etp, m.expert == moe::ExpertKind::swiglu};
  // Of a chunk of one token on every rank, whatever experts they choose.
  const int64_t there = ep * etp * std::min(m.top_k, (m.experts + ep - 1) / ep);
  return moe::buffer_bytes(m.top_k * etp, there, shape, strategy, dtype_of(r.train.precision));
}

std::vector<Contradiction> contradictions(const Recipe& r, const MoeSchedule& s) {
  Contradictions problems;
  check_duplicates(r, s, problems);
  check_spread(s, problems);
  check_chunks(r, s, problems);
  check_memory_reuse(s, problems);
  check_products(s, problems);
  check_memory_limit(r, s, problems);
  check_shared(r, s, problems);
  return problems.list;
}

std::vector<MoeSchedule> legal_schedules(const Recipe& r, const layers::Registry& registry) {
  if (!r.schedule.moe.open()) return {r.schedule.moe.settled()};
  std::vector<MoeSchedule> all = combinations(r, registry);
  std::erase_if(all, [&](const MoeSchedule& s) {
    // An order that the recipe names is refused with the reason, not left out.
    return !contradictions(r, s).empty() || (!r.schedule.moe.order && !order_problem(s, registry).empty());
  });
  return all;
}

bool chunks_open(const Recipe& r, const MoeSchedule& s) { return !r.schedule.moe.chunks && s.overlaps(); }

int64_t most_chunks(const Recipe& r, const layers::Registry& registry, MoeSchedule s) {
  int64_t most = 2;
  for (s.chunks = 2; s.chunks <= *std::rbegin(chunks_tried); ++s.chunks) {
    if (!contradictions(r, s).empty() || !order_problem(s, registry).empty()) break;
    most = s.chunks;
  }
  return most;
}

void check_moe_schedule(const Recipe& r, const layers::Registry& registry, Problems& problems) {
  if (r.model.moe.experts == 0) return;
  if (!problems.good(
          {"schedule.moe", "model.moe.experts", "parallel.ep", "parallel.tp", "parallel.etp", "parallel.sp"}))
    return;
  if (r.schedule.moe.open() && !legal_schedules(r, registry).empty()) return;
  for (const Contradiction& c : contradictions(r, r.schedule.moe.settled())) problems.add(c.path, c.what);
}

namespace {

std::vector<std::string_view> open_keys(const moe::MoeScheduleConfig& c) {
  std::vector<std::string_view> keys;
  const auto add = [&](bool open, std::string_view key) {
    if (open) keys.push_back(key);
  };
  add(!c.duplicates, "duplicates"), add(!c.overlap, "overlap"), add(!c.cut, "cut"), add(!c.chunks, "chunks");
  add(!c.rows, "rows"), add(!c.order, "order"), add(!c.memory_reuse, "memory_reuse");
  return keys;
}

}  // namespace

void check_micro_batch_overlap(const Recipe& r, int64_t world, Problems& problems) {
  if (r.schedule.pipeline.overlap == pp::Overlap::none) return;
  if (!problems.good({"schedule", "model.moe.experts", "parallel", "batch"})) return;
  const auto refuse = [&](std::string why) {
    problems.add("schedule.pipeline.overlap", cat("micro_batches ", why, "; or overlap: none"));
  };
  if (r.model.moe.experts == 0)
    return refuse("hides the all-to-alls of MoE layers, of which there are none: model.moe.experts is 0");
  if (r.parallel.pp > 1 && !r.schedule.pipeline.has_pairs())
    return refuse(
        cat("pairs a forward with a backward, which schedule.pipeline.kind: ", name_of(r.schedule.pipeline.kind),
            " would make other stages wait for; legal kinds with stages: 1f1b, dualpipe_v"));
  if (r.schedule.moe.memory_reuse && *r.schedule.moe.memory_reuse != moe::ReuseStrategy::none)
    return refuse(
        "needs schedule.moe.memory_reuse: none: restored chunks are sent when their lanes come to it, so that ranks "
        "might "
        "send those of two micro-batches in different orders");
  if (r.schedule.moe.open())
    return refuse(
        "needs all of schedule.moe to be given: auto compares how long passes take, which includes what the other "
        "micro-batch computes meanwhile; auto here: " +
        config::join(open_keys(r.schedule.moe)));
  const int64_t dp = world / (r.parallel.pp * r.parallel.cp * r.parallel.tp);
  if (dp == 0) return;
  const int64_t micro_batches = r.batch.global / r.batch.micro / dp;
  if (micro_batches < 2)
    refuse(cat("needs two micro-batches a step of each pipeline, but batch.global / batch.micro / dp (", r.batch.global,
               " / ", r.batch.micro, " / ", dp, ") is ", micro_batches));
}

void check_moe_order(const Recipe& r, const layers::Registry& registry, Problems& problems) {
  if (!r.schedule.moe.order) return;
  const std::string& name = *r.schedule.moe.order;
  const moe::IssueOrder* order = registry.moe_order(name);
  if (!order) {
    std::vector<std::string> names = registry.moe_order_names();
    std::ranges::stable_sort(names, {}, [&](const std::string& n) { return config::edit_distance(name, n); });
    const std::vector<std::string_view> views(names.begin(), names.end());
    return problems.add("schedule.moe.order", "is no registered order; there are: " + config::join(views));
  }
  if (r.model.moe.experts == 0 || !problems.good({"schedule.moe", "model.moe.experts", "parallel"})) return;
  if (order->name != moe::alternating_order().name && r.schedule.moe.cut == Cut::none)
    return problems.add("schedule.moe.order", "has no chunks to order: set schedule.moe.cut, or order: alternating");
  for (const MoeSchedule& s : legal_schedules(r, registry))
    if (const std::string why = order_problem(s, registry); !why.empty())
      return problems.add("schedule.moe.order", why);
}

}  // namespace hexad::train
