// `hexad simulate --paper parm`: keys of the input, and the results of the formulas for the input.
#include <optional>

#include "tools/plan/papers/input.h"
#include "tools/plan/papers/paper.h"
#include "tools/plan/papers/parm.h"

namespace hexad::plan::parm {

constexpr auto enum_names(Inner) {
  return std::to_array<std::pair<Inner, std::string_view>>({{Inner::esp, "ESP"}, {Inner::ep, "EP"}});
}

namespace {

using namespace config;

/// Keys that give the price of one collective.
struct CollectiveKeys {
  std::string_view alpha, beta, measured, doc;
};
constexpr CollectiveKeys key_ag_mp{"alpha_AG_MP", "beta_AG_MP", "measured_AG_MP", "MP-AllGather"};
constexpr CollectiveKeys key_a2a{"alpha_A2A", "beta_A2A", "measured_A2A", "EP&ESP-AlltoAll"};
constexpr CollectiveKeys key_o{
    "alpha_o", "beta_o", "measured_o",
    "overlapped EP&ESP-AlltoAll and MP-AllGather, as a function of y/N_MP; none: computed by phases"};
constexpr CollectiveKeys key_ag_esp{"alpha_AG_ESP", "beta_AG_ESP", "measured_AG_ESP", "ESP-AllGather (baseline)"};
constexpr CollectiveKeys key_ar_esp{"alpha_AR_ESP", "beta_AR_ESP", "measured_AR_ESP", "ESP-AllReduce (baseline)"};
constexpr CollectiveKeys key_a2a_ep{"alpha_A2A_EP", "beta_A2A_EP", "measured_A2A_EP", "EP-AlltoAll (baseline)"};

struct CollectiveInput {
  std::optional<double> alpha, beta;
  std::optional<Curve> measured;

  bool given() const { return measured || (alpha && beta); }
  Fit fit() const { return measured ? fit_alpha_beta(measured->points) : Fit{.line = {*alpha, *beta}}; }
  AlphaBeta line() const { return fit().line; }
};

struct Input {
  int64_t b = 0, l = 0, m = 0, e = 0, k = 1;
  double f = 1;
  int64_t mp = 0, ep = 0, esp = 0;
  CollectiveInput ag_mp, a2a, overlap, ag_esp, ar_esp, a2a_ep;
  std::optional<int64_t> ranks_per_node;
  Inner inner = Inner::esp;

  template <class V>
  void fields(V& v) {
    v("B", b, "number of sequences of a GPU", at_least(1));
    v("L", l, "[tokens] sequence length", at_least(1));
    v("M", m, "embedding size", at_least(1));
    v("E", e, "number of experts", at_least(1));
    v("k", k, "number of experts that a token visits", at_least(1));
    v("f", f, "capacity factor", positive());
    v("N_MP", mp, "number of GPUs of a model-parallel group", at_least(1));
    v("N_EP", ep, "number of GPUs of an expert-parallel group", at_least(1), at_most(4096));
    v("N_ESP", esp, "number of GPUs of an expert-sharding group", at_least(1), at_most(4096));
    for (const auto& [keys, cost] : collectives()) {
      v(keys->alpha, cost->alpha, base::cat("[s] startup time of ", keys->doc), at_least(0));
      v(keys->beta, cost->beta, base::cat("[s/element] time per element of ", keys->doc), at_least(0));
      v(keys->measured, cost->measured,
        "[[elements, s], ...] of this collective; a line through these points replaces alpha and beta", positive());
    }
    v("ranks_per_node", ranks_per_node, "number of GPUs of a node; if given, the load of each link is printed",
      at_least(1));
    v("inner", inner, "ESP or EP: the kind of group that neighbouring GPUs form");
  }

  std::array<std::pair<const CollectiveKeys*, CollectiveInput*>, 6> collectives() {
    return {{{&key_ag_mp, &ag_mp},
             {&key_a2a, &a2a},
             {&key_o, &overlap},
             {&key_ag_esp, &ag_esp},
             {&key_ar_esp, &ar_esp},
             {&key_a2a_ep, &a2a_ep}}};
  }

