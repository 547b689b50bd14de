// `hexad simulate --paper eps`: keys of the input, and the results of the formulas for the input.
#include <optional>

#include "tools/plan/curves/least_squares.h"
#include "tools/plan/papers/eps.h"
#include "tools/plan/papers/input.h"
#include "tools/plan/papers/paper.h"

namespace hexad::plan::eps {
namespace {

using namespace config;

struct BlockKeys : Block {
  template <class V>
  void fields(V& v) {
    v("M_in", M_in, "[bytes] input activations of all tokens", positive());
    v("M_out", M_out, "[bytes] output activations of all tokens", positive());
    v("M_weight", M_weight, "[bytes] parameters on all devices", positive());
    v("F", flops, "[FLOP] work on all devices together", positive());
  }
};

/// Keys of section 4.2: the times of whole layers.
struct Time {
  double fp = 0, bw = 0, nw = 0, v_o = 0, m_kv = 0;
  int64_t layers = 1;
  BlockKeys attention, moe;

  template <class V>
  void fields(V& v) {
    v("FP", fp, "[FLOP/s] compute rate of a device", positive());
    v("BW", bw, "[bytes/s] memory bandwidth of a device", positive());
    v("NW", nw, "[bytes/s] bandwidth from a device to other devices", positive());
    v("V_O", v_o, "[s] least time of any communication", at_least(0));
    v("M_KVCache", m_kv, "[bytes] all keys and values in the cache; 0 in prefill", at_least(0));
    v("L", layers, "number of layers", at_least(1));
    v("Attn", attention, "attention of a layer");
    v("MoE", moe, "experts of a layer");
  }
};

/// Keys of section 4.3: a layer that is split into groups.
struct Split {
  double p0 = 0, p1 = 0, w = 0, c = 0;
  int64_t n = 0;
  Curve r;

  template <class V>
  void fields(V& v) {
    v("N", n, "number of groups", at_least(1));
    v("P0", p0, "[bytes] input of one sample", positive());
    v("P1", p1, "[bytes] output of one sample", positive());
    v("W", w, "[bytes] parameters of an expert", positive());
    v("C", c, "[FLOP] work of an expert", positive());
    v("R", r, "[FLOP/s] rate of grouped products: a number, or [[group size, FLOP/s], ...]", positive());
  }
};

struct OverheadKeys {
  std::optional<double> k, b;
  std::optional<Curve> measured;

  template <class V>
  void fields(V& v) {
    v("k", k, "[s] overhead per group; R(N) = k N + b", positive());
    v("b", b, "[s] fixed overhead");
    v("measured", measured, "[[N, s], ...]; a line through these points replaces k and b", at_least(0));
  }
};

/// Keys of the EPS paper, section 5.2, item 5: the best number of groups.
struct Pipeline {
  double comm = 0, comp = 0;
  std::optional<int64_t> experts;
  OverheadKeys overhead;

  template <class V>
  void fields(V& v) {
    v("T_comm", comm, "[s] all communication of a layer that is not divided into groups", positive());
    v("T_comp", comp, "[s] all products of a layer that is not divided into groups", positive());
    v("E", experts, "number of experts of a device; N may be any divisor of this number; auto: E/D", automatic,
      at_least(1), at_most(100000));
    v("R", overhead, "overhead of N groups");
  }
};

/// Keys of the EPS paper, section 5.2, item 4: the loads at which groups are worthwhile.
struct Pays {
  std::vector<int64_t> m;
  int64_t n = 2;
  Curve s, g, g_n;
  double e0 = 0.32, e1 = 0.03;

  template <class V>
  void fields(V& v) {
    v("m", m, "[tokens] numbers of tokens for which to evaluate groups", non_empty(), at_least(1));
    v("N", n, "number of groups", at_least(2));
    v("S", s, "S(m): communication time, [[tokens, s], ...]", positive());
    v("G", g, "G(m, E): time of the products of all experts, [[tokens, s], ...]", positive());
    v("G_N", g_n, "G(m, E/N): time of the products of one group, [[tokens, s], ...]", positive());
    v("e0", e0, "bound on the relative extra time of communication", at_least(0));
    v("e1", e1, "bound on the relative extra time of products", at_least(0));
  }
};

struct Input {
  int64_t e = 0, k = 0, d = 0, m = 0;
  double p = 0;
  std::optional<double> g;
  std::optional<Time> time;
  std::optional<Split> split;
  std::optional<Pipeline> pipeline;
  std::optional<Pays> pays;

