// Options of a routing plan: chunks, what travels as one row, and how rows reach the ranks that share an expert.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "parallel/ep/slot_order.h"

namespace hexad::ep {

/// Way in which the etp ranks that share an expert's width get the rows, all of which each of them needs, and return
/// their results, which are addends.
enum class EspExchange : uint8_t {
  gather,  // a row goes to one of them, they gather; results are added up where the row came in
  direct,  // a row goes to each of them in one all-to-all over all expert ranks (Parm's EP&ESP-AlltoAll); the addends
           // return and are added up by the row's owner
  replicated,  // each is sent all rows by ranks that hold the same tokens; results are added up on all of them
};

constexpr auto enum_names(EspExchange) {
  return std::to_array<std::pair<EspExchange, std::string_view>>(
      {{EspExchange::gather, "gather"}, {EspExchange::direct, "direct"}, {EspExchange::replicated, "replicated"}});
}

/// Route of rows between ranks.
enum class AllToAll : uint8_t {
  direct,        // from rank to rank
  hierarchical,  // inside the nodes, to the rank of the destination's place, and from there between the nodes
};

constexpr auto enum_names(AllToAll) {
  return std::to_array<std::pair<AllToAll, std::string_view>>(
      {{AllToAll::direct, "direct"}, {AllToAll::hierarchical, "hierarchical"}});
}

struct PlanOptions {
  Chunking chunking{};
  EspExchange esp_exchange = EspExchange::gather;
  RowOf row_of = RowOf::slot;
  bool merged = false;
  AllToAll all_to_all = AllToAll::direct;
};

}  // namespace hexad::ep
