#include "tools/plan/papers/monta.h"

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"

namespace hexad::plan::monta {
namespace {

Transfer transfer(const Link& link, double moved, double volume) {
  return {volume, efficiency(link.efficiency, volume), link.seconds(moved, volume)};
}

/// Returns the values of Table 4 for k assignments per token on a rank. Sequence parallelism divides the scores by
/// `score_parts`.
ActivationBytes activations(const Activations& m, double k, double score_parts) {
  const double one = m.b * m.s * m.h * m.l, scores = 5 * m.a * m.s / m.h;
  return {.none = one * (13 + 21 * m.k + scores),
          .pp_tp_ep = one * (5 + 5 * k + (8 + 16 * k) / m.t + scores),
          .with_sp = one * ((13 + 21 * k) / m.t + scores / score_parts),
          .selective = one * (13 + 21 * k) / m.t,
          .full = 2 * one / m.t};
}

}  // namespace

double all_to_all_volume(double b, double s, double h, double k, double bytes_per_element) {
  return b * s * h * k * bytes_per_element;
}

Transfer baseline(double volume, const Network& n) { return transfer(n.all_to_all, volume * (n.e - 1) / n.e, volume); }

Chunk chunk(double volume, const Network& n, int64_t chunks) {
  base::require(chunks >= 1, "[monta] the number of chunks is ", chunks, ", expected at least 1");
  const double whole = volume / static_cast<double>(chunks), own = whole / n.t;
  return {.all_to_all = transfer(n.all_to_all, own * (n.e - 1) / n.e, own),
          .all_gather = transfer(n.all_gather, whole * (n.t - 1) / n.t, whole),
          .copy = transfer(n.copy, whole, whole)};
}

double seconds(Strategy strategy, const Chunk& one, int64_t chunks) {
  const double aa = one.all_to_all.seconds, ag = one.all_gather.seconds, copy = one.copy.seconds;
  const auto more = static_cast<double>(chunks - 1);
  switch (strategy) {
    case Strategy::o1:
      base::require(chunks == 1, "[monta] strategy O1 has ", chunks, " chunks, expected 1");
      return aa + ag;
    case Strategy::o2:
      return aa + ag + copy + more * std::max(aa, ag + copy);
    case Strategy::o3:
      return aa + ag + copy + more * std::max({aa, ag, copy});
  }
  base::fail_invariant(base::cat("[monta] the strategy is ", static_cast<int>(strategy), "; expected a Strategy"));
}

int64_t max_chunks(double volume, const Network& n, double smallest_volume) {
  return static_cast<int64_t>(std::floor(volume / (n.t * smallest_volume)));
}

std::vector<Pipelined> all_pipelined(Strategy strategy, double volume, const Network& network, int64_t most) {
  std::vector<Pipelined> tried;
  for (int64_t n = 1; n <= most; ++n) tried.push_back({n, seconds(strategy, chunk(volume, network, n), n)});
  return tried;
}

std::optional<Pipelined> best_pipelined(const std::vector<Pipelined>& tried) {
  const auto best = std::ranges::min_element(tried, {}, &Pipelined::seconds);
  return best == tried.end() ? std::nullopt : std::optional(*best);
}

Choice choose(double o1, std::optional<Pipelined> o2, std::optional<Pipelined> o3) {
  Choice best{Strategy::o1, o1};
  if (o2 && o2->seconds < best.seconds) best = {Strategy::o2, o2->seconds};
  if (o3 && o3->seconds < best.seconds) best = {Strategy::o3, o3->seconds};
  return best;
}

Limits limits(const Network& n) {
  // The limits are relative to T_base = I (e - 1)/e / B1.
  const double unit = n.e / (n.e - 1) * n.all_to_all.bandwidth;
  const double aa = 1 / n.t, ag = (n.t - 1) / n.t * unit / n.all_gather.bandwidth, copy = unit / n.copy.bandwidth;
  return {.o1 = aa + ag, .o2 = std::max(aa, ag + copy), .o3 = std::max({aa, ag, copy})};
}

double effective_bandwidth(double volume, double cards, double per_node, double seconds) {
  return volume * (cards - per_node) / (cards * seconds);
}

StepEstimate estimate(const Step& step, double before, double after) {
  const double seconds = step.seconds - step.count * (before - after);
  return {.seconds = seconds,
          .all_to_all_share = step.count * after / seconds,
          .tokens_per_second = step.tokens / seconds,
          .mfu = step.flops / (seconds * step.peak_flops)};
}

StateBytes state_bytes(double p1, double p2, const Shards& s, int64_t zero, const ParameterBytes& each) {
  return {kept_bytes(each, zero, s.d).total() * p1 / (s.p * s.t),
          kept_bytes(each, zero, s.d_experts).total() * p2 / (s.p * s.t * s.e)};
}

ActivationBytes activation_bytes(const Activations& model) { return activations(model, model.k / model.e, 1); }

ActivationBytes corrected_activation_bytes(const Activations& model, double load) {
  return activations(model, model.k * load, model.t);
}

}  // namespace hexad::plan::monta
