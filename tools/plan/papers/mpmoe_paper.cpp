// `hexad simulate --paper mpmoe`: keys of the input, and the results of the formulas for the input.
#include <optional>

#include "tools/plan/papers/input.h"
#include "tools/plan/papers/mpmoe.h"
#include "tools/plan/papers/paper.h"

namespace hexad::plan::mpmoe {
namespace {

using namespace config;

struct Alpha : Slowdowns {
  template <class V>
  void fields(V& v) {
    const auto share = [&](std::string_view key, double& value, std::string_view doc) {
      v(key, value, doc, positive(), at_most(1));
    };
    share("comm_comp", comm_comp, "alpha(comm, comp)");
    share("comm_mem", comm_mem, "alpha(comm, mem)");
    share("comm_all", comm_all, "alpha(comm, all)");
    share("comp_comm", comp_comm, "alpha(comp, comm)");
    share("comp_mem", comp_mem, "alpha(comp, mem)");
    share("comp_all", comp_all, "alpha(comp, all)");
    share("mem_comm", mem_comm, "alpha(mem, comm)");
    share("mem_comp", mem_comp, "alpha(mem, comp)");
    share("mem_all", mem_all, "alpha(mem, all)");
  }
};

struct Input {
  int64_t m = 0, h = 0, b = 0, e = 0, k = 1;
  double bytes = 2;
  std::vector<int64_t> n{1, 2, 4, 8};
  std::optional<Curve> comm, comp, mem;
  Alpha alpha;

  template <class V>
  void fields(V& v) {
    v("M", m, "model dimension", at_least(1));
    v("H", h, "hidden dimension of an expert", at_least(1));
    v("B", b, "[tokens] batch of a rank", at_least(1));
    v("E", e, "number of experts of the gate", at_least(1));
    v("k", k, "number of experts that a token visits", at_least(1));
    v("BPE", bytes, "[bytes] size of an element", positive());
    v("n", n, "numbers of micro-batches to compare", non_empty(), at_least(1), at_most(4096));
    v("W_comm", comm,
      "[bytes/s] speed of an all-to-all that runs alone: a number, or [[bytes, bytes/s], ...]; none: memory only",
      positive());
    v("W_comp", comp,
      "[FLOP/s] speed of products that run alone: a number, or [[FLOP, FLOP/s], ...]; none: memory only", positive());
    v("W_mem", mem,
      "[bytes/s] speed of copies to or from the host that run alone: a number, or [[bytes, bytes/s], ...]; none: "
      "memory only",
      positive());
    v("alpha", alpha, "alpha(y, x): speed of y while x runs, relative to the speed of y alone");
  }