  template <class V>
  void fields(V& v) {
    v("E", e, "number of experts", at_least(1));
    v("k", k, "number of experts that a token visits", at_least(1));
    v("D", d, "number of devices", at_least(1));
    v("m", m, "number of tokens in a pass on all devices", at_least(1));
    v("P", p, "[bytes] activations of these m tokens", positive());
    v("g", g, "number of devices that a token visits; auto: its expected value if all experts are equally likely",
      automatic, at_least(1));
    v("time", time, "section 4.2: time T_LLM of all layers");
    v("split", split, "section 4.3: tensors split by experts or by columns");
    v("pipeline", pipeline, "section 5.2: the best number of groups N");
    v("pays", pays, "section 5.2: numbers of tokens for which groups are worthwhile");
  }

  double devices() const { return g ? *g : expected_devices(k, e, d); }
};

void check_overhead(const OverheadKeys& in, Problems& problems) {
  if (!problems.good({"pipeline.R"})) return;
  if (in.measured && in.measured->is_constant())
    problems.add("pipeline.R.measured", "must be at least two points, [[N, s], ...]");
  else if (in.measured && !(fit_alpha_beta(in.measured->points).line.beta > 0))
    problems.add("pipeline.R.measured",
                 base::cat("must rise, but changes by ", fit_alpha_beta(in.measured->points).line.beta,
                           " s per group; without an overhead per group, more groups would always be better"));
  if (in.measured) refuse_written(problems, {"pipeline.R.k", "pipeline.R.b"}, "has no effect if measured is given");
  if (!in.measured && !in.k) problems.add("pipeline.R.k", "must be given together with b, unless measured is given");
  if (!in.measured && !in.b) problems.add("pipeline.R.b", "must be given together with k, unless measured is given");
}

void check(const Input& in, Problems& problems) {
  if (problems.good({"E", "D"}) && in.e % in.d != 0)
    problems.add("E", base::cat("must be divisible by D (", in.d, "); nearest: ", nearest_multiples(in.e, in.d)));
  if (problems.good({"E", "k"}) && in.k > in.e) problems.add("k", base::cat("must be at most E (", in.e, ")"));
  if (in.g && problems.good({"g", "D", "k"}) && *in.g > static_cast<double>(std::min(in.d, in.k)))
    problems.add("g", base::cat("must be at most min(k, D) (", std::min(in.d, in.k), ")"));
  if (in.split && problems.good({"split.N", "E"}) && in.e % in.split->n != 0)
    problems.add("split.N", base::cat("must divide E (", in.e, ")"));
  if (in.split) check_sizes(problems, "split.R", in.split->r);
  if (in.pipeline) check_overhead(in.pipeline->overhead, problems);
  if (!in.pays) return;
  check_sizes(problems, "pays.S", in.pays->s);
  check_sizes(problems, "pays.G", in.pays->g);
  check_sizes(problems, "pays.G_N", in.pays->g_n);
}

Json volumes(const Input& in) {
  const auto D = static_cast<double>(in.d), k = static_cast<double>(in.k), g = in.devices();
  Json out;
  for (const Mode mode : all_modes) {
    Json& row = out[std::string(name_of(mode))] = {{"dispatch_bytes", volume(mode, in.p, D, g)},
                                                   {"combine_bytes", volume(mode, in.p, D, g)}};
    if (mode == Mode::tp_tp) continue;
    row["combine_without_local_reduce_bytes"] = combine_volume_without_reduce(mode, in.p, D, k);
    row["least_bytes"] = volume(mode, in.p, D, 1);
    row["most_bytes"] = volume(mode, in.p, D, std::min(k, D));
  }
  return out;
}

Json times(const Input& in) {
  const Time& t = *in.time;
  const auto D = static_cast<double>(in.d);
  const Machine machine{t.fp, t.bw, t.nw, t.v_o};
  Json out;
  for (const Mode mode : all_modes) {
    const double attention_bytes = attention_io(mode, t.attention, t.m_kv, D);
    const double moe_bytes = moe_io(mode, t.moe, static_cast<double>(in.k), D);
    const double attention = block_seconds(t.attention.flops, attention_bytes, D, machine);
    const double moe = block_seconds(t.moe.flops, moe_bytes, D, machine);
    const double stage = comm_seconds(volume(mode, in.p, D, in.devices()), machine);
    out[std::string(name_of(mode))] = {
        {"W_Attn_bytes", attention_bytes},
        {"W_MoE_bytes", moe_bytes},
        {"T_Attn_seconds", attention},
        {"T_MoE_seconds", moe},
        {"T_Comm_seconds", 2 * stage},  // dispatch and combine
        {"T_LLM_seconds", (attention + moe + 2 * stage) * static_cast<double>(t.layers)}};
  }
  return out;
}

Json split(const Input& in) {
  const Split& s = *in.split;
  const auto E = static_cast<double>(in.e), N = static_cast<double>(s.n);
  const SplitIo io = split_io(static_cast<double>(in.m), s.p0, s.p1, E, s.w, N);
  return {{"by_experts", {{"V_bytes", io.by_experts}, {"T_seconds", split_seconds(E, s.c, speed(s.r, E / N))}}},
          {"by_columns", {{"V_bytes", io.by_columns}, {"T_seconds", split_seconds(E, s.c, speed(s.r, E))}}}};
}

Json pipeline(const Input& in) {
  const Pipeline& p = *in.pipeline;
  Json out;
  Overhead overhead;
  if (p.overhead.measured) {
    const Fit fit = fit_alpha_beta(p.overhead.measured->points);
    overhead = {fit.line.beta, fit.line.alpha};
    out["R_residual_seconds"] = fit.residuals;
    out["R_worst_relative_error"] = fit.worst_relative_error;
  } else {
    overhead = {*p.overhead.k, *p.overhead.b};
  }
  out["R_k_seconds"] = overhead.k;
  out["R_b_seconds"] = overhead.b;
  out["C_seconds"] = std::min(p.comm, p.comp);
  out["N_unrestricted"] = unrestricted_groups(p.comm, p.comp, overhead);
  out["largest_gain_seconds"] = largest_gain(p.comm, p.comp, overhead);
  const std::vector<Groups> tried = all_groups(p.comm, p.comp, p.experts.value_or(in.e / in.d), overhead);
  const double sequential = p.comm + p.comp;
  for (const Groups& g : tried)
    out["tried"].push_back({{"N", g.N}, {"gain_seconds", g.gain}, {"T_seconds", sequential - g.gain}});
  const Groups best = best_groups(tried);
  out["N"] = best.N;
  out["gain_seconds"] = best.gain;
  out["T_seconds"] = sequential - best.gain;
  out["comm_over_comp"] = p.comm / p.comp;
  return out;
}

Json pays(const Pays& p) {
  Json out;
  for (const int64_t m : p.m) {
    const Extra found = extra(static_cast<double>(m), static_cast<double>(p.n), p.s, p.g_n, p.g);
    out.push_back({{"m", m}, {"e0", found.e0}, {"e1", found.e1}, {"pays", eps::pays(found, p.e0, p.e1)}});
  }
  return out;
}

Json report(const Input& in) {
  const auto E = static_cast<double>(in.e), k = static_cast<double>(in.k), m = static_cast<double>(in.m);
  Json out{{"paper", "EPS-MoE"},
           {"expected_activated_experts", expected_activated_experts(k, E, m)},
           {"g", in.devices()},
           {"tokens_of_an_expert", m * k / E},
           {"product", name_of(product(m * k / E))},
           {"V", volumes(in)}};
  if (in.time) out["time"] = times(in);
  if (in.split) out["split"] = split(in);
  if (in.pipeline) out["pipeline"] = pipeline(in);
  if (in.pays) out["pays"] = pays(*in.pays);
  return out;
}

}  // namespace
}  // namespace hexad::plan::eps

namespace hexad::plan {

Paper eps_paper() {
  return {"eps", "EPS-MoE: experts processed in groups", evaluate<eps::Input>, list_keys<eps::Input>};
}

}  // namespace hexad::plan
