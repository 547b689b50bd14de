// How an MoE layer orders its communication and computation. None of it changes what is computed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "framework/kernels/wire.h"
#include "parallel/ep/plan_options.h"

namespace hexad::moe {

/// What tensor-parallel ranks do with the tokens that each of them holds.
enum class Duplicates : uint8_t {
  baseline,           // DeepSpeed-MoE, Parm Fig. 3(a): etp ranks gather tokens, everyone sends everything
  replicated,         // MoNTA's baseline: every rank sends its copy to its own peers
  drop,               // DeepSpeed-TED's DTD, MoNTA's O1: each sends one t-th, chosen after the gate
  pause_before_gate,  // Parm's S1: each has one t-th from before the gate until after combine
  pause_after_gate,   // Parm's S2: as drop, with the returning all-to-all and the gathering in phases
};
constexpr auto enum_names(Duplicates) {
  using enum Duplicates;
  return std::to_array<std::pair<Duplicates, std::string_view>>({{baseline, "baseline"},
                                                                 {replicated, "replicated"},
                                                                 {drop, "drop"},
                                                                 {pause_before_gate, "pause_before_gate"},
                                                                 {pause_after_gate, "pause_after_gate"}});
}

/// Which collectives are in flight together.
enum class Overlap : uint8_t {
  sequential,
  a2a_allgather,       // MoNTA's O2, Parm's SAA: the all-to-all of a part beside the gathering of the one before
  a2a_allgather_copy,  // MoNTA's O3: and beside the copy of the one before that to its final place
};
constexpr auto enum_names(Overlap) {
  using enum Overlap;
  return std::to_array<std::pair<Overlap, std::string_view>>(
      {{sequential, "sequential"}, {a2a_allgather, "a2a_allgather"}, {a2a_allgather_copy, "a2a_allgather_copy"}});
}

/// Into what the work of a micro-batch is cut, so that the experts compute one part while others travel.
enum class Cut : uint8_t {
  none,
  tokens,   // MPMoE, PipeMoE, Tutel
  nodes,    // FasterMoE: by the distance of the expert's rank
  experts,  // EPS-MoE
};
constexpr auto enum_names(Cut) {
  using enum Cut;
  return std::to_array<std::pair<Cut, std::string_view>>(
      {{none, "none"}, {tokens, "tokens"}, {nodes, "nodes"}, {experts, "experts"}});
}

/// How the experts' inputs T_DI and middles T_M come back for backward (MPMoE, Table 2).
enum class ReuseStrategy : uint8_t {
  none,
  s1,  // both are offloaded
  s2,  // T_DI is communicated again, T_M offloaded
  s3,  // T_DI is offloaded, T_M computed again
  s4,  // T_DI is communicated again, T_M computed again
};
constexpr bool offloads_inputs(ReuseStrategy r) { return r == ReuseStrategy::s1 || r == ReuseStrategy::s3; }
constexpr bool offloads_middles(ReuseStrategy r) { return r == ReuseStrategy::s1 || r == ReuseStrategy::s2; }
constexpr auto enum_names(ReuseStrategy) {
  using enum ReuseStrategy;
  return std::to_array<std::pair<ReuseStrategy, std::string_view>>(
      {{none, "none"}, {s1, "s1"}, {s2, "s2"}, {s3, "s3"}, {s4, "s4"}});
}

/// As how many kernel calls a product of several experts is computed (EPS-MoE's GroupGemm and DenseGemm).
enum class Products : uint8_t {
  grouped,  // one call for all experts
  dense,    // one for each expert that has rows
  by_load,  // dense where a call's experts have many rows each
};
constexpr auto enum_names(Products) {
  using enum Products;
  return std::to_array<std::pair<Products, std::string_view>>(
      {{grouped, "grouped"}, {dense, "dense"}, {by_load, "by_load"}});
}

/// When the shared experts compute.
enum class SharedExperts : uint8_t {
  after,   // when what was routed has returned
  beside,  // while rows are on their way to the routed experts, in backward their gradients
};
constexpr auto enum_names(SharedExperts) {
  using enum SharedExperts;
  return std::to_array<std::pair<SharedExperts, std::string_view>>({{after, "after"}, {beside, "beside"}});
}

struct MoeSchedule {
  Duplicates duplicates = Duplicates::pause_before_gate;
  Overlap overlap = Overlap::sequential;
  Cut cut = Cut::none;
  int64_t chunks = 1;
  std::optional<ep::EspExchange> esp_exchange{};
  ep::AllToAll all_to_all = ep::AllToAll::direct;
  ep::RowOf rows = ep::RowOf::slot;
  ReuseStrategy memory_reuse = ReuseStrategy::none;
  std::optional<int64_t> memory_limit{};  // bytes of the buffers of a pass
  kernels::WireFormat wire = kernels::WireFormat::model;
  std::string order = "alternating";  // of a cut pass's steps, by name: issue_order.h
  double compute_share = 1;           // of a rank's threads, for experts beside communication (EPS-MoE)
  Products products = Products::grouped;
  std::optional<int64_t> dense_rows{};  // by_load: see is_dense
  /// EPS-MoE, Fig. 5a: 4096 rows of 16 experts. On CPUs no such number was found (docs/schedules.md).
  static constexpr int64_t usual_dense_rows = 256;
  SharedExperts shared = SharedExperts::after;

  bool is_cut() const { return cut != Cut::none; }
  /// Whether anything is in flight beside anything else.
  bool overlaps() const { return is_cut() || overlap != Overlap::sequential; }
  /// Whether the copy lane has work.
  bool copies() const { return memory_reuse != ReuseStrategy::none; }
  /// Whether lanes have something to do while another one is busy.
  bool uses_lanes() const { return overlaps() || copies() || shared == SharedExperts::beside; }
  /// Whether tokens are routed where they are held, before the tensor-parallel ranks divide them.
  bool gates_all() const { return duplicates != Duplicates::pause_before_gate; }
  /// Whether the products of experts with rows [offsets[e], offsets[e + 1]) are computed one by one: by_load when those
  /// that have rows have dense_rows of them on average. Of all together, as EPS-MoE takes the load of a group: one
  /// grouped call covers neighbours, so that large experts could only be taken out at the price of more grouped calls.
  bool is_dense(std::span<const int64_t> offsets) const;
  ep::EspExchange esp_exchange_used() const {
    return esp_exchange.value_or(divides() ? ep::EspExchange::gather : ep::EspExchange::held);
  }
  /// Whether tensor-parallel ranks divide what is sent among themselves.
  bool divides() const { return duplicates != Duplicates::baseline && duplicates != Duplicates::replicated; }
  bool operator==(const MoeSchedule&) const = default;
};

/// "duplicates drop, overlap sequential, cut tokens, chunks 4"; the other choices where they are not the default.
std::string to_string(const MoeSchedule& schedule);

}  // namespace hexad::moe
