// MoNTA (Guo et al. 2024): closed forms of an all-to-all under tensor parallelism, and of memory. Volumes are bytes.
//
// Corrections where the paper contradicts itself:
//   equation 3       leaves out the top-k: its own Table 8 needs b k = 2 for 256 M
//   Algorithms 1, 2  line 19 is T_min = T, and the N of the least T is returned with it, not the last N
//   Algorithm 2      a chunk's copy may be the longest of the three: T = AA + AG + D2D + (N - 1) max(AA, AG, D2D)
//   equations 14-16  do not follow from Table 8, whose latencies these functions give
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tools/plan/measured_curve.h"
#include "tools/plan/parameter_memory.h"

namespace hexad::plan::monta {

/// Equation 3: bytes of one all-to-all of a rank with b sequences of s tokens, each sent to k experts.
double all_to_all_volume(double b, double s, double h, double k, double bytes_per_element);

/// Two levels of a network: experts' ranks (e) between nodes, tensor ranks (t) inside.
struct Network {
  double t = 1, e = 2;
  Link all_to_all;  // B1, r1: over the bytes that one rank brings
  Link all_gather;  // B2, r2: over the gathered bytes
  Link copy;        // B3, r3: over the copied bytes
};

/// `volume`: the bytes at which the efficiency is looked up.
struct Transfer {
  double volume, efficiency, seconds;
};

/// T_base: every tensor rank sends all the tokens, I (e - 1)/e bytes, though its peers hold the same.
Transfer baseline(double volume, const Network& network);

/// AA_j, AG_j and D2D_j of one of N equal chunks, equations 8 to 10. N = 1: O1's parts.
struct Chunk {
  Transfer all_to_all, all_gather, copy;
};
Chunk chunk(double volume, const Network& network, int64_t chunks);

enum class Strategy { o1, o2, o3 };
constexpr std::string_view name_of(Strategy s) { return s == Strategy::o1 ? "O1" : s == Strategy::o2 ? "O2" : "O3"; }

/// Seconds of a strategy with `chunks` chunks that take as long as `one` each:
///   O1  equation 11: drop, all-to-all, all-gather one after the other; one chunk
///   O2  Algorithm 1: the all-to-all of a chunk beside all-gather and copy of the one before
///   O3  Algorithm 2: all three at once, each of another chunk
double seconds(Strategy strategy, const Chunk& one, int64_t chunks);

/// The chunk counts that Algorithms 1 and 2 try: 1 to the largest N whose I/(N t) is at least `smallest_volume`
/// (I_minimal); none when even one chunk is below it.
int64_t most_chunks(double volume, const Network& network, double smallest_volume);

struct Pipelined {
  int64_t chunks;  // N
  double seconds;  // T
};
/// T of each N from 1 to `most`, and the least of them (the smaller N of equal ones).
std::vector<Pipelined> all_pipelined(Strategy strategy, double volume, const Network& network, int64_t most);
std::optional<Pipelined> best_pipelined(const std::vector<Pipelined>& tried);

/// Algorithm 3. A strategy without a legal chunk count is not in the running; of equal ones the simpler.
struct Choice {
  Strategy strategy;
  double seconds;
};
Choice choose(double o1, std::optional<Pipelined> o2, std::optional<Pipelined> o3);

/// T over T_base when all efficiencies are alike, with ever more chunks for O2 and O3 (equation 13 is o3: 7/32).
struct Limits {
  double o1, o2, o3;
};
Limits limits(const Network& network);

/// Figure 13: what a network card carries when `cards` GPUs, `per_node` on a node, exchange `volume` bytes each.
double effective_bandwidth(double volume, double cards, double per_node, double seconds);

/// A training step whose `count` all-to-alls take another time each.
struct Step {
  double seconds;        // before
  double count;          // all-to-alls one after the other in a step
  double tokens, flops;  // of the step, all GPUs
  double peak_flops;     // FLOP/s, all GPUs
};
struct StepEstimate {
  double seconds, all_to_all_share, tokens_per_second, mfu;
};
StepEstimate estimate(const Step& step, double before, double after);

/// Table 3's bytes a parameter, 16, with bf16 gradients. This project's are f32 unless told otherwise, which makes
/// it 18.
inline constexpr ParameterBytes bf16_gradients{.weights = 2, .gradients = 2, .optimizer = 12};
inline constexpr ParameterBytes f32_gradients{.weights = 2, .gradients = 4, .optimizer = 12};

struct Shards {
  double p = 1, t = 1, e = 1;   // pipeline, tensor, expert
  double d = 1, d_experts = 1;  // replicas outside and in experts: the paper has one d for both
};
struct StateBytes {
  double non_moe, moe;  // psi_1, psi_2
};
/// Table 3: `p1` parameters outside experts, `p2` in them; `zero`: 0 to 3.
StateBytes state_bytes(double p1, double p2, const Shards& shards, int64_t zero,
                       const ParameterBytes& each = bf16_gradients);

/// Table 4: activation bytes of a rank, by configuration.
struct Activations {
  double b = 1, s = 1, h = 1, l = 1;  // sequences, tokens each, width, layers
  double a = 0;                       // heads; 0 leaves the scores out, as blockwise attention does
  double k = 1, t = 1, e = 1;
};
struct ActivationBytes {
  double none;  // no parallelism (equation 2)
  double pp_tp_ep;
  double with_sp;          // and sequence parallelism
  double selective, full;  // with_sp and recomputation
};
/// Formulas as printed.
ActivationBytes activation_bytes(const Activations& model);
/// Corrected: each rank of an expert group brings tokens of its own, so a rank keeps k times `load` (max over mean)
/// assignments, not k/e; and sequence parallelism divides the scores by t, too, as in Megatron's derivation.
ActivationBytes corrected_activation_bytes(const Activations& model, double load);

}  // namespace hexad::plan::monta
