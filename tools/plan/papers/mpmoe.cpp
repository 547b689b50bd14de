#include "tools/plan/papers/mpmoe.h"

#include <algorithm>

#include "framework/base/error.h"

namespace hexad::plan::mpmoe {
namespace {

bool offloads_input(Reuse r) { return r == Reuse::s1 || r == Reuse::s3; }
bool offloads_activations(Reuse r) { return r == Reuse::s1 || r == Reuse::s2; }
bool sends_again(Reuse r) { return r == Reuse::s2 || r == Reuse::s4; }
bool recomputes(Reuse r) { return r == Reuse::s3 || r == Reuse::s4; }

double parts(int64_t n) {
  base::require(n >= 1, "[mpmoe] the number of micro-batches is ", n, ", expected at least 1");
  return static_cast<double>(n);
}

/// Returns the FLOPs of both products in forward, for all k * B pairs of a token and an expert.
double forward_flops(const Layer& l) { return 4 * l.k * l.B * l.M * l.H; }

double time(const config::Curve& speeds, double volume) { return volume == 0 ? 0 : volume / speed(speeds, volume); }

double all_to_all_bytes(const Layer& l, const Machine& m) { return l.k * l.B * l.M * m.bytes_per_element; }

/// Returns the operations of a pass with products of `flops` FLOPs: two all-to-alls, the products, and the copies.
Operations operations(const Layer& l, const Machine& m, Reuse reuse, double n, double flops) {
  const double exchange = time(m.W_comm, all_to_all_bytes(l, m) / n);
  return {.S = exchange,
          .C = time(m.W_comp, flops / n),
          .R = exchange,
          .M = time(m.W_mem, reuse_cost(l, reuse).copied * m.bytes_per_element / n)};
}

}  // namespace

double model_states(const Layer& l) { return 4 * (l.E * l.M + 2 * l.H * l.M); }
double activations(const Layer& l) { return 2 * l.B * l.M + l.k * (2 * l.B * l.M + l.B * l.H); }
double sequential_buffers(const Layer& l) { return l.k * (l.B * l.M + l.B * l.H); }
double pipeline_buffers(const Layer& l) { return activations(l); }

double saved(const Layer& l, int64_t n) {
  const double p = parts(n);
  return n == 1 ? 0 : l.k * l.B * (2 * l.M * (p - 2) / p + l.H * (p - 1) / p);
}

double saving_ratio(const Layer& l, int64_t n) {
  return 2 * saved(l, n) / (model_states(l) + activations(l) + pipeline_buffers(l));
}

double shared_buffers(const Layer& l, int64_t n) { return activations(l) + pipeline_buffers(l) - 2 * saved(l, n); }

double outputs_by_slot(const Layer& l) { return l.k * l.B * l.M; }

bool overlap_pays(const Slowdowns& alpha) { return alpha.comm_comp > 0.5 && alpha.comp_comm > 0.5; }

double phase_seconds(const Work& w, const Slowdowns& a) {
  const bool comm = w.comm > 0, comp = w.comp > 0, mem = w.mem > 0;
  const auto alpha = [](bool first, bool second, double of_first, double of_second, double of_both) {
    return first && second ? of_both : first ? of_first : second ? of_second : 1.0;
  };
  return std::max({w.comm / alpha(comp, mem, a.comm_comp, a.comm_mem, a.comm_all),
                   w.comp / alpha(comm, mem, a.comp_comm, a.comp_mem, a.comp_all),
                   w.mem / alpha(comm, comp, a.mem_comm, a.mem_comp, a.mem_all)});
}

Phases phases(Paradigm paradigm, const Operations& o, int64_t n, const Slowdowns& alpha) {
  const auto phase = [&](double comm, double comp, double mem) { return phase_seconds({comm, comp, mem}, alpha); };
  const double before = paradigm == Paradigm::copies_before ? o.M : 0;
  const double after = paradigm == Paradigm::copies_after ? o.M : 0;
  base::require(paradigm != Paradigm::no_copies || o.M == 0,
                "[mpmoe] paradigm 1 has no copies, but M, the seconds of all copies, is ", o.M, ", expected 0");
  if (parts(n) == 1) return {phase(o.S, 0, before), phase(0, o.C, 0), 0, 0, phase(o.R, 0, after)};
  return {.p0 = phase(o.S, 0, before),
          .p1 = phase(o.S, o.C, before),
          .p2 = (parts(n) - 2) * phase(o.R + o.S, o.C, o.M),
          .p3 = phase(o.R, o.C, after),
          .p4 = phase(o.R, 0, after)};
}

ReuseCost reuse_cost(const Layer& l, Reuse reuse) {
  const double input = l.k * l.B * l.M, activations = l.k * l.B * l.H;
  return {.copied = (offloads_input(reuse) ? input : 0) + (offloads_activations(reuse) ? activations : 0),
          .communicated = sends_again(reuse) ? input : 0,
          .recomputed = recomputes(reuse) ? forward_flops(l) / 2 : 0};
}

Operations forward_operations(const Layer& l, const Machine& m, Reuse reuse, int64_t n) {
  return operations(l, m, reuse, parts(n), forward_flops(l));
}

Operations backward_operations(const Layer& l, const Machine& m, Reuse reuse, int64_t n) {
  const ReuseCost cost = reuse_cost(l, reuse);
  Operations o = operations(l, m, reuse, parts(n), 2 * forward_flops(l) + cost.recomputed);
  o.S += time(m.W_comm, cost.communicated * m.bytes_per_element / parts(n));
  return o;
}

Prediction predict(const Layer& l, const Machine& m, Reuse reuse, int64_t n) {
  const bool copies = reuse_cost(l, reuse).copied > 0;
  return {.forward = phases(copies ? Paradigm::copies_after : Paradigm::no_copies, forward_operations(l, m, reuse, n),
                            n, m.alpha),
          .backward = phases(copies ? Paradigm::copies_before : Paradigm::no_copies,
                             backward_operations(l, m, reuse, n), n, m.alpha)};
}

Ideal ideal(const Layer& l, const Machine& m) {
  const Operations forward = forward_operations(l, m, Reuse::none, 1);
  const Operations backward = backward_operations(l, m, Reuse::none, 1);
  return {.comm = forward.S + forward.R + backward.S + backward.R, .comp = forward.C + backward.C};
}

}  // namespace hexad::plan::mpmoe
