// EPS-MoE (Qian et al. 2024): closed forms for the inference of MoE layers whose experts are processed in N groups. A
// volume is the number of bytes that one of D devices sends.
//
// Contradictions in the paper:
//   V_TP+EP < V_TP+TP  is an equality if a token visits all devices (g = D)
//   T_Attn, T_MoE      divide W by D x BW, but section 4.2 defines W as the bytes of one device; block_seconds()
//                      divides W by BW
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "framework/base/ordinal.h"
#include "tools/plan/curves/measured_curve.h"

namespace hexad::plan::eps {

/// Returns (1 - (1 - k/E)^m) * E (section 3.2). This is the expected number of experts that at least one of m tokens
/// visits. Each token visits k of E experts, and all experts are equally likely.
double expected_activated_experts(double k, double E, double m);
/// Returns the expected number of devices that hold at least one of a token's k different experts. Each device has E/D
/// experts, and all experts are equally likely. The result is the paper's g for a router that does not limit the number
/// of devices.
double expected_devices(int64_t k, int64_t E, int64_t D);

/// Parallelism of attention and of the MoE layer, in this order.
enum class Mode { tp_tp, dp_ep, tp_ep };
inline constexpr std::array all_modes{Mode::tp_tp, Mode::dp_ep, Mode::tp_ep};
constexpr std::string_view name_of(Mode m) {
  constexpr std::array<std::string_view, 3> names{"TP+TP", "DP+EP", "TP+EP"};
  return names[base::ordinal(m)];
}

/// Returns the bytes that a device sends in one stage (section 4.2). Dispatch and combine send the same bytes. P is the
/// size of the activations of all devices' tokens, in bytes. g is the number of devices that a token visits, from 1 to
/// D. Each visited device gets one copy of the token.
/// - TP+TP: an all-reduce, 2 * P * (D - 1)/D
/// - DP+EP: an all-to-all, g * P * (D - 1)/D^2
/// - TP+EP: a reduce-scatter (combine: all-gather) and the all-to-all of DP+EP, P * (D - 1)/D + g * P * (D - 1)/D^2
double volume(Mode mode, double P, double D, double g);
/// Returns the bytes of combine without LocalReduce (Fig. 8(b)). Each of a token's k rows returns separately, so the
/// all-to-all has the factor k instead of g. `mode` must not be tp_tp, which has no all-to-all.
double combine_volume_without_reduce(Mode mode, double P, double D, double k);

/// Bytes read and written, and FLOPs, of attention or of the MoE layer (section 4.2).
struct Block {
  double M_in = 0, M_out = 0;  // activation bytes of all tokens: input and output
  double M_weight = 0;         // weight bytes of all devices
  double flops = 0;            // F: FLOPs of all devices
};
struct Machine {
  double FP = 1, BW = 1, NW = 1;  // rates of a device: FLOP/s, bytes/s of its memory, bytes/s to other devices
  double V_O = 0;                 // least duration of any communication, in seconds
};
/// These functions return W(Attn) and W(MoE): the bytes that a device reads and writes. M_KVCache is the number of
/// bytes of the keys and values of all tokens.
double attention_io(Mode mode, const Block& attention, double M_KVCache, double D);
double moe_io(Mode mode, const Block& moe, double k, double D);
/// Returns max(F/(D * FP), W/BW) with the W of one device.
double block_seconds(double flops, double io, double D, const Machine& machine);
/// Returns max(V/NW, V_O).
double comm_seconds(double volume, const Machine& machine);

/// Bytes that N groups read and write (section 4.3, Fig. 9). In (a), the input tensor is split by rows, and the weights
/// by experts. In (b), the input tensor is split by columns. There are m samples with P0 bytes of input and P1 bytes of
/// output, and E experts of W bytes.
struct SplitIo {
  double by_experts, by_columns;
};
SplitIo split_io(double m, double P0, double P1, double E, double W, double N);
/// Returns T(a) or T(b): the seconds of E experts with C FLOPs each. `rate` is the FLOP/s of grouped products of E/N
/// experts for (a), and of E experts for (b).
double split_seconds(double E, double C, double rate);

/// Kind of products that is faster on the paper's GPUs if each expert has `rows` rows (section 3.2, conclusion 1). In
/// Fig. 5(a), 16 experts share m rows. Grouped products are faster below m = 2048, dense products from m = 4096 on.
enum class Product { grouped, either, dense };
constexpr std::string_view name_of(Product p) {
  return p == Product::grouped ? "grouped" : p == Product::dense ? "dense" : "either";
}
Product product(double rows, double grouped_below = 2048.0 / 16, double dense_from = 4096.0 / 16);

/// Overhead R(N) = k * N + b of N groups, in seconds (section 5.2, item 5).
struct Overhead {
  double k = 0, b = 0;
  double operator()(double N) const { return k * N + b; }
};
/// Returns the gain of N groups: L(N) - R(N) with L = C * (N - 1)/N, where C is the shorter of communication and
/// computation. N = 1 has no pipeline and gains nothing.
double gain(double T_comm, double T_comp, int64_t N, const Overhead& overhead);
/// Returns C - b - 2 * sqrt(k * C), the largest gain over all real N. unrestricted_groups() returns sqrt(C/k), the N
/// with this gain.
double largest_gain(double T_comm, double T_comp, const Overhead& overhead);
double unrestricted_groups(double T_comm, double T_comp, const Overhead& overhead);
struct Groups {
  int64_t N;
  double gain;
};
/// Returns the gain of every divisor of a device's number of experts, ascending. best_groups() returns the entry with
/// the largest gain. Of several entries with this gain, the entry with the smallest N is returned.
std::vector<Groups> all_groups(double T_comm, double T_comp, int64_t local_experts, const Overhead& overhead);
Groups best_groups(const std::vector<Groups>& tried);

/// Relative extra time of communication (e0) and of products (e1) in N groups (section 5.2, item 4). S(m) is the time
/// of an all-to-all of m tokens. G(m, E) is the time of the products of m tokens with E experts. G_cut is the curve for
/// E/N experts, and G_whole is the curve for E experts.
/// - e0 = N * S(m/N)/S(m) - 1
/// - e1 = N * G(m/N, E/N)/G(m, E) - 1
///
/// Expert groups are worthwhile if e0 and e1 are within bounds (0.32 and 0.03 in the paper's test).
struct Extra {
  double e0, e1;
};
Extra extra(double m, double N, const config::Curve& S, const config::Curve& G_cut, const config::Curve& G_whole);
bool pays(const Extra& extra, double e0, double e1);

}  // namespace hexad::plan::eps
