// Models of the choice of experts by tokens, for estimates that depend on this choice.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "framework/device/meta/meta_run.h"
#include "tools/plan/expert_shares.h"

namespace hexad::plan {

/// Load of the experts in every micro-batch and layer, the same on all ranks. The experts of a token are distinct.
///
/// - even (p50): every expert gets the same number of rows, and a token's experts are spread randomly over the ranks.
///   With model.moe.top_groups, a token may only use experts of some groups. All groups are then chosen equally often,
///   and a token's experts alternate between its groups. The recipe's routing (model.moe.routing) applies instead if
///   the recipe defines it.
/// - p99: one ep rank has a share of all slots that only one of a hundred routers exceeds. p99 assumes that all
///   divisions of the slots among the experts are equally probable. This is the uniform distribution on the simplex
///   ("broken stick"). Then the joint share of n of E experts has the distribution Beta(n, E - n). The experts of this
///   rank divide its share evenly, and the other experts divide the rest evenly. For example, one of 64 experts, alone
///   on its rank, gets 4.5 times the mean. p99 is an assumed model, not a measurement: well-balanced routers do not
///   reach this load.
/// - one_rank: all experts of a token are on one ep rank, or as many of them as that rank has. No routing gives a rank
///   a higher load. Like p99, this kind ignores the recipe's routing.
/// - given: the share of each expert in each layer is given. Each token visits the experts that are furthest behind
///   their shares. The limit of a token's groups and the recipe's routing do not apply.
class RoutingLoad {
 public:
  enum Kind : uint8_t { even, p99, one_rank, given };

  /// Makes a load of any kind except `given`.
  RoutingLoad(Kind kind) : kind_(kind) {}
  explicit RoutingLoad(ExpertShares shares)
      : kind_(given), shares_(std::make_shared<const ExpertShares>(std::move(shares))) {}

  Kind kind() const { return kind_; }
  bool operator==(Kind kind) const { return kind_ == kind; }
  /// Returns the shares. Requires the kind `given`.
  const ExpertShares& shares() const { return *shares_; }

 private:
  Kind kind_;
  std::shared_ptr<const ExpertShares> shares_;
};

/// Returns the share of a layer's slots that each of `ranks` ep ranks gets: the sum over the rank's experts. The
/// experts are distributed in equal blocks. `shares` has the share of each expert.
std::vector<double> slots_of_ranks(const std::vector<double>& shares, int ranks);

/// Returns the ep coordinate whose experts get the most slots, summed over all layers. The experts are distributed over
/// `ranks` ranks in equal blocks. Returns 0 for kinds in which any rank may be the busiest.
int busiest_rank(const RoutingLoad& load, int ranks);

/// Returns a load in which each layer has the mean shares of all layers. Loads other than `given` are the same in all
/// layers and are returned unchanged.
RoutingLoad mean_layer(RoutingLoad load);

/// Returns a load in which the rank with ep coordinate busiest_rank(load, ranks) is the busiest rank in every layer. In
/// each layer, the experts of that rank exchange their shares with the experts of the layer's busiest rank. A step's
/// time depends on this load, because the exchanges of a layer end when its busiest rank has computed. Loads other than
/// `given` are returned unchanged.
RoutingLoad with_stragglers(RoutingLoad load, int ranks);

/// Returns the share of all slots that `local` of the experts get under `load`, which must not be `given`. With a
/// capacity, dropped slots take no memory: the share is at most the larger of the capacity and the even share.
double share_of_rank(RoutingLoad::Kind load, int64_t local, const device::MetaRun::Choice& choice,
                     std::optional<double> capacity_factor = {});

/// Returns the routing for rank `rank` of `ranks` ranks, to which the experts are distributed in equal blocks.
device::MetaRun::Choose choose_experts(RoutingLoad load, int rank, int ranks,
                                       std::optional<double> capacity_factor = {});

}  // namespace hexad::plan
