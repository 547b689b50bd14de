// MPMoE (Zhang et al. 2024): closed forms of an MoE layer whose batch is divided into n micro-batches of tokens. Data
// sizes are in elements if the name does not contain "bytes". Each rank has one expert, as in the paper.
//
// T_I and T_O are the input and output of the layer. T_DI and T_DO are the input and output of the experts, and T_M is
// the result of an expert's first product. In the paper, each of these tensors has one row for each token.
//
// Corrections and additions to the paper:
//   equations 2, 4, 5  count one expert per token; with k experts T_DI, T_M and T_DO are k times as large
//   equation 5         holds from n = 2 on; a single micro-batch saves nothing (by the equation, n = 1 would cost
//                      memory)
//   equation 6         divides by the memory of a program that keeps all temporary gradients (equation 4); a program
//                      that frees them early needs only equation 3, so absolute sizes are given too
//   Figure 8           the text has no formulas of its phase times; they are derived here from the dependencies
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "framework/base/ordinal.h"
#include "tools/plan/curves/measured_curve.h"

namespace hexad::plan::mpmoe {

/// One rank's layer. The gate chooses k of E experts for each token.
struct Layer {
  double M = 1, H = 1;  // model and hidden dimension
  double B = 1;         // tokens of a rank
  double E = 1, k = 1;
};

/// Returns the number of weights, gradients and two moments of the gate and one expert (equation 1).
double model_states(const Layer& layer);
/// Returns the elements of T_I, T_O, and k times T_DI, T_DO, T_M (equation 2).
double activations(const Layer& layer);
/// Returns the elements of the gradients of two consecutive tensors, which suffice if operations run one after the
/// other (equation 3).
double sequential_buffers(const Layer& layer);
/// Returns the elements of all temporary gradients, which a pipeline without shared buffers needs (equation 4).
double pipeline_buffers(const Layer& layer);
/// Returns the activation elements that n micro-batches save (equation 5). T_DI and T_DO then have two buffers each,
/// and T_M has one buffer. The temporary buffers save the same number of elements.
double saved(const Layer& layer, int64_t n);
/// Returns phi (equation 6): the share of all memory that n micro-batches with shared buffers save.
double saving_ratio(const Layer& layer, int64_t n);
/// Returns the elements of activations and temporary buffers with shared buffers. For n >= 2, the result is
/// 2 * (2 * B * M + k * (4 * B * M + B * H)/n).
double shared_buffers(const Layer& layer, int64_t n);
/// Returns the elements of a copy of all experts' outputs, with a row for each pair of a token and one of its experts.
/// The router's gradient needs this copy, because the shared buffers of T_DO are overwritten.
double outputs_by_slot(const Layer& layer);

/// alpha(y, x) of section 2.3: the speed of stream y while stream x (or both other streams) runs, relative to the speed
/// of y alone. The time of y alone is divided by this alpha.
struct Slowdowns {
  double comm_comp = 1, comm_mem = 1, comm_all = 1;
  double comp_comm = 1, comp_mem = 1, comp_all = 1;
  double mem_comm = 1, mem_comp = 1, mem_all = 1;
};
/// True if both communication and computation keep more than half of their speed (section 2.3). Only in this case can
/// their overlap be worthwhile.
bool overlap_pays(const Slowdowns& alpha);

/// Seconds of the work of three streams in one phase if each stream runs alone. Zero means that the stream is idle.
struct Work {
  double comm = 0, comp = 0, mem = 0;
};
/// Returns the seconds of the slowest stream. Each stream's time is divided by its alpha for the other active streams.
double phase_seconds(const Work& work, const Slowdowns& alpha);

/// Seconds of one micro-batch's operations if each operation runs alone: first all-to-all (S), experts (C), second
/// all-to-all (R), memory copy (M).
struct Operations {
  double S = 0, C = 0, R = 0, M = 0;
};

/// Paradigms of Figure 8. The order is S1 S2 R1 S3 R2 ... Sn R(n-1) Rn in the communication stream, C1 ... Cn in the
/// computation stream, and M1 ... Mn in the copy stream.
enum class Paradigm {
  no_copies,      // paradigm 1: passes under Reuse::s4 and Reuse::none
  copies_after,   // paradigm 2, M needs C: forward under Reuse::s1, s2 and s3
  copies_before,  // paradigm 3, C needs M: backward under Reuse::s1, s2 and s3
};
/// Phases of a pass for n >= 2. Each phase takes as long as its slowest stream. With one micro-batch, S, C and R run
/// one after the other. M then runs at the same time as R (paradigm 2) or S (paradigm 3). Phases by paradigm:
///   paradigm   P0         P1                   P2, n - 2 times                     P3                   P4
///   1          S1         S2 | C1              R(i-1) S(i+1) | Ci                  R(n-1) | Cn          Rn
///   2          S1         S2 | C1              R(i-1) S(i+1) | Ci | M(i-1)         R(n-1) | Cn | M(n-1) Rn | Mn
///   3          S1 | M1    S2 | C1 | M2         R(i-1) S(i+1) | Ci | M(i+1)         R(n-1) | Cn          Rn
struct Phases {
  double p0, p1, p2, p3, p4;  // seconds; p2 is the sum of all n - 2 phases
  double seconds() const { return p0 + p1 + p2 + p3 + p4; }
};
Phases phases(Paradigm paradigm, const Operations& one, int64_t n, const Slowdowns& alpha);

/// Table 2: strategies that restore T_DI and T_M in backward. `none` keeps both tensors, without shared buffers.
enum class Reuse { none, s1, s2, s3, s4 };
inline constexpr std::array all_strategies{Reuse::none, Reuse::s1, Reuse::s2, Reuse::s3, Reuse::s4};
constexpr std::string_view name_of(Reuse r) {
  constexpr std::array<std::string_view, 5> names{"none", "S1", "S2", "S3", "S4"};
  return names[base::ordinal(r)];
}

/// Cost of restoring T_DI and T_M for a whole batch.
struct ReuseCost {
  double copied = 0;        // elements copied to the host in forward, and the same number copied back in backward
  double communicated = 0;  // elements of T_DI sent again
  double recomputed = 0;    // FLOPs to recompute T_M, the first of the two products
};
ReuseCost reuse_cost(const Layer& layer, Reuse reuse);

/// Speed as a function of the volume of one operation:
/// - all-to-all: bytes/s as a function of bytes
/// - matrix product: FLOP/s as a function of FLOPs; r rows times a weight of M x H elements take 2 * r * M * H FLOPs
/// - copy between device and host: bytes/s as a function of bytes
struct Machine {
  config::Curve W_comm, W_comp, W_mem;
  double bytes_per_element = 2;
  Slowdowns alpha{};
};

/// These functions return the operations of one of n micro-batches. Backward has twice the FLOPs of forward, plus the
/// FLOPs of the recomputation. S includes the repeated transfer of T_DI if T_DI is sent again. This transfer precedes
/// the transfer of the gradients of T_DO.
Operations forward_operations(const Layer& layer, const Machine& machine, Reuse reuse, int64_t n);
Operations backward_operations(const Layer& layer, const Machine& machine, Reuse reuse, int64_t n);

/// Prediction of one layer by section 4.2.
struct Prediction {
  Phases forward, backward;
  double seconds() const { return forward.seconds() + backward.seconds(); }
};
Prediction predict(const Layer& layer, const Machine& machine, Reuse reuse, int64_t n);

/// Seconds of all communication, and of all computation, of one undivided batch without restoring. Each of these two
/// times is a lower bound of the layer's time.
struct Ideal {
  double comm, comp;
  /// seconds() returns the least time that any overlap can reach. largest_speedup() returns the largest speedup over
  /// sequential execution, which is at most 2.
  double seconds() const { return comm > comp ? comm : comp; }
  double largest_speedup() const { return (comm + comp) / seconds(); }
};
Ideal ideal(const Layer& layer, const Machine& machine);

}  // namespace hexad::plan::mpmoe
