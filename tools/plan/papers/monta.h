// MoNTA (Guo et al. 2024): closed forms of an all-to-all under tensor parallelism, and of memory. Volumes are bytes.
//
// Corrections of contradictions in the paper:
//   equation 3       has the top-k factor k, because the volume of 256 M in Table 8 needs b * k = 2
//   Algorithms 1, 2  line 19 is T_min = T; the N of the least T is returned with T_min, not the last N
//   Algorithm 2      T is AA + AG + D2D + (N - 1) * max(AA, AG, D2D), because a chunk's copy may take longest
//   equations 14-16  contradict the latencies of Table 8, which replace these equations
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tools/plan/curves/measured_curve.h"
#include "tools/plan/papers/parameter_memory.h"

namespace hexad::plan::monta {

/// Returns the bytes of a rank's all-to-all (equation 3). The rank has b sequences of s tokens with h elements each,
/// and sends each token to k experts. The functions below take this result, the paper's I, as `volume`.
double all_to_all_volume(double b, double s, double h, double k, double bytes_per_element);

/// A network with two levels: e expert-parallel ranks, each on another node, and t tensor-parallel ranks inside a node.
struct Network {
  double t = 1, e = 2;
  Link all_to_all;  // B1; efficiency r1 as a function of the bytes of one rank's rows
  Link all_gather;  // B2; efficiency r2 as a function of the gathered bytes
  Link copy;        // B3; efficiency r3 as a function of the copied bytes
};

/// A transfer. `volume` is the number of bytes that determines the efficiency.
struct Transfer {
  double volume, efficiency, seconds;
};

/// Returns the transfer of the baseline, whose seconds are T_base. Every rank of a tensor-parallel group sends the same
/// tokens: I * (e - 1)/e bytes.
Transfer baseline(double volume, const Network& network);

/// AA_j, AG_j and D2D_j of one of N equal chunks, equations 8 to 10. With N = 1, O1 consists of AA and AG.
struct Chunk {
  Transfer all_to_all, all_gather, copy;
};
Chunk chunk(double volume, const Network& network, int64_t chunks);

enum class Strategy { o1, o2, o3 };
constexpr std::string_view name_of(Strategy s) { return s == Strategy::o1 ? "O1" : s == Strategy::o2 ? "O2" : "O3"; }

/// Returns the seconds of a strategy with `chunks` chunks. Each chunk takes the times in `one`:
///   O1  equation 11: drop, all-to-all, all-gather one after the other; one chunk
///   O2  Algorithm 1: the all-to-all of a chunk runs together with the all-gather and copy of the previous chunk
///   O3  Algorithm 2: all three at the same time, each of a different chunk
double seconds(Strategy strategy, const Chunk& one, int64_t chunks);

/// Returns the largest number of chunks that Algorithms 1 and 2 try: the largest N for which I/(N * t) is at least
/// `smallest_volume` (I_minimal). Returns 0 if even a single chunk is below I_minimal.
int64_t max_chunks(double volume, const Network& network, double smallest_volume);

struct Pipelined {
  int64_t chunks;  // number of chunks, N
  double seconds;  // time of all chunks, T
};
/// Returns T for each N from 1 to `most`. best_pipelined() returns the entry with the least T. Of several such entries,
/// it returns the entry with the smallest N. It returns nullopt if `tried` is empty.
std::vector<Pipelined> all_pipelined(Strategy strategy, double volume, const Network& network, int64_t most);
std::optional<Pipelined> best_pipelined(const std::vector<Pipelined>& tried);

/// Choice of Algorithm 3. The algorithm excludes strategies without a legal number of chunks. The algorithm chooses the
/// simpler of two strategies with equal times.
struct Choice {
  Strategy strategy;
  double seconds;
};
Choice choose(double o1, std::optional<Pipelined> o2, std::optional<Pipelined> o3);

/// T/T_base if all efficiencies are equal: the ratio of O1, and the limits of O2 and O3 for a growing number of chunks.
/// In the paper's example, equation 13, o3 is 7/32.
struct Limits {
  double o1, o2, o3;
};
Limits limits(const Network& network);

/// Returns the effective bandwidth of a network interface, in bytes/s (Figure 13). There are `cards` GPUs, `per_node`
/// on each node. Each GPU exchanges `volume` bytes in `seconds`.
double effective_bandwidth(double volume, double cards, double per_node, double seconds);

/// A training step, before estimate() changes the time of its all-to-alls.
struct Step {
  double seconds;        // duration of the step before the change
  double count;          // number of all-to-alls in a step, executed one after the other
  double tokens, flops;  // tokens and FLOPs of a step on all GPUs
  double peak_flops;     // FLOP/s of all GPUs
};
struct StepEstimate {
  double seconds, all_to_all_share, tokens_per_second, mfu;
};
/// Estimates the step if each all-to-all takes `after` instead of `before` seconds.
StepEstimate estimate(const Step& step, double before, double after);

/// Table 3's 16 bytes per parameter, with bf16 gradients. This project has f32 gradients by default, so the sum is 18
/// bytes.
inline constexpr ParameterBytes bf16_gradients{.weights = 2, .gradients = 2, .optimizer = 12};
inline constexpr ParameterBytes f32_gradients{.weights = 2, .gradients = 4, .optimizer = 12};

struct Shards {
  double p = 1, t = 1, e = 1;   // degrees of pipeline, tensor and expert parallelism
  double d = 1, d_experts = 1;  // replicas of parameters outside experts and of experts; the paper uses one d for both
};
struct StateBytes {
  double non_moe, moe;  // the paper's psi_1 and psi_2
};
/// Returns the bytes of a rank by Table 3 for `p1` parameters outside experts and `p2` parameters of experts. `zero` is
/// the ZeRO level, 0 to 3.
StateBytes state_bytes(double p1, double p2, const Shards& shards, int64_t zero,
                       const ParameterBytes& each = bf16_gradients);

/// Inputs of Table 4, which gives the activation bytes of a rank for several configurations.
struct Activations {
  double b = 1, s = 1, h = 1, l = 1;  // sequences, tokens per sequence, width, layers
  double a = 0;                       // heads; 0 omits the scores, as blockwise attention does
  double k = 1, t = 1, e = 1;         // experts per token, tensor-parallel ranks, expert-parallel ranks
};
struct ActivationBytes {
  double none;  // no parallelism (equation 2)
  double pp_tp_ep;
  double with_sp;          // pp_tp_ep with sequence parallelism
  double selective, full;  // with_sp with selective or full recomputation
};
/// Returns the values of the formulas of Table 4 as printed.
ActivationBytes activation_bytes(const Activations& model);
/// Returns the values of corrected formulas. Each rank of an expert group has its own tokens. Therefore, a rank keeps k
/// times `load` assignments per token, not k/e. `load` is the ratio of the busiest rank's assignments to the mean.
/// Sequence parallelism also divides the scores by t, as in Megatron's derivation.
ActivationBytes corrected_activation_bytes(const Activations& model, double load);

}  // namespace hexad::plan::monta
