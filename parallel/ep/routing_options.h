// Options of a routing plan: chunks, the meaning of a row, and the exchange between ranks that share an expert.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "parallel/ep/hot_experts.h"
#include "parallel/ep/slot_order.h"

namespace hexad::ep {

/// Exchange of rows between the etp ranks that share the width of an expert. Each of these ranks needs all rows of the
/// expert and computes an addend of each result.
enum class EspExchange : uint8_t {
  gather,  // a row is sent to one etp rank, and the etp ranks gather their rows; the receiver of a row sums the addends
           // of its result
  direct,  // a row is sent to all etp ranks by one all-to-all over all expert ranks (Parm's EP&ESP-AlltoAll); the
           // sender of a row sums the addends that return
  replicated,  // every etp rank receives all rows, from ranks that have the same tokens; all etp ranks have the sums
};

constexpr auto enum_names(EspExchange) {
  return std::to_array<std::pair<EspExchange, std::string_view>>(
      {{EspExchange::gather, "gather"}, {EspExchange::direct, "direct"}, {EspExchange::replicated, "replicated"}});
}

/// Path of rows between ranks.
enum class AllToAll : uint8_t {
  direct,        // directly from rank to rank
  hierarchical,  // first inside the node, to the rank that has the same index in its node as the destination; then
                 // between nodes
  window,        // directly to grouped places in the memory of the expert's rank, and back from there (comm::Windows)
};

constexpr auto enum_names(AllToAll) {
  return std::to_array<std::pair<AllToAll, std::string_view>>(
      {{AllToAll::direct, "direct"}, {AllToAll::hierarchical, "hierarchical"}, {AllToAll::window, "window"}});
}

/// Options of make_routing_plan(). With hot experts, slots contain HotExperts::number() in place of expert ids, and
/// rows must belong to slots. AllToAll::window needs rows of slots, no hot experts, an etp group of one rank, chunks
/// that are not merged, and one return phase.
struct RoutingOptions {
  Chunking chunking{};
  EspExchange esp_exchange = EspExchange::gather;
  RowOf row_of = RowOf::slot;
  bool merged = false;
  AllToAll all_to_all = AllToAll::direct;
  int64_t row_bytes = 0;  // bytes of the largest row that is sent; read only with AllToAll::window
  int return_phases = 1;  // requested number of phases of ReturnOrder; above 1 only with one chunk that is not merged
  HotExperts hot{};
};

}  // namespace hexad::ep