  Layer layer() const {
    const auto real = [](int64_t n) { return static_cast<double>(n); };
    return {real(b), real(l), real(m), real(e), real(k), f, real(mp), real(ep), real(esp)};
  }
  bool has_baseline() const { return ag_esp.given() && ar_esp.given() && a2a_ep.given(); }
};

void check_collective(const CollectiveKeys& keys, const CollectiveInput& in, Problems& problems) {
  if (!problems.good({keys.alpha, keys.beta, keys.measured})) return;
  if (in.measured && (in.alpha || in.beta))
    problems.add(keys.measured, base::cat("must not be given together with ", keys.alpha, " or ", keys.beta));
  if (in.alpha && !in.beta) problems.add(keys.beta, base::cat("must be given together with ", keys.alpha));
  if (in.beta && !in.alpha) problems.add(keys.alpha, base::cat("must be given together with ", keys.beta));
  if (in.measured && in.measured->is_constant())
    problems.add(keys.measured, "must be at least two points, [[elements, seconds], ...]");
  else if (in.measured && in.fit().line.beta < 0)
    problems.add(keys.measured, base::cat("must rise, but changes by ", in.fit().line.beta,
                                          " s per element; the line would give large collectives negative seconds"));
}

void check(Input in, Problems& problems) {
  for (const auto& [keys, cost] : in.collectives()) check_collective(*keys, *cost, problems);
  const auto need = [&](const CollectiveKeys& keys, const CollectiveInput& cost, std::string_view why) {
    if (!cost.measured && !cost.alpha && !cost.beta && problems.good({keys.alpha, keys.beta, keys.measured}))
      problems.add(keys.alpha, base::cat("must be given together with ", keys.beta, ", or ", keys.measured,
                                         " in place of both", why));
  };
  need(key_a2a, in.a2a, "");
  if (in.mp > 1) need(key_ag_mp, in.ag_mp, ", because N_MP is above 1");
  if (in.ag_esp.given() || in.ar_esp.given() || in.a2a_ep.given()) {
    need(key_ag_esp, in.ag_esp, ", because another collective of the baseline is given");
    need(key_ar_esp, in.ar_esp, ", because another collective of the baseline is given");
    need(key_a2a_ep, in.a2a_ep, ", because another collective of the baseline is given");
  }
  if (problems.good({"N_MP"}) && in.mp == 1) {
    constexpr std::string_view why = "has no effect with N_MP = 1, because there is no MP-AllGather";
    for (const CollectiveKeys* keys : {&key_ag_mp, &key_o})
      refuse_written(problems, {keys->alpha, keys->beta, keys->measured}, why);
  }
  if (!in.ranks_per_node && problems.good({"ranks_per_node"}))
    refuse_written(problems, {"inner"}, "has no effect without ranks_per_node");
  if (problems.good({"k", "E"}) && in.k > in.e) problems.add("k", base::cat("must be at most E (", in.e, ")"));
}

Json json(const Fit& fit) {
  return {{"alpha_seconds", fit.line.alpha},
          {"beta_seconds_per_element", fit.line.beta},
          {"residual_seconds", fit.residuals},
          {"worst_relative_error", fit.worst_relative_error}};
}

Json json(const Load& load) {
  return {{"link", load.link()}, {"intra_elements", load.intra}, {"inter_elements", load.inter}};
}

Json placement(const Input& in, double y) {
  const Placement where{in.ep, in.esp, *in.ranks_per_node, in.inner};
  const Loads all = loads(where, y);
  return {{"case", placement_case(where)},
          {"AG_ESP", json(all.AG_ESP)},
          {"AR_ESP", json(all.AR_ESP)},
          {"A2A_EP", json(all.A2A_EP)},
          {"A2A_EP&ESP", json(all.A2A)}};
}

void add_baseline(Json& out, const Input& in, const Costs& costs, double chosen) {
  const BaselineCosts base{in.ag_esp.line(), in.ar_esp.line(), in.a2a_ep.line()};
  const Baseline t = baseline(in.layer(), base);
  out["baseline"] = {{"AG_ESP_seconds", t.AG_ESP},
                     {"AR_ESP_seconds", t.AR_ESP},
                     {"A2A_EP_seconds", t.A2A_EP},
                     {"t_B_seconds", t.seconds()},
                     {"speedup", t.seconds() / chosen}};
  for (const Claim& claim : claims(in.layer(), costs, base))
    out["claims"].push_back({{"claim", claim.text},
                             {"left_seconds", claim.smaller},
                             {"right_seconds", claim.larger},
                             {"holds", claim.holds()}});
}

Json report(Input in) {
  const Layer layer = in.layer();
  const double y = layer.ETM() * layer.N_ESP;
  Json out{{"paper", "Parm"},
           {"T_tokens", layer.T()},
           {"x_elements", layer.BLM()},
           {"y_elements", y},
           {"y_over_N_MP_elements", y / layer.N_MP}};
  for (const auto& [keys, cost] : in.collectives())
    if (cost->measured) out["fits"][std::string(keys->measured.substr(9))] = json(cost->fit());
  Costs costs{.AG_MP = in.ag_mp.given() ? in.ag_mp.line() : AlphaBeta{}, .A2A = in.a2a.line(), .overlap = {}};
  if (in.overlap.given()) costs.overlap = in.overlap.line();
  const double s1 = s1_seconds(layer, costs), s2 = s2_seconds(layer, costs);
  out["t_D1_seconds"] = s1;
  out["t_D2_seconds"] = s2;
  if (in.mp > 1) {
    out["t_D2_overlap"] = costs.overlap ? "by alpha_o, beta_o" : "by phases";
    out["t_D2_without_overlap_seconds"] = s2_sequential_seconds(layer, costs);
  }
  out["better"] = name_of(choose(layer, costs));
  if (in.has_baseline()) add_baseline(out, in, costs, std::min(s1, s2));
  if (in.ranks_per_node) out["placement"] = placement(in, y);
  return out;
}

}  // namespace
}  // namespace hexad::plan::parm

namespace hexad::plan {

Paper parm_paper() {
  return {"parm", "Parm: model parallelism paused around the experts", evaluate<parm::Input>, list_keys<parm::Input>};
}

}  // namespace hexad::plan
