#include "parallel/mesh/layout.h"

#include <algorithm>
#include <cstdlib>

#include "framework/base/error.h"
#include "framework/base/ordinal.h"

namespace hexad::mesh {
namespace {

using base::cat;

// Returns the nearest divisors of `n` below and above `value`, such as "2, 4"; only one if there is none on the other
// side.
std::string nearest_divisors(int n, int value) {
  int below = 0, above = 0;
  for (int d = 1; d <= n; ++d) {
    if (n % d) continue;
    if (d <= value) below = d;
    if (d >= value && !above) above = d;
  }
  if (!below || !above || below == above) return cat(below ? below : above);
  return cat(below, ", ", above);
}

// Returns the multiples of `n` around `value`.
std::string nearest_multiples(int n, int value) {
  const int below = value / n * n;
  return below ? cat(below, ", ", below + n) : cat(n);
}

template <class... Parts>
[[noreturn]] void refuse(const char* name, int64_t value, const Parts&... reason) {
  throw IllegalLayout(cat("parallel.", name), cat(value), cat(reason...));
}

void require_positive(const char* name, int value, int least) {
  if (value < least) refuse(name, value, "must be at least ", std::max(least, 1));
}

}  // namespace

std::string_view name_of(Axis axis) {
  constexpr std::string_view names[] = {"pp", "dp", "cp", "tp", "edp", "ep", "etp"};
  return names[base::ordinal(axis)];
}

Layout::Layout(const Sizes& s, int world) : world_(world), expansion_(s.expansion) {
  require_positive("pp", s.pp, 1);
  require_positive("cp", s.cp, 1);
  require_positive("tp", s.tp, 1);
  require_positive("ep", s.ep, 1);
  require_positive("dp", s.dp, 0);
  require_positive("etp", s.etp, 0);
  const int64_t fixed = int64_t{s.pp} * s.cp * s.tp;
  const std::string product = cat("pp ", s.pp, " x cp ", s.cp, " x tp ", s.tp, " = ", fixed);
  if (fixed > world || world % fixed != 0)
    throw IllegalLayout(
        "parallel", "",
        cat("has ", product, " ranks, which must divide the number of ranks (", world, "); nearest: ",
            fixed > world ? cat(fixed) : nearest_multiples(static_cast<int>(fixed), world), " ranks, or ",
            nearest_divisors(world, static_cast<int>(std::min<int64_t>(fixed, world))), " for the product"));
  const int dp = world / static_cast<int>(fixed);
  if (s.dp != 0 && s.dp != dp)
    refuse("dp", s.dp, "x ", product, " is ", s.dp * fixed, ", but there are ", world, " ranks; legal dp: ", dp);

  const int etp = s.etp ? s.etp : s.tp;
  const int stage = dp * s.cp * s.tp;
  const auto stage_text = [&] { return cat(stage, " ranks of a stage (dp ", dp, " x cp ", s.cp, " x tp ", s.tp, ")"); };
  if (stage % etp != 0)
    refuse("etp", etp, "must divide the ", stage_text(), "; nearest: ", nearest_divisors(stage, etp));
  if (stage / etp % s.ep != 0)
    refuse("ep", s.ep, "x etp (", etp, ") must divide the ", stage_text(),
           "; nearest ep: ", nearest_divisors(stage / etp, s.ep));
  const int experts = s.ep * etp, edp = stage / experts;
  sizes_ = {s.pp, dp, s.cp, s.tp, edp, s.ep, etp};

  // Within tp, both expansions are the same.
  const bool inside_tp = s.tp % experts == 0;
  const bool horizontal_fits = inside_tp || (experts % s.tp == 0 && dp % (experts / s.tp) == 0);
  if (expansion_ == Expansion::automatic)
    expansion_ = s.cp >= s.ep && s.cp > 1 ? Expansion::vertical
                 : horizontal_fits        ? Expansion::horizontal
                                          : Expansion::vertical;
  if (expansion_ == Expansion::horizontal) {
    if (!horizontal_fits)
      throw IllegalLayout("parallel.cp_expansion", "horizontal",
                          cat("needs ep x etp = inner x tp with inner a divisor of dp: ", s.ep, " x ", etp,
                              " = inner x ", s.tp, " with dp ", dp, "; use vertical or auto"));
    inner_ = inside_tp ? 1 : experts / s.tp;
  }
}

Layout::Coordinates Layout::coordinates(int rank) const {
  base::require(0 <= rank && rank < world_, "[mesh] rank ", rank, " of ", world_);
  const int pp = size(Axis::pp), cp = size(Axis::cp), tp = size(Axis::tp), ep = size(Axis::ep), etp = size(Axis::etp);
  const int t = rank % tp, i = rank / tp % inner_, c = rank / (tp * inner_) % cp;
  const int p = rank / (tp * inner_ * cp) % pp, o = rank / (tp * inner_ * cp * pp);
  const int in_stage = t + tp * (i + inner_ * (c + cp * o));
  return {p, i + inner_ * o, c, t, in_stage / (etp * ep), in_stage / etp % ep, in_stage % etp};
}

int Layout::coordinate(Axis axis, int rank) const { return coordinates(rank)[base::ordinal(axis)]; }

template <class Same>
std::vector<int> Layout::ranks_where(Same same) const {
  std::vector<int> ranks;
  for (int r = 0; r < world_; ++r)
    if (same(coordinates(r))) ranks.push_back(r);
  return ranks;
}

std::vector<int> Layout::members(Axis axis, int rank) const {
  constexpr std::array dense{Axis::pp, Axis::dp, Axis::cp, Axis::tp};
  constexpr std::array expert{Axis::pp, Axis::edp, Axis::ep, Axis::etp};
  const auto& view = std::find(dense.begin(), dense.end(), axis) != dense.end() ? dense : expert;
  const Coordinates mine = coordinates(rank);
  auto ranks = ranks_where([&](const Coordinates& c) {
    return std::all_of(view.begin(), view.end(),
                       [&](Axis a) { return a == axis || c[base::ordinal(a)] == mine[base::ordinal(a)]; });
  });
  std::sort(ranks.begin(), ranks.end(), [&](int a, int b) { return coordinate(axis, a) < coordinate(axis, b); });
  return ranks;
}

std::vector<int> Layout::same_replica(Axis replicas, Axis major, Axis minor, int rank) const {
  const auto apart = [&](int r) { return std::pair(coordinate(Axis::pp, r), coordinate(replicas, r)); };
  const auto place = [&](int r) { return std::pair(coordinate(major, r), coordinate(minor, r)); };
  std::vector<int> ranks;
  for (int r = 0; r < world_; ++r)
    if (apart(r) == apart(rank)) ranks.push_back(r);
  std::sort(ranks.begin(), ranks.end(), [&](int a, int b) { return place(a) < place(b); });
  return ranks;
}

std::vector<int> Layout::token_sharers(int rank) const { return same_replica(Axis::dp, Axis::cp, Axis::tp, rank); }

std::vector<int> Layout::expert_sharers(int rank) const { return same_replica(Axis::edp, Axis::ep, Axis::etp, rank); }

std::vector<int> Layout::sharers(const Placement& placement, int rank, Copies copies) const {
  const Coordinates mine = coordinates(rank);
  const auto at = [](const Coordinates& c, Axis axis) { return c[base::ordinal(axis)]; };
  const auto partial = [&](Axis axis) {
    return std::find(placement.partial.begin(), placement.partial.end(), axis) != placement.partial.end();
  };
  // True if `c` holds the same piece along `axis`. With fewer `parts` than ranks, neighbours share a piece.
  const auto same_piece = [&](const Coordinates& c, Axis axis) {
    for (const base::Shard& s : placement.shards)
      if (s.axis == axis && at(c, axis) * s.parts / size(axis) != at(mine, axis) * s.parts / size(axis)) return false;
    return true;
  };
  const auto outer = [&](const Coordinates& c) {
    return at(c, Axis::pp) == 0 || at(c, Axis::pp) == size(Axis::pp) - 1;
  };
  const bool dense = placement.view == MeshView::dense;
  const Axis tensor = dense ? Axis::tp : Axis::etp;
  return ranks_where([&](const Coordinates& c) {
    const bool stages = at(c, Axis::pp) == at(mine, Axis::pp) || (partial(Axis::pp) && outer(c) && outer(mine));
    const bool copy = copies == Copies::all || partial(tensor) || at(c, tensor) == at(mine, tensor);
    return stages && copy && same_piece(c, tensor) && (dense || at(c, Axis::ep) == at(mine, Axis::ep));
  });
}

std::vector<int> Layout::reducers(const Placement& placement, int rank) const {
  return sharers(placement, rank, Copies::partial);
}

std::vector<int> Layout::holders(const Placement& placement, int rank) const {
  return sharers(placement, rank, Copies::all);
}

std::string Layout::to_string() const {
  const auto part = [&](Axis axis) { return cat(name_of(axis), " ", size(axis)); };
  return cat(part(Axis::pp), " x ", part(Axis::dp), " x ", part(Axis::cp), " x ", part(Axis::tp), " | ", part(Axis::pp),
             " x ", part(Axis::edp), " x ", part(Axis::ep), " x ", part(Axis::etp), " (",
             expansion_ == Expansion::horizontal ? "horizontal" : "vertical", ")");
}

}  // namespace hexad::mesh
