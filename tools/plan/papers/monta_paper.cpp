// `hexad simulate --paper monta`: keys of the input, and the results of the formulas for the input.
#include <cmath>
#include <optional>

#include "tools/plan/papers/input.h"
#include "tools/plan/papers/monta.h"
#include "tools/plan/papers/paper.h"

namespace hexad::plan::monta {
namespace {

using namespace config;

/// Largest number of chunks of an input. The output lists every number of chunks that was tried.
constexpr int64_t max_listed_chunks = 1024;

struct Memory {
  double p1 = 0, p2 = -1;
  int64_t p = 1, d = 1, d_experts = 1, l = 0, a = 0;
  double load = 1;

  template <class V>
  void fields(V& v) {
    v("P1", p1, "number of parameters outside experts", positive());
    v("P2", p2, "number of parameters in experts", at_least(0));
    v("p", p, "degree of pipeline parallelism", at_least(1));
    v("d", d, "number of replicas of parameters outside experts", at_least(1));
    v("d_experts", d_experts, "number of replicas of experts (Table 3 writes d for these replicas, too)", at_least(1));
    v("l", l, "number of transformer layers", at_least(1));
    v("a", a, "number of attention heads; 0: blockwise attention, which keeps no scores", at_least(0));
    v("load", load, "ratio of the busiest rank's assignments to the mean, for the corrected Table 4", at_least(1));
  }
};

struct StepKeys {
  double seconds = 0, count = 0, tokens = 0, flops = 0, peak = 0;

  template <class V>
  void fields(V& v) {
    v("T_step", seconds, "[s] duration of a step with the baseline's all-to-alls", positive());
    v("n_A2A", count, "number of all-to-alls in a step, executed one after the other (4 per MoE layer and micro-batch)",
      positive());
    v("tokens", tokens, "tokens in a step on all GPUs", positive());
    v("F", flops, "[FLOP] work of the model in a step on all GPUs", positive());
    v("FP", peak, "[FLOP/s] peak rate of all GPUs together", positive());
  }
};

struct Input {
  std::optional<double> volume;
  std::optional<int64_t> b, s, h;
  int64_t k = 1;
  double bytes = 2;
  int64_t t = 0, e = 0;
  double b1 = 0, b2 = 0, b3 = 0;
  Curve r1, r2, r3;
  std::optional<Curve> r2_o3, r3_o3;
  std::optional<double> smallest;
  std::optional<int64_t> chunks;
  std::optional<Memory> memory;
  std::optional<StepKeys> step;

  template <class V>
  void fields(V& v) {
    v("I", volume, "[bytes] sent by a rank in one all-to-all; none: the product of b, s, h, k and BPE (equation 3)",
      positive());
    v("b", b, "number of sequences in a micro-batch", at_least(1));
    v("s", s, "[tokens] sequence length", at_least(1));
    v("h", h, "hidden size", at_least(1));
    v("k", k, "number of experts that a token visits", at_least(1));
    v("BPE", bytes, "[bytes] size of an element", positive());
    v("t", t, "degree of tensor parallelism, inside a node", at_least(1));
    v("e", e, "degree of expert parallelism, between nodes", at_least(2));
    v("B1", b1, "[bytes/s] bandwidth of the all-to-all", positive());
    v("r1", r1,
      "share of B1 that is reached: a number, or [[bytes, share], ...], read at I/(N t) bytes (baseline: at I bytes)",
      positive(), at_most(1));
    v("B2", b2, "[bytes/s] bandwidth of the all-gather", positive());
    v("r2", r2, "share of B2 that is reached: a number, or [[bytes, share], ...], read at I/N bytes", positive(),
      at_most(1));
    v("B3", b3, "[bytes/s] bandwidth of device memory, for copies on the device (D2D)", positive());
    v("r3", r3, "share of B3 that is reached: a number, or [[bytes, share], ...], read at I/N bytes", positive(),
      at_most(1));
    v("r2_O3", r2_o3, "r2 while copies run at the same time as the all-gather (O3); none: r2", positive(), at_most(1));
    v("r3_O3", r3_o3, "r3 while an all-gather runs at the same time as the copies (O3); none: r3", positive(),
      at_most(1));
    v("I_minimal", smallest, "[bytes] size of the smallest chunk (I/(N t)) to try; limits the search for N",
      positive());
    v("N", chunks, "number of chunks of O2 and O3; replaces the search", at_least(1), at_most(max_listed_chunks));
    v("memory", memory, "memory of a rank by Tables 3 and 4; needs b, s, h");
    v("step", step, "the training step that contains the all-to-alls");
  }

