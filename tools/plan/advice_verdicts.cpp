#include "tools/plan/advice_verdicts.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "layers/moe/schedule/moe_choices.h"
#include "parallel/comm/text_collectives.h"
#include "tools/plan/cluster.h"
#include "tools/train/recipe/schedule_check.h"

namespace hexad::plan {

using namespace base;
using namespace train;

namespace {

using moe::MoeSchedule;
using telemetry::AdviceMetrics;

AdvisedGroup group_of(std::string name, const comm::ProcessGroup& group) {
  const std::vector<int>& nodes = group.node_of_rank();
  return {std::move(name), group.size(), std::set<int>(nodes.begin(), nodes.end()).size() > 1};
}

// Returns the measured products of the recipe's profile, scaled to the weight of one etp rank's shard of an expert. The
// result is empty if the recipe has no profile.
GroupedProducts grouped_products(const Recipe& r, int etp) {
  if (r.schedule.profile.empty()) return {};
  const auto weight = static_cast<double>(r.model.hidden) * static_cast<double>(r.model.moe.expert_hidden) / etp;
  const Element element = r.train.precision == Precision::bf16 ? Element::bf16 : Element::f32;
  return {load_cluster(r.schedule.profile), element, weight};
}

// Returns the first key that `config` sets to another value than `s` has; empty if there is no such key.
std::string_view contradicted_key(moe::MoeScheduleConfig config, const MoeSchedule& s) {
  config.choose_open(s);
  const MoeSchedule settled = config.settled();
  std::string_view first;
  moe::each_choice([&](std::string_view key, auto access, const moe::ChoiceFacts&) {
    if (first.empty() && access(settled) != access(s)) first = key;
  });
  return first;
}

// Returns the different values of memory_reuse in `allowed`.
std::vector<moe::ReuseStrategy> strategies(const std::vector<MoeSchedule>& allowed) {
  std::vector<moe::ReuseStrategy> all;
  for (const MoeSchedule& s : allowed)
    if (std::ranges::find(all, s.memory_reuse) == all.end()) all.push_back(s.memory_reuse);
  return all;
}

// Returns the advice of rank 0, so that all ranks predict the same schedules. The groups, and therefore the rates, may
// differ between ranks.
std::vector<Advice> common_advice(std::vector<Advice> mine, const comm::ProcessGroup& world) {
  device::DeviceContext host;
  for (Advice& advice : mine) {
    const std::string name = advice.schedule ? moe::to_string(*advice.schedule) : std::string();
    advice.schedule = moe::schedule_named(comm::broadcast_text(name, 0, world, host));
    advice.silence = comm::broadcast_text(advice.silence, 0, world, host);
  }
  return mine;
}

// Returns the reason why there is no verdict on `advice`; empty if there is a verdict.
std::string obstacle(const Recipe& recipe, const Advice& advice) {
  if (!advice.schedule) return advice.silence;
  if (const auto refusals = contradictions(recipe, *advice.schedule); !refusals.empty())
    return cat("the advised schedule is illegal in this layout: schedule.moe.", refusals.front().key, " ",
               refusals.front().what);
  const std::string_view key = contradicted_key(recipe.schedule.moe, *advice.schedule);
  return key.empty() ? "" : cat("the recipe sets another value than the advised one for schedule.moe.", key);
}

}  // namespace

AdvisedLayer advised_layer(const Recipe& r, const mesh::Mesh& mesh) {
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  const moe::MoeConfig& m = r.model.moe;
  return {.sequences = real(r.batch.micro),
          .tokens = real(r.model.context / r.parallel.cp),
          .hidden = real(r.model.hidden),
          .expert_hidden = real(m.expert_hidden),
          .experts = real(m.experts),
          .top_k = real(m.top_k),
          .capacity_factor = m.capacity_factor.value_or(1),
          .bytes_per_element = real(size_of(train::dtype_of(r.train.precision))),
          .products = m.expert == moe::ExpertKind::swiglu ? 3.0 : 2.0,
          .local_experts = m.experts / mesh[Axis::ep].size(),
          .etp = mesh[Axis::etp].size(),
          .ep = group_of("ep", mesh[Axis::ep]),
          .tp = group_of("tp", mesh[Axis::tp]),
          .ep_etp = group_of("experts", mesh.experts()),
          .grouped = grouped_products(r, mesh[Axis::etp].size())};
}

bool as_good_as(const ScheduleCandidate& chosen, const ScheduleCandidate& advised) {
  if (advised.work == chosen.work) return true;
  if (chosen.measured.empty() || advised.measured.empty()) return advised.predicted <= chosen.predicted;
  return advised.measured_seconds() <= chosen.measured_seconds() ||
         indistinct(summary_of(advised.measured), summary_of(chosen.measured));
}

telemetry::ChoiceMetrics compare_advice(const Recipe& recipe, const ModelInstance& instance, const Predictor& predictor,
                                        const comm::ProcessGroup& world, const ScheduleChoice& choice) {
  const ScheduleCandidate chosen = choice.current();
  telemetry::ChoiceMetrics out{.schedule = moe::to_string(chosen.schedule),
                               .measured_seconds = chosen.measured_seconds()};
  const auto& all = choice.candidates();
  for (const Advice& advice :
       common_advice(plan::advice(advised_layer(recipe, instance.mesh), predictor.rates, recipe.schedule.moe.settled(),
                                  strategies(choice.memory().schedules)),
                     world)) {
    AdviceMetrics& verdict = out.advice.emplace_back();
    verdict.adviser = advice.adviser;
    verdict.reason = obstacle(recipe, advice);
    verdict.verdict = verdict.reason.empty() ? "" : "none";
    if (!verdict.reason.empty()) continue;
    const auto known = std::ranges::find(all, *advice.schedule, &ScheduleCandidate::schedule);
    const bool same = advice.agrees_with(chosen.schedule);
    ScheduleCandidate advised = chosen;
    if (!same && known != all.end()) advised = *known;
    if (!same && known == all.end())
      advised = predicted_schedule(recipe, instance.extensions, predictor, world, *advice.schedule);
    verdict.schedule = moe::to_string(*advice.schedule);
    verdict.measured = !chosen.measured.empty() && !advised.measured.empty();
    verdict.slower = verdict.measured ? advised.measured_seconds() / chosen.measured_seconds() - 1
                                      : advised.predicted / chosen.predicted - 1;
    verdict.verdict = same || as_good_as(chosen, advised) ? "right" : "wrong";
  }
  return out;
}

std::string to_string(const AdviceMetrics& a) {
  if (a.verdict == "none") return cat(a.adviser, ": no advice: ", a.reason);
  return fmt::format("{}: {}; the advised schedule ({}) is {:.1f}% {} ({}) than the chosen schedule", a.adviser,
                     a.verdict, a.schedule, 100 * std::abs(a.slower), a.slower < 0 ? "faster" : "slower",
                     a.measured ? "measured" : "predicted");
}

}  // namespace hexad::plan