  Layer layer() const {
    return {static_cast<double>(m), static_cast<double>(h), static_cast<double>(b), static_cast<double>(e),
            static_cast<double>(k)};
  }
};

void check(const Input& in, Problems& problems) {
  const bool some = in.comm || in.comp || in.mem, all = in.comm && in.comp && in.mem;
  if (some && !all && problems.good({"W_comm", "W_comp", "W_mem"}))
    problems.add(!in.comm ? "W_comm" : !in.comp ? "W_comp" : "W_mem", "must be given if another speed, W_*, is given");
  if (in.comm) check_sizes(problems, "W_comm", *in.comm);
  if (in.comp) check_sizes(problems, "W_comp", *in.comp);
  if (in.mem) check_sizes(problems, "W_mem", *in.mem);
  if (!some && problems.good({"W_comm", "W_comp", "W_mem"}))
    refuse_written(problems,
                   {"alpha.comm_mem", "alpha.comm_all", "alpha.comp_mem", "alpha.comp_all", "alpha.mem_comm",
                    "alpha.mem_comp", "alpha.mem_all"},
                   "has no effect unless the speeds, W_*, are given");
  if (problems.good({"k", "E"}) && in.k > in.e) problems.add("k", base::cat("must be at most E (", in.e, ")"));
  if (problems.good({"n", "B"}))
    for (size_t i = 0; i < in.n.size(); ++i)
      if (in.n[i] > in.b)
        problems.add(base::cat("n.", i), base::cat("must be at most B (", in.b, "), the number of tokens"));
}

Json elements_and_bytes(double elements, double bytes) { return {{"elements", elements}, {"bytes", elements * bytes}}; }

Json memory(const Input& in) {
  const Layer layer = in.layer();
  const auto both = [&](double elements) { return elements_and_bytes(elements, in.bytes); };
  Json out{{"M_ms", both(model_states(layer))},
           {"M_act", both(activations(layer))},
           {"M_buf_sequential", both(sequential_buffers(layer))},
           {"M_buf_pipe", both(pipeline_buffers(layer))},
           {"outputs_by_slot_for_the_router", both(outputs_by_slot(layer))}};
  for (const int64_t n : in.n)
    out["by_n"].push_back({{"n", n},
                           {"delta_M_act", both(saved(layer, n))},
                           {"delta_M_buf", both(saved(layer, n))},
                           {"phi", saving_ratio(layer, n)},
                           {"buffers_left", both(shared_buffers(layer, n))}});
  return out;
}

Json json(const Phases& p) {
  return {{"P0_seconds", p.p0}, {"P1_seconds", p.p1}, {"P2_seconds", p.p2},
          {"P3_seconds", p.p3}, {"P4_seconds", p.p4}, {"seconds", p.seconds()}};
}

Json restoring(const Layer& layer, double bytes) {
  Json out;
  for (const Reuse reuse : all_strategies) {
    const ReuseCost cost = reuse_cost(layer, reuse);
    out[std::string(name_of(reuse))] = {{"copied_each_way_bytes", cost.copied * bytes},
                                        {"sent_again_bytes", cost.communicated * bytes},
                                        {"recomputed_flop", cost.recomputed}};
  }
  return out;
}

struct Best {
  int64_t n;
  Reuse reuse;
  double seconds;
};

Json json(const Best& best) { return {{"n", best.n}, {"S", name_of(best.reuse)}, {"seconds", best.seconds}}; }

void add_time(Json& out, const Input& in) {
  const Machine machine{*in.comm, *in.comp, *in.mem, in.bytes, in.alpha};
  const Layer layer = in.layer();
  const Ideal bound = ideal(layer, machine);
  const double sequential = predict(layer, machine, Reuse::none, 1).seconds();
  out["ideal"] = {{"comm_seconds", bound.comm},
                  {"comp_seconds", bound.comp},
                  {"seconds", bound.seconds()},
                  {"largest_speedup", bound.largest_speedup()}};
  out["sequential_seconds"] = sequential;
  std::optional<Best> plain, reusing;
  for (const int64_t n : in.n)
    for (const Reuse reuse : all_strategies) {
      const Prediction p = predict(layer, machine, reuse, n);
      out["configurations"].push_back({{"n", n},
                                       {"S", name_of(reuse)},
                                       {"forward", json(p.forward)},
                                       {"backward", json(p.backward)},
                                       {"seconds", p.seconds()},
                                       {"speedup_over_sequential", sequential / p.seconds()},
                                       {"share_of_ideal", bound.seconds() / p.seconds()}});
      auto& best = reuse == Reuse::none ? plain : reusing;
      if (!best || p.seconds() < best->seconds) best = {n, reuse, p.seconds()};
    }
  out["best_without_memory_reuse"] = json(*plain);
  out["best_with_memory_reuse"] = json(*reusing);
}

Json report(const Input& in) {
  Json out{{"paper", "MPMoE"}, {"memory", memory(in)}, {"restoring", restoring(in.layer(), in.bytes)}};
  out["overlap_pays"] = overlap_pays(in.alpha);
  if (in.comm) add_time(out, in);
  return out;
}

}  // namespace
}  // namespace hexad::plan::mpmoe

namespace hexad::plan {

Paper mpmoe_paper() {
  return {"mpmoe", "MPMoE: micro-batches, shared buffers, and restoring of activations", evaluate<mpmoe::Input>,
          list_keys<mpmoe::Input>};
}

}  // namespace hexad::plan