  double I() const {
    if (volume) return *volume;
    return all_to_all_volume(static_cast<double>(*b), static_cast<double>(*s), static_cast<double>(*h),
                             static_cast<double>(k), bytes);
  }
  Network network() const { return {static_cast<double>(t), static_cast<double>(e), {b1, r1}, {b2, r2}, {b3, r3}}; }
  Network network_of_o3() const {
    Network n = network();
    if (r2_o3) n.all_gather.efficiency = *r2_o3;
    if (r3_o3) n.copy.efficiency = *r3_o3;
    return n;
  }
};

void check(const Input& in, Problems& problems) {
  const bool sizes = in.b && in.s && in.h;
  if (!in.volume && !sizes && problems.good({"I", "b", "s", "h"}))
    problems.add("I", "must be given, unless b, s and h are given: I is then the product of b, s, h, k and BPE");
  if (in.volume && in.memory && !sizes && problems.good({"b", "s", "h"}))
    problems.add("memory", "needs b, s and h; set them, or remove memory");
  if (in.volume) refuse_written(problems, {"BPE"}, "has no effect if I is given");
  if (in.volume && !in.memory)
    refuse_written(problems, {"b", "s", "h", "k"}, "has no effect if I is given and memory is not");
  if (in.chunks && in.smallest)
    problems.add("I_minimal", "has no effect if N, the number of chunks, is given; remove this key");
  if (!in.chunks && !in.smallest && problems.good({"I_minimal", "N"}))
    problems.add("I_minimal", "must be given, unless N, the number of chunks, is given");
  check_sizes(problems, "r1", in.r1);
  check_sizes(problems, "r2", in.r2);
  check_sizes(problems, "r3", in.r3);
  if (in.r2_o3) check_sizes(problems, "r2_O3", *in.r2_o3);
  if (in.r3_o3) check_sizes(problems, "r3_O3", *in.r3_o3);
  if (problems.any()) return;
  if (in.smallest && in.I() / static_cast<double>(in.t) / *in.smallest > max_listed_chunks)
    problems.add(
        "I_minimal",
        base::cat("allows more than ", max_listed_chunks, " chunks of I/t; expected at least ",
                  static_cast<int64_t>(std::ceil(in.I() / static_cast<double>(in.t * max_listed_chunks))), " bytes"));
  if (in.step && in.step->count * baseline(in.I(), in.network()).seconds >= in.step->seconds)
    problems.add("step.n_A2A", base::cat("all-to-alls of ", baseline(in.I(), in.network()).seconds, " s each take ",
                                         in.step->count * baseline(in.I(), in.network()).seconds,
                                         " s in total; expected less than step.T_step, ", in.step->seconds, " s"));
}

Json json(const Transfer& t) {
  return {{"volume_bytes", t.volume}, {"efficiency", t.efficiency}, {"seconds", t.seconds}};
}

Json json(const Chunk& c) {
  return {{"AA_j", json(c.all_to_all)}, {"AG_j", json(c.all_gather)}, {"D2D_j", json(c.copy)}};
}

/// Adds the results that every strategy has: its time, the ratio of its time to the baseline's, and the effective
/// bandwidth of a card.
void add_seconds(Json& out, const Input& in, double seconds, double base) {
  const auto t = static_cast<double>(in.t), e = static_cast<double>(in.e);
  out["T_seconds"] = seconds;
  out["over_baseline"] = seconds / base;
  out["effective_bandwidth_bytes_per_second"] = effective_bandwidth(in.I(), t * e, t, seconds);
}

struct Searched {
  Json json;
  std::optional<Pipelined> best;
};

Searched search(Strategy strategy, const Input& in, const Network& network, double base) {
  std::vector<Pipelined> tried;
  if (in.chunks)
    tried.push_back({*in.chunks, seconds(strategy, chunk(in.I(), network, *in.chunks), *in.chunks)});
  else
    tried = all_pipelined(strategy, in.I(), network, max_chunks(in.I(), network, *in.smallest));
  Searched out{.json = Json::object(), .best = best_pipelined(tried)};
  if (!out.best) {
    out.json["not_possible"] = "I/t is below I_minimal, so even one chunk is too small";
    return out;
  }
  out.json["N"] = out.best->chunks;
  out.json.update(json(chunk(in.I(), network, out.best->chunks)));
  add_seconds(out.json, in, out.best->seconds, base);
  for (const Pipelined& p : tried) out.json["tried"].push_back({{"N", p.chunks}, {"T_seconds", p.seconds}});
  return out;
}

Json json(const ActivationBytes& a) {
  return {{"none_bytes", a.none},
          {"pp_tp_ep_bytes", a.pp_tp_ep},
          {"pp_tp_ep_sp_bytes", a.with_sp},
          {"pp_tp_ep_sp_selective_recompute_bytes", a.selective},
          {"pp_tp_ep_sp_full_recompute_bytes", a.full}};
}

Json states(const Input& in, const ParameterBytes& each) {
  const Memory& m = *in.memory;
  const Shards shards{static_cast<double>(m.p), static_cast<double>(in.t), static_cast<double>(in.e),
                      static_cast<double>(m.d), static_cast<double>(m.d_experts)};
  Json out;
  for (int64_t zero = 0; zero <= 3; ++zero) {
    const StateBytes bytes = state_bytes(m.p1, m.p2, shards, zero, each);
    out.push_back({{"zero", zero}, {"psi_1_bytes", bytes.non_moe}, {"psi_2_bytes", bytes.moe}});
  }
  return out;
}

Json memory(const Input& in) {
  const Memory& m = *in.memory;
  const Activations model{.b = static_cast<double>(*in.b),
                          .s = static_cast<double>(*in.s),
                          .h = static_cast<double>(*in.h),
                          .l = static_cast<double>(m.l),
                          .a = static_cast<double>(m.a),
                          .k = static_cast<double>(in.k),
                          .t = static_cast<double>(in.t),
                          .e = static_cast<double>(in.e)};
  return {{"states_by_table_3", states(in, bf16_gradients)},
          {"states_with_f32_gradients", states(in, f32_gradients)},
          {"activations_by_table_4", json(activation_bytes(model))},
          {"activations_corrected", json(corrected_activation_bytes(model, m.load))}};
}

Json json(const StepEstimate& s) {
  return {{"seconds", s.seconds},
          {"all_to_all_share", s.all_to_all_share},
          {"tokens_per_second", s.tokens_per_second},
          {"mfu", s.mfu}};
}

Json step(const Input& in, double base, double chosen) {
  const StepKeys& k = *in.step;
  const Step keys{k.seconds, k.count, k.tokens, k.flops, k.peak};
  const StepEstimate before = estimate(keys, base, base), after = estimate(keys, base, chosen);
  return {
      {"baseline", json(before)}, {"strategy", json(after)}, {"latency_change", after.seconds / before.seconds - 1}};
}

Json report(const Input& in) {
  const Network network = in.network();
  const Transfer base = baseline(in.I(), network);
  const Chunk whole = chunk(in.I(), network, 1);
  Json out{{"paper", "MoNTA"}, {"I_bytes", in.I()}};
  out["baseline"] = {{"AA", json(base)}};
  add_seconds(out["baseline"], in, base.seconds, base.seconds);
  const double o1 = seconds(Strategy::o1, whole, 1);
  out["O1"] = {{"AA", json(whole.all_to_all)}, {"AG", json(whole.all_gather)}};
  add_seconds(out["O1"], in, o1, base.seconds);
  const Searched o2 = search(Strategy::o2, in, network, base.seconds);
  const Searched o3 = search(Strategy::o3, in, in.network_of_o3(), base.seconds);
  out["O2"] = o2.json;
  out["O3"] = o3.json;
  const Choice best = choose(o1, o2.best, o3.best);
  out["S"] = name_of(best.strategy);
  out["T_min_seconds"] = best.seconds;
  const Limits limit = limits(network);
  out["limits_with_equal_efficiencies"] = {
      {"O1_over_baseline", limit.o1}, {"O2_over_baseline", limit.o2}, {"O3_over_baseline", limit.o3}};
  if (o2.best) {
    const Chunk one = chunk(in.I(), network, o2.best->chunks);
    out["AA_j_over_AG_j"] = in.t > 1 ? Json(one.all_to_all.seconds / one.all_gather.seconds) : Json();
  }
  if (in.step) out["step"] = step(in, base.seconds, best.seconds);
  if (in.memory) out["memory"] = memory(in);
  return out;
}

}  // namespace
}  // namespace hexad::plan::monta

namespace hexad::plan {

Paper monta_paper() {
  return {"monta", "MoNTA: all-to-all under tensor parallelism, memory", evaluate<monta::Input>,
          list_keys<monta::Input>};
}

}  // namespace hexad::plan
