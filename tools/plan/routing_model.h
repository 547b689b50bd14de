// Assumptions about the experts that tokens choose, for estimates that depend on them.
#pragma once

#include <optional>

#include "framework/device/meta/meta_run.h"

namespace hexad::plan {

/// Load of the experts in every micro-batch and layer, alike on all ranks. A token's experts are different ones. If its
/// groups are limited (model.moe.top_groups), all groups are chosen equally often, and each group of a token gives it
/// the same number of experts.
///
/// - even (p50): every expert gets the same number of rows, in an order that spreads a token's experts over ranks as
///   chance would. If the recipe says what tokens choose (model.moe.routing), that applies.
/// - p99: the ep rank that is looked at has the share of all slots that it exceeds in one of a hundred routers, if all
///   divisions of the slots among the experts are equally probable (the uniform distribution on the simplex, "broken
///   stick"): then n of E experts together have a share of the distribution Beta(n, E - n). Its experts share it
///   evenly, and so do the others what is left. For one of 64 experts that is 4.5 times the mean. A stated model, not a
///   measurement: routers that are balanced well stay below.
/// - one_rank: all tokens choose experts of this rank, as far as it has as many as a token chooses. No routing asks
///   more of a rank. As p99, whatever the recipe says.
enum class RoutingLoad : uint8_t { even, p99, one_rank };

/// The share of all slots that `local` of the experts get under `load`. With a capacity no more than that: what is
/// dropped takes no memory.
double share_of_rank(RoutingLoad load, int64_t local, const device::MetaRun::Choice& choice,
                     std::optional<double> capacity_factor = {});

/// For rank `rank` of `ranks` over which the experts lie in equal blocks.
device::MetaRun::Choose choose_experts(RoutingLoad load, int rank, int ranks,
                                       std::optional<double> capacity_factor = {});

}  // namespace hexad::plan
