#include "tools/plan/papers/eps.h"

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"

namespace hexad::plan::eps {
namespace {

/// Returns the volume of a stage's all-to-all if every token is sent to `copies` devices.
double all_to_all(double P, double D, double copies) { return copies * P * (D - 1) / (D * D); }

/// Returns the volume in addition to the all-to-all: half of an all-reduce around attention under TP+EP, otherwise 0.
double gathered(Mode mode, double P, double D) { return mode == Mode::tp_ep ? P * (D - 1) / D : 0; }

}  // namespace

double expected_activated_experts(double k, double E, double m) { return (1 - std::pow(1 - k / E, m)) * E; }

double expected_devices(int64_t k, int64_t E, int64_t D) {
  base::require(D >= 1 && E % D == 0 && 1 <= k && k <= E, "[eps] k = ", k, ", E = ", E, ", D = ", D,
                "; expected D of at least 1 that divides E, and k from 1 to E");
  // Probability that no expert of a token is on a given device: C(E - E/D, k) / C(E, k).
  double missed = 1;
  for (int64_t i = 0; i < k; ++i)
    missed *= static_cast<double>(std::max<int64_t>(E - E / D - i, 0)) / static_cast<double>(E - i);
  return static_cast<double>(D) * (1 - missed);
}

double volume(Mode mode, double P, double D, double g) {
  base::require(1 <= g && g <= D, "[eps] a token visits ", g, " of ", D, " devices; expected 1 to ", D);
  if (mode == Mode::tp_tp) return 2 * P * (D - 1) / D;
  return gathered(mode, P, D) + all_to_all(P, D, g);
}

double combine_volume_without_reduce(Mode mode, double P, double D, double k) {
  base::require(mode != Mode::tp_tp,
                "[eps] TP+TP combines by an all-reduce, not by an all-to-all; expected a mode with an all-to-all");
  return gathered(mode, P, D) + all_to_all(P, D, k);
}

double attention_io(Mode mode, const Block& b, double M_KVCache, double D) {
  if (mode == Mode::dp_ep) return (b.M_in + b.M_out + M_KVCache) / D + b.M_weight;
  return b.M_in + b.M_out + (M_KVCache + b.M_weight) / D;
}

double moe_io(Mode mode, const Block& b, double k, double D) {
  const double activations = (b.M_in + b.M_out) * k;
  return (mode == Mode::tp_tp ? activations : activations / D) + b.M_weight / D;
}

double block_seconds(double flops, double io, double D, const Machine& m) {
  return std::max(flops / (D * m.FP), io / m.BW);
}

double comm_seconds(double volume, const Machine& m) { return std::max(volume / m.NW, m.V_O); }

SplitIo split_io(double m, double P0, double P1, double E, double W, double N) {
  return {.by_experts = m * P0 + E * W + m * P1, .by_columns = m * P0 + E * W + N * m * P1};
}

double split_seconds(double E, double C, double rate) { return E * C / rate; }

Product product(double rows, double grouped_below, double dense_from) {
  return rows < grouped_below ? Product::grouped : rows < dense_from ? Product::either : Product::dense;
}

double gain(double T_comm, double T_comp, int64_t N, const Overhead& overhead) {
  base::require(N >= 1, "[eps] the number of groups is ", N, ", expected at least 1");
  const auto n = static_cast<double>(N);
  return N == 1 ? 0 : std::min(T_comm, T_comp) * (n - 1) / n - overhead(n);
}

double largest_gain(double T_comm, double T_comp, const Overhead& o) {
  const double C = std::min(T_comm, T_comp);
  return C - o.b - 2 * std::sqrt(o.k * C);
}

double unrestricted_groups(double T_comm, double T_comp, const Overhead& o) {
  base::require(o.k > 0, "[eps] the overhead per group is ", o.k,
                ", expected above 0, because otherwise the gain has no maximum");
  return std::sqrt(std::min(T_comm, T_comp) / o.k);
}

std::vector<Groups> all_groups(double T_comm, double T_comp, int64_t local_experts, const Overhead& overhead) {
  std::vector<Groups> tried;
  for (int64_t N = 1; N <= local_experts; ++N)
    if (local_experts % N == 0) tried.push_back({N, gain(T_comm, T_comp, N, overhead)});
  return tried;
}

Groups best_groups(const std::vector<Groups>& tried) {
  base::require(!tried.empty(), "[eps] the list of numbers of groups is empty; expected at least one number");
  return *std::ranges::max_element(tried, {}, &Groups::gain);
}

Extra extra(double m, double N, const config::Curve& S, const config::Curve& G_cut, const config::Curve& G_whole) {
  return {.e0 = N * seconds(S, m / N) / seconds(S, m) - 1, .e1 = N * seconds(G_cut, m / N) / seconds(G_whole, m) - 1};
}

bool pays(const Extra& found, double e0, double e1) { return found.e0 <= e0 && found.e1 <= e1; }

}  // namespace hexad::plan::eps
