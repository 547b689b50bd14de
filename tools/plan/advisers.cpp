#include "tools/plan/advisers.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "framework/base/counted.h"
#include "framework/base/ordinal.h"
#include "layers/moe/schedule/moe_choices.h"
#include "tools/plan/papers/eps.h"
#include "tools/plan/papers/monta.h"
#include "tools/plan/papers/mpmoe.h"
#include "tools/plan/papers/parm.h"

namespace hexad::plan {
namespace {

using config::Curve;
using moe::MoeSchedule;
using schedule::Lane;
using schedule::Rates;
using schedule::TaskKind;
using schedule::TimeCurve;

// Bounds of EPS-MoE's two conditions in the paper's test: relative extra time of communication and of products.
constexpr double eps_e0 = 0.32, eps_e1 = 0.03;
// Largest number of chunks that MoNTA and MPMoE may advise. It is also the largest number that `auto` tries, except
// with chunk_by: experts.
constexpr int64_t max_advised = *std::rbegin(moe::chunks_tried);

// Answer of a paper's algorithm: a schedule, or the reason why there is none.
struct Answer {
  std::optional<MoeSchedule> schedule{};
  std::string silence{};
};
Answer silent(std::string why) {
  Answer answer;
  answer.silence = std::move(why);
  return answer;
}
Answer says(const MoeSchedule& schedule) {
  Answer answer;
  answer.schedule = schedule;
  return answer;
}

// Returns the measured curve of a collective of `group`; null if there is none with at least two points.
const TimeCurve* curve_of_group(const Rates& rates, TaskKind kind, const AdvisedGroup& group) {
  const Rates::Link* link = rates.find(kind, group.name, group.ranks, group.crosses_nodes);
  return link && link->curve.points.size() > 1 ? &link->curve : nullptr;
}

std::string unmeasured(TaskKind kind, const AdvisedGroup& group) {
  return base::cat("the profile has no ", schedule::name_of(kind), " of group ", group.name, " (",
                   base::counted(group.ranks, "rank"), "); hexad profile measures it");
}

// Returns the bytes that a rank holds in a collective of `ranks` ranks, divided by the bytes that the rank sends.
double held_per_sent(int ranks) { return static_cast<double>(ranks) / static_cast<double>(ranks - 1); }

// Returns a link with the times of `curve`. The link's efficiency is a function of the bytes that a rank holds. A rank
// holds `per_sent` times the bytes that the rank sends.
Link link_of(const TimeCurve& curve, double per_sent) {
  double bandwidth = 0;
  for (const auto& [size, seconds] : curve.points) bandwidth = std::max(bandwidth, size / seconds);
  std::vector<Curve::Point> shares;
  for (const auto& [size, seconds] : curve.points) shares.push_back({size * per_sent, size / seconds / bandwidth});
  return {bandwidth, Curve(std::move(shares))};
}

// Returns the speed (volume per second) of `runs` equal runs, one after the other, as a function of their total volume.
// `curve` gives the seconds of a run of size x, whose volume is x * per_size.
Curve speed_of(const TimeCurve& curve, double per_size, double runs) {
  std::vector<Curve::Point> speeds;
  for (const auto& [size, seconds] : curve.points)
    speeds.push_back({size * per_size * runs, size * per_size / seconds});
  return Curve(std::move(speeds));
}

// Returns the alpha-beta line of a collective as a function of the elements that a rank holds.
AlphaBeta line_of(const TimeCurve& curve, const AdvisedGroup& group, double bytes_per_element) {
  std::vector<Curve::Point> samples;
  for (const auto& [size, seconds] : curve.points)
    samples.push_back({size * held_per_sent(group.ranks) / bytes_per_element, seconds});
  return fit_alpha_beta(samples).line;
}

// Returns the number of rows that are sent for a token: top_k or, with `rows: token`, the expected number of ep ranks
// that have an expert of the token.
double rows_of_token(const AdvisedLayer& l, const MoeSchedule& usual) {
  if (usual.rows != ep::RowOf::token) return l.top_k;
  return eps::expected_devices(std::llround(l.top_k), std::llround(l.experts), l.ep.ranks);
}

// Returns the bytes of the rows that a tensor-parallel group sends for a micro-batch. Each rank of the group sends an
// equal part of these bytes if the schedule sends no duplicates.
double group_bytes(const AdvisedLayer& l, const MoeSchedule& usual) {
  return monta::all_to_all_volume(l.sequences, l.tokens, l.hidden, rows_of_token(l, usual), l.bytes_per_element);
}

MoeSchedule unchunked(MoeSchedule s) {
  s.chunk_by = moe::ChunkBy::none, s.overlap = moe::Overlap::sequential, s.chunks = 1;
  return s;
}

Answer of_monta(const AdvisedLayer& l, const Rates& rates, const MoeSchedule& usual) {
  if (l.tp.ranks == 1 || l.ep.ranks == 1)
    return silent("parallel.tp or parallel.ep is 1; MoNTA needs values above 1 for both");
  const TimeCurve* exchange = curve_of_group(rates, TaskKind::all_to_all, l.ep);
  const TimeCurve* gather = curve_of_group(rates, TaskKind::all_gather, l.tp);
  if (!exchange) return silent(unmeasured(TaskKind::all_to_all, l.ep));
  if (!gather) return silent(unmeasured(TaskKind::all_gather, l.tp));
  if (rates.copy.points.size() < 2)
    return silent("the profile has fewer than two sizes of copies; hexad profile measures them");
  const monta::Network network{.t = static_cast<double>(l.tp.ranks),
                               .e = static_cast<double>(l.ep.ranks),
                               .all_to_all = link_of(*exchange, held_per_sent(l.ep.ranks)),
                               .all_gather = link_of(*gather, held_per_sent(l.tp.ranks)),
                               .copy = link_of(rates.copy, 1)};
  const double volume = group_bytes(l, usual);
  const int64_t most =
      std::min(max_advised, monta::max_chunks(volume, network, network.all_to_all.efficiency.points.front().x));
  const auto best = [&](monta::Strategy strategy) {
    return monta::best_pipelined(monta::all_pipelined(strategy, volume, network, most));
  };
  const auto o2 = best(monta::Strategy::o2), o3 = best(monta::Strategy::o3);
  const monta::Choice choice =
      monta::choose(monta::seconds(monta::Strategy::o1, monta::chunk(volume, network, 1), 1), o2, o3);
  MoeSchedule s = unchunked(usual);
  s.duplicates = moe::Duplicates::drop;
  const int64_t chunks = choice.strategy == monta::Strategy::o1   ? 1
                         : choice.strategy == monta::Strategy::o2 ? o2->chunks
                                                                  : o3->chunks;
  if (chunks > 1) {
    s.overlap = choice.strategy == monta::Strategy::o2 ? moe::Overlap::a2a_allgather : moe::Overlap::a2a_allgather_copy;
    s.chunks = chunks;
  }
  return says(s);
}

Answer of_parm(const AdvisedLayer& l, const Rates& rates, const MoeSchedule& usual) {
  if (l.tp.ranks == 1 || l.ep_etp.ranks == 1)
    return silent(
        "S1 and S2 are equal in this layout; Parm needs parallel.tp above 1, and parallel.ep or parallel.etp above 1");
  if (l.etp > 1 && usual.all_to_all == ep::AllToAll::hierarchical)
    return silent(
        "schedule.moe.all_to_all is hierarchical; Parm needs an all-to-all that sends a row to all etp ranks at once, "
        "such as direct");
  const TimeCurve* exchange = curve_of_group(rates, TaskKind::all_to_all, l.ep_etp);
  const TimeCurve* gather = curve_of_group(rates, TaskKind::all_gather, l.tp);
  if (!exchange) return silent(unmeasured(TaskKind::all_to_all, l.ep_etp));
  if (!gather) return silent(unmeasured(TaskKind::all_gather, l.tp));
  // Without padding, a capacity factor above 1 adds no rows.
  const bool padded = usual.capacity_padding == moe::CapacityPadding::full;
  const parm::Layer layer{.B = l.sequences,
                          .L = l.tokens,
                          .M = l.hidden,
                          .E = l.experts,
                          .k = rows_of_token(l, usual),
                          .f = padded ? l.capacity_factor : std::min(1.0, l.capacity_factor),
                          .N_MP = static_cast<double>(l.tp.ranks),
                          .N_EP = static_cast<double>(l.ep.ranks),
                          .N_ESP = static_cast<double>(l.etp)};
  const parm::Costs costs{.AG_MP = line_of(*gather, l.tp, l.bytes_per_element),
                          .A2A = line_of(*exchange, l.ep_etp, l.bytes_per_element)};
  MoeSchedule s = unchunked(usual);
  if (l.etp > 1) s.esp_exchange = ep::EspExchange::direct;
  s.duplicates = moe::Duplicates::pause_before_gate;
  if (parm::choose(layer, costs) == parm::Schedule::s2) {
    s.duplicates = moe::Duplicates::pause_after_gate;
    s.overlap = moe::Overlap::a2a_allgather, s.chunks = l.ep_etp.ranks;
  }
  return says(s);
}

Answer of_eps(const AdvisedLayer& l, const Rates& rates, const MoeSchedule& usual) {
  if (l.ep.ranks == 1) return silent("parallel.ep is 1; EPS-MoE needs a value above 1");
  if (l.local_experts == 1)
    return silent(
        "each rank has one expert; EPS-MoE needs at least two, because it divides a rank's experts into groups");
  const TimeCurve* exchange = curve_of_group(rates, TaskKind::all_to_all, l.ep);
  if (!exchange) return silent(unmeasured(TaskKind::all_to_all, l.ep));
  if (l.grouped.sizes() < 2)
    return silent(
        base::cat("numbers of experts with products in the profile: ", l.grouped.sizes(),
                  ", where dense_products count as one expert; expected at least 2; hexad profile measures both"));
  // S: seconds of an all-to-all as a function of the bytes of a rank's rows. G: seconds of the products of a group of
  // `experts` local experts with `of_rows` rows. Each etp rank computes all rows of its etp group with its shard of
  // each expert.
  const double bytes = group_bytes(l, usual) / l.tp.ranks, rows = l.sequences * l.tokens * l.top_k / l.tp.ranks;
  const auto local = static_cast<double>(l.local_experts);
  std::vector<Curve::Point> exchanges;
  for (const auto& [size, seconds] : exchange->points) exchanges.push_back({size * held_per_sent(l.ep.ranks), seconds});
  const Curve S(exchanges);
  const auto G = [&](double of_rows, double experts) {
    return l.products * l.grouped.seconds(of_rows * static_cast<double>(l.etp), experts);
  };
  const double T_comp = G(rows, local);
  const double T_comm = 2 * seconds(S, bytes);
  std::vector<Curve::Point> extra;
  for (int64_t N = 1; N <= l.local_experts; ++N)
    if (l.local_experts % N == 0) {
      const auto n = static_cast<double>(N);
      extra.push_back({n, 2 * n * seconds(S, bytes / n) - T_comm + n * G(rows / n, local / n) - T_comp});
    }
  const AlphaBeta line = fit_alpha_beta(extra).line;
  std::vector<eps::Groups> groups = eps::all_groups(T_comm, T_comp, l.local_experts, {.k = line.beta, .b = line.alpha});
  // Keeps N = 1, which is always possible and gains nothing. Without the test g.N > 1, this entry would be removed if a
  // curve is zero, because eps::extra() is then NaN.
  std::erase_if(groups, [&](const eps::Groups& g) {
    const auto N = static_cast<double>(g.N);
    return g.N > 1 && !eps::pays(eps::extra(bytes, N, S, Curve(G(rows / N, local / N)), Curve(T_comp)), eps_e0, eps_e1);
  });
  const int64_t best = eps::best_groups(groups).N;
  MoeSchedule s = unchunked(usual);
  if (best > 1) s.chunk_by = moe::ChunkBy::experts, s.chunks = best;
  return says(s);
}

// Returns MPMoE's slowdowns. The all-to-alls of a layer are tasks of the lane `inter`, even inside a node.
mpmoe::Slowdowns slowdowns(const Rates& rates) {
  const Lane comm = Lane::inter, comp = Lane::compute, mem = Lane::copy;
  return {.comm_comp = rates.alpha(comm, {comp}),
          .comm_mem = rates.alpha(comm, {mem}),
          .comm_all = rates.alpha(comm, {comp, mem}),
          .comp_comm = rates.alpha(comp, {comm}),
          .comp_mem = rates.alpha(comp, {mem}),
          .comp_all = rates.alpha(comp, {comm, mem}),
          .mem_comm = rates.alpha(mem, {comm}),
          .mem_comp = rates.alpha(mem, {comp}),
          .mem_all = rates.alpha(mem, {comm, comp})};
}

Answer of_mpmoe(const AdvisedLayer& l, const Rates& rates, const MoeSchedule& usual,
                const std::vector<moe::ReuseStrategy>& reuse) {
  if (l.ep.ranks == 1) return silent("parallel.ep is 1; MPMoE needs a value above 1");
  const TimeCurve* exchange = curve_of_group(rates, TaskKind::all_to_all, l.ep);
  const TimeCurve& forward = rates.compute[base::ordinal(base::GemmPass::forward)];
  if (!exchange) return silent(unmeasured(TaskKind::all_to_all, l.ep));
  if (forward.points.size() < 2 || rates.copy.points.size() < 2)
    return silent(base::cat("the profile has fewer than two sizes of ",
                            forward.points.size() < 2 ? "products" : "copies", "; hexad profile measures them"));
  // The paper's expert has two products. SwiGLU counts as two products that are 1.5 times as wide.
  const mpmoe::Layer layer{.M = l.hidden,
                           .H = l.expert_hidden * l.products / 2,
                           .B = l.sequences * l.tokens / l.tp.ranks,
                           .E = l.experts,
                           .k = l.top_k};
  // The formulas count top_k rows for each token. With `rows: token`, a row that is sent counts as several rows.
  const double rows_per_sent = l.top_k / rows_of_token(l, usual);
  const mpmoe::Machine machine{.W_comm = speed_of(*exchange, held_per_sent(l.ep.ranks) * rows_per_sent, 1),
                               .W_comp = speed_of(forward, 1, l.products * static_cast<double>(l.local_experts)),
                               .W_mem = speed_of(rates.copy, 1, 1),
                               .bytes_per_element = l.bytes_per_element,
                               .alpha = slowdowns(rates)};
  MoeSchedule best = unchunked(usual);
  std::optional<double> least;
  for (const moe::ReuseStrategy strategy : reuse)
    for (int64_t n = 1; n <= max_advised; ++n) {
      const double time = mpmoe::predict(layer, machine, mpmoe::all_strategies[base::ordinal(strategy)], n).seconds();
      if (least && time >= *least) continue;
      least = time, best.memory_reuse = strategy, best.chunks = n;
      best.chunk_by = n > 1 ? moe::ChunkBy::tokens : moe::ChunkBy::none;
    }
  return says(best);
}

}  // namespace

bool Advice::agrees_with(const MoeSchedule& chosen) const {
  bool agrees = schedule.has_value();
  moe::each_choice([&](std::string_view key, auto access, const moe::ChoiceFacts&) {
    if (agrees && std::ranges::find(keys, key) != keys.end()) agrees = access(*schedule) == access(chosen);
  });
  return agrees;
}

std::vector<Advice> advice(const AdvisedLayer& layer, const Rates& rates, const MoeSchedule& usual,
                           const std::vector<moe::ReuseStrategy>& reuse) {
  std::vector<Advice> all;
  const auto add = [&](std::string_view adviser, std::vector<std::string_view> keys, Answer answer) {
    all.push_back({adviser, std::move(keys), std::move(answer.schedule), std::move(answer.silence)});
  };
  add("MoNTA", {"duplicates", "overlap", "chunks"}, of_monta(layer, rates, usual));
  add("Parm", {"duplicates"}, of_parm(layer, rates, usual));
  add("EPS-MoE", {"chunk_by", "chunks"}, of_eps(layer, rates, usual));
  add("MPMoE", {"chunk_by", "chunks", "memory_reuse"}, of_mpmoe(layer, rates, usual, reuse));
  return all;
}

}  // namespace hexad::plan
