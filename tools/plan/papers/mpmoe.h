// MPMoE (Zhang et al. 2024): closed forms of an MoE layer whose batch is cut into n micro-batches along tokens.
// Quantities of data are in elements unless the name contains "bytes". There is one expert per rank, as in the paper.
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
#include "tools/plan/measured_curve.h"

namespace hexad::plan::mpmoe {

/// One rank's layer, whose gate chooses k of E experts for each token.
struct Layer {
  double M = 1, H = 1;  // model and hidden dimension
  double B = 1;         // tokens of a rank
  double E = 1, k = 1;
};

/// Returns the weights, gradients and two moments of the gate and one expert (equation 1).
double model_states(const Layer& layer);
/// Returns T_I, T_O, and k times T_DI, T_DO, T_M (equation 2).
double activations(const Layer& layer);
/// Returns the gradients of two neighbouring tensors, which suffice if operations run one after the other (equation 3).
double sequential_buffers(const Layer& layer);
/// Returns all temporary gradients together, as needed by a pipeline without shared buffers (equation 4).
double pipeline_buffers(const Layer& layer);
/// Returns the savings of n micro-batches in activations, if T_DI and T_DO have two buffers each and T_M one (equation
/// 5). Temporary buffers save the same number of elements.
double saved(const Layer& layer, int64_t n);
/// Returns phi (equation 6).
double saving_ratio(const Layer& layer, int64_t n);
/// Returns the remaining activations and temporary buffers: 2 (2 B M + k (4 B M + B H)/n) for n >= 2.
double shared_buffers(const Layer& layer, int64_t n);
/// Returns the elements of the outputs by slot that are kept for the router's gradient. The gradient needs every
/// expert's output, and the buffers of T_DO are overwritten.
double outputs_by_slot(const Layer& layer);

/// alpha(y, x) of section 2.3: speed of stream y beside stream x (or both other streams), relative to its speed alone.
/// A stream's time is divided by its alpha.
struct Slowdowns {
  double comm_comp = 1, comm_mem = 1, comm_all = 1;
  double comp_comm = 1, comp_mem = 1, comp_all = 1;
  double mem_comm = 1, mem_comp = 1, mem_all = 1;
};
/// True if neither communication nor computation runs at half its speed or less (section 2.3). Only then can
/// overlapping them be worthwhile.
bool overlap_pays(const Slowdowns& alpha);

/// Seconds of the work of three streams in one phase, each stream alone. Zero: the stream is idle.
struct Work {
  double comm = 0, comp = 0, mem = 0;
};
/// Returns the seconds of the slowest stream. Each stream's time is divided by the alpha of the streams that run beside
/// it.
double phase_seconds(const Work& work, const Slowdowns& alpha);

/// Seconds of one micro-batch's operations, each alone: first all-to-all, experts, second all-to-all, memory copy.
struct Operations {
  double S = 0, C = 0, R = 0, M = 0;
};

/// Paradigms of Figure 8. Order in each stream: communication S1 S2 R1 S3 R2 ... Sn R(n-1) Rn, computation C1 ... Cn,
/// copies M1 ... Mn.
enum class Paradigm {
  no_copies,      // 1: S4, and no restoring
  copies_after,   // 2: M needs C; forward of S1 to S3
  copies_before,  // 3: C needs M; backward of S1 to S3
};
/// Phases of a pass, each as long as its slowest stream (n >= 2; one micro-batch is S, C, R in a row with M beside R or
/// S):
///   paradigm   P0         P1                   P2, n - 2 times                     P3                   P4
///   1          S1         S2 | C1              R(i-1) S(i+1) | Ci                  R(n-1) | Cn          Rn
///   2          S1         S2 | C1              R(i-1) S(i+1) | Ci | M(i-1)         R(n-1) | Cn | M(n-1) Rn | Mn
///   3          S1 | M1    S2 | C1 | M2         R(i-1) S(i+1) | Ci | M(i+1)         R(n-1) | Cn          Rn
struct Phases {
  double p0, p1, p2, p3, p4;  // seconds; p2 is the sum of all n - 2 phases
  double seconds() const { return p0 + p1 + p2 + p3 + p4; }
};
Phases phases(Paradigm paradigm, const Operations& one, int64_t n, const Slowdowns& alpha);

/// Table 2: strategies that restore T_DI and T_M in backward. `none` keeps them, without shared buffers.
enum class Reuse { none, s1, s2, s3, s4 };
inline constexpr std::array all_strategies{Reuse::none, Reuse::s1, Reuse::s2, Reuse::s3, Reuse::s4};
constexpr std::string_view name_of(Reuse r) {
  constexpr std::array<std::string_view, 5> names{"none", "S1", "S2", "S3", "S4"};
  return names[base::ordinal(r)];
}

/// Cost of restoring a whole batch.
struct ReuseCost {
  double copied = 0;        // elements copied to the host in forward, and back in backward
  double communicated = 0;  // elements of T_DI sent again
  double recomputed = 0;    // FLOPs to recompute T_M, the first of the two products
};
ReuseCost reuse_cost(const Layer& layer, Reuse reuse);

/// Speeds over the volume of one operation: bytes/s of an all-to-all over its bytes, FLOP/s over FLOPs, bytes/s of
/// copies between device and host. A product of x rows by M x H counts as 2 x M H FLOPs.
struct Machine {
  config::Curve W_comm, W_comp, W_mem;
  double bytes_per_element = 2;
  Slowdowns alpha{};
};

/// Return the operations of one of n micro-batches. Backward computes twice the FLOPs of forward, and also recomputes.
/// If T_DI is sent again, it is sent before the gradients of T_DO, in S.
Operations forward_operations(const Layer& layer, const Machine& machine, Reuse reuse, int64_t n);
Operations backward_operations(const Layer& layer, const Machine& machine, Reuse reuse, int64_t n);

/// Prediction of one layer by section 4.2.
struct Prediction {
  Phases forward, backward;
  double seconds() const { return forward.seconds() + backward.seconds(); }
};
Prediction predict(const Layer& layer, const Machine& machine, Reuse reuse, int64_t n);

/// Lower bounds of the time of a layer without restoring: all communication, and all computation, of one undivided
/// batch.
struct Ideal {
  double comm, comp;
  /// seconds() returns the time that no overlap can beat. largest_speedup() returns the largest gain over running all
  /// work in sequence, at most 2.
  double seconds() const { return comm > comp ? comm : comp; }
  double largest_speedup() const { return (comm + comp) / seconds(); }
};
Ideal ideal(const Layer& layer, const Machine& machine);

}  // namespace hexad::plan::mpmoe
