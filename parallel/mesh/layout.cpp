#include "parallel/mesh/layout.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/base/ordinal.h"

namespace hexad::mesh {
namespace {

using base::cat;
using base::counted;

// Returns the nearest divisors of `n` below and above `value`, for example "2, 4". Returns only one divisor if there is
// none on one side, and only `value` if it is a divisor.
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

// Returns the nearest multiples of `n` below and above `value`, for example "4, 8"; only `n` if `value` is less than
// `n`.
std::string nearest_multiples(int n, int value) {
  const int below = value / n * n;
  return below ? cat(below, ", ", below + n) : cat(n);
}

template <class... Parts>
[[noreturn]] void refuse(const char* name, int64_t value, const Parts&... reason) {
  throw IllegalLayout(cat("parallel.", name), cat(value), cat(reason...));
}

void require_positive(const char* name, int value) {
  if (value < 1) refuse(name, value, "must be at least 1");
}

// Throws an error if `value` is negative. `zero` is a text for the message: the meaning of the value 0.
void require_not_negative(const char* name, int value, const char* zero) {
  if (value < 0) refuse(name, value, "must be at least 1, or 0 (", zero, ")");
}

// Returns the axis that replaces `axis` in `view`; nullopt if the view has no such axis.
std::optional<Axis> axis_in(MeshView view, Axis axis) {
  const bool dense = view == MeshView::dense;
  switch (axis) {
    case Axis::tp:
      return dense ? Axis::tp : Axis::etp;
    case Axis::dp:
      return dense ? Axis::dp : Axis::edp;
    case Axis::cp:
      return dense ? std::optional(Axis::cp) : std::nullopt;
    case Axis::ep:
      return dense ? std::nullopt : std::optional(Axis::ep);
    default:
      return axis;
  }
}

// Axes of a view that vary faster than pp, as text ("tp 2 x cp 2 = 4 ranks"), and the product of their sizes.
struct BeforePp {
  std::string text;
  int64_t ranks = 1;
};
BeforePp before_pp(const AxisOrder& order, MeshView view, const Layout& layout) {
  BeforePp before;
  for (const Axis axis : order.axes()) {
    if (axis == Axis::pp) break;
    const std::optional<Axis> here = axis_in(view, axis);
    if (!here) continue;
    before.ranks *= layout.size(*here);
    before.text += cat(before.text.empty() ? "" : " x ", name_of(*here), " ", layout.size(*here));
  }
  before.text = cat(before.text, before.text.empty() ? "" : " = ", counted(before.ranks, "rank"));
  return before;
}

bool gives_one_stage(const AxisOrder& order, const Layout& layout) {
  return layout.size(Axis::pp) == 1 ||
         before_pp(order, MeshView::dense, layout).ranks == before_pp(order, MeshView::expert, layout).ranks;
}

// Returns the order with pp moved to the nearest index at which every rank has the same stage in both views. Uses the
// larger index if two indices are equally near.
AxisOrder with_legal_pp(const AxisOrder& order, const Layout& layout) {
  const auto last = static_cast<int>(order.axes().size()) - 1, now = static_cast<int>(order.place_of(Axis::pp));
  for (int distance = 1; distance <= last; ++distance)
    for (const int place : {now + distance, now - distance}) {
      if (place < 0 || place > last) continue;
      const AxisOrder moved = order.with(Axis::pp, place);
      if (gives_one_stage(moved, layout)) return moved;
    }
  return order.with(Axis::pp, last);
}

}  // namespace

Layout::Layout(const Sizes& s, int world) : world_(world), expansion_(s.expansion) {
  require_positive("pp", s.pp);
  require_positive("cp", s.cp);
  require_positive("tp", s.tp);
  require_positive("ep", s.ep);
  require_not_negative("dp", s.dp, "computed from the number of ranks");
  require_not_negative("etp", s.etp, "equal to tp");
  const int64_t fixed = int64_t{s.pp} * s.cp * s.tp;
  const std::string axes = cat("pp ", s.pp, " x cp ", s.cp, " x tp ", s.tp);
  if (fixed > world || world % fixed != 0)
    throw IllegalLayout(
        "parallel", "",
        cat("has ", axes, " = ", fixed, " ranks, which must divide the number of ranks (", world, "); nearest: ",
            fixed > world ? cat(fixed) : nearest_multiples(static_cast<int>(fixed), world), " ranks, or ",
            nearest_divisors(world, static_cast<int>(std::min<int64_t>(fixed, world))), " for the product"));
  const int dp = world / static_cast<int>(fixed);
  if (s.dp != 0 && s.dp != dp)
    refuse("dp", s.dp, "x ", axes, " needs ", counted(s.dp * fixed, "rank"), ", but the number of ranks is ", world,
           "; legal dp: ", dp);

  const int etp = s.etp ? s.etp : s.tp;
  const int stage = dp * s.cp * s.tp;
  const auto stage_text = [&] {
    return cat(counted(stage, "rank"), " of a stage (dp ", dp, " x cp ", s.cp, " x tp ", s.tp, ")");
  };
  if (stage % etp != 0)
    refuse("etp", etp, "must divide the ", stage_text(), "; nearest: ", nearest_divisors(stage, etp));
  if (stage / etp % s.ep != 0)
    refuse("ep", s.ep, "x etp (", etp, ") must divide the ", stage_text(),
           "; nearest ep: ", nearest_divisors(stage / etp, s.ep));
  sizes_ = {s.pp, dp, s.cp, s.tp, stage / (s.ep * etp), s.ep, etp};

  s.order.empty() ? place_by_expansion() : place_by_order(AxisOrder(s.order));
}

void Layout::place_by_expansion() {
  const int dp = size(Axis::dp), cp = size(Axis::cp), tp = size(Axis::tp), ep = size(Axis::ep), etp = size(Axis::etp);
  const int experts = ep * etp;
  // Both expansions give the same layout if ep x etp divides tp.
  const bool inside_tp = tp % experts == 0;
  const bool horizontal_fits = inside_tp || (experts % tp == 0 && dp % (experts / tp) == 0);
  if (expansion_ == Expansion::automatic)
    expansion_ = cp >= ep && cp > 1 ? Expansion::vertical
                 : horizontal_fits  ? Expansion::horizontal
                                    : Expansion::vertical;
  if (expansion_ == Expansion::horizontal) {
    if (!horizontal_fits)
      throw IllegalLayout("parallel.cp_expansion", "horizontal",
                          cat("needs ep x etp (", experts, ") to divide tp (", tp,
                              "), or to be tp times a divisor of dp (", dp, "); use vertical or auto"));
    inner_ = inside_tp ? 1 : experts / tp;
  }
  stride(Axis::tp) = 1;
  stride(Axis::dp) = tp;
  stride(Axis::cp) = tp * inner_;
  stride(Axis::pp) = outer_stride_ = tp * inner_ * cp;
  stride(Axis::etp) = 1;
  stride(Axis::ep) = etp;
  stride(Axis::edp) = experts;
}

void Layout::place_by_order(const AxisOrder& order) {
  order_ = order.to_string();
  if (expansion_ != Expansion::automatic)
    throw IllegalLayout("parallel.cp_expansion", expansion_ == Expansion::horizontal ? "horizontal" : "vertical",
                        cat("must be auto, because parallel.order (", order_, ") places the experts"));
  if (!gives_one_stage(order, *this))
    throw IllegalLayout("parallel.order", order_,
                        cat("puts pp after ", before_pp(order, MeshView::dense, *this).text,
                            " of dense layers, but after ", before_pp(order, MeshView::expert, *this).text,
                            " of experts, so that a rank would be on two stages; the nearest legal order is ",
                            with_legal_pp(order, *this).to_string()));
  for (const MeshView view : {MeshView::dense, MeshView::expert}) {
    int places = 1;
    for (const Axis axis : order.axes()) {
      const std::optional<Axis> here = axis_in(view, axis);
      if (!here) continue;
      stride(*here) = places;
      if (axis != Axis::pp) places *= size(*here);
    }
  }
  inner_ = size(Axis::dp);
  outer_stride_ = world_ / size(Axis::pp);
}

Layout::Position Layout::position(int rank) const {
  base::require(0 <= rank && rank < world_, "[mesh] the rank is ", rank, ", expected at least 0 and less than ",
                world_);
  const int block = stride(Axis::pp), stages = size(Axis::pp);
  return {rank / block % stages, rank % block + block * (rank / block / stages)};
}

int Layout::rank_of(Position at) const {
  const int block = stride(Axis::pp), stages = size(Axis::pp);
  return at.place % block + block * (at.stage + stages * (at.place / block));
}

int Layout::coordinate(Axis axis, Position at) const {
  if (axis == Axis::pp) return at.stage;
  if (axis == Axis::dp) return at.place / stride(axis) % inner_ + inner_ * (at.place / outer_stride_);
  return at.place / stride(axis) % size(axis);
}

int Layout::coordinate(Axis axis, int rank) const { return coordinate(axis, position(rank)); }

int Layout::part(Axis axis, int coordinate) const {
  if (axis == Axis::dp) return coordinate % inner_ * stride(axis) + coordinate / inner_ * outer_stride_;
  return coordinate * stride(axis);
}

int Layout::rank_at(const DensePlace& p) const {
  return rank_of({p.pp, part(Axis::dp, p.dp) + part(Axis::cp, p.cp) + part(Axis::tp, p.tp)});
}

int Layout::rank_at(const ExpertPlace& p) const {
  return rank_of({p.pp, part(Axis::edp, p.edp) + part(Axis::ep, p.ep) + part(Axis::etp, p.etp)});
}

std::vector<int> Layout::members(Axis axis, int rank) const {
  const Position mine = position(rank);
  const int others = axis == Axis::pp ? 0 : mine.place - part(axis, coordinate(axis, mine));
  std::vector<int> ranks;
  ranks.reserve(size(axis));
  for (int k = 0; k < size(axis); ++k)
    ranks.push_back(rank_of(axis == Axis::pp ? Position{k, mine.place} : Position{mine.stage, others + part(axis, k)}));
  return ranks;
}

std::vector<int> Layout::ranks_along(Axis major, Axis minor, int rank) const {
  const Position mine = position(rank);
  const int others = mine.place - part(major, coordinate(major, mine)) - part(minor, coordinate(minor, mine));
  std::vector<int> ranks;
  ranks.reserve(static_cast<size_t>(size(major)) * static_cast<size_t>(size(minor)));
  for (int a = 0; a < size(major); ++a)
    for (int b = 0; b < size(minor); ++b)
      ranks.push_back(rank_of({mine.stage, others + part(major, a) + part(minor, b)}));
  return ranks;
}

std::vector<int> Layout::token_sharers(int rank) const { return ranks_along(Axis::cp, Axis::tp, rank); }

std::vector<int> Layout::expert_sharers(int rank) const { return ranks_along(Axis::ep, Axis::etp, rank); }

// Returns the run of coordinates along the axis `tensor` whose ranks have the same piece as coordinate `mine`. Adjacent
// ranks have the same piece if there are fewer pieces than ranks. With Copies::partial, contains only `mine` if the
// gradient is not partial along this axis.
Layout::Run Layout::same_pieces(const Placement& placement, Axis tensor, int mine, Copies copies) const {
  const bool partial = std::find(placement.partial.begin(), placement.partial.end(), tensor) != placement.partial.end();
  if (copies == Copies::partial && !partial) return {stride(tensor), mine, 1};
  const auto same = [&](int k) {
    return std::all_of(placement.shards.begin(), placement.shards.end(), [&](const base::Shard& s) {
      const int64_t parts = s.parts;
      return s.axis != tensor || k * parts / size(tensor) == mine * parts / size(tensor);
    });
  };
  int first = mine, end = mine + 1;
  while (first > 0 && same(first - 1)) --first;
  while (end < size(tensor) && same(end)) ++end;
  return {stride(tensor), first, end - first};
}

Layout::Sharers Layout::sharers(const Placement& placement, int rank, Copies copies) const {
  const Position mine = position(rank);
  const bool dense = placement.view == MeshView::dense;
  const Axis tensor = dense ? Axis::tp : Axis::etp;
  const auto all = [&](Axis axis) { return Run{stride(axis), 0, size(axis)}; };
  const Run pieces = same_pieces(placement, tensor, coordinate(tensor, mine), copies);

  Sharers out{{mine.stage}, {}};
  const int last = size(Axis::pp) - 1;
  const bool tied = std::find(placement.partial.begin(), placement.partial.end(), Axis::pp) != placement.partial.end();
  if (tied && last > 0 && (mine.stage == 0 || mine.stage == last)) out.stages = {0, last};
  if (dense)
    out.runs = {pieces, all(Axis::cp), Run{stride(Axis::dp), 0, inner_},
                Run{outer_stride_, 0, size(Axis::dp) / inner_}};
  else
    out.runs = {pieces, Run{stride(Axis::ep), coordinate(Axis::ep, mine), 1}, all(Axis::edp), Run{1, 0, 1}};
  std::sort(out.runs.begin(), out.runs.end(), [](const Run& a, const Run& b) { return a.step > b.step; });
  return out;
}

std::vector<int> Layout::ranks_of(const Sharers& sharers) const {
  std::vector<int> places{0};
  for (const Run& run : sharers.runs) {
    std::vector<int> sums;
    sums.reserve(places.size() * run.count);
    for (const int place : places)
      for (int k = run.first; k < run.first + run.count; ++k) sums.push_back(place + run.step * k);
    places = std::move(sums);
  }
  // Ranks of a stage are in ascending order, because their places are in ascending order.
  std::vector<int> ranks;
  ranks.reserve(sharers.stages.size() * places.size());
  for (const int stage : sharers.stages) {
    const auto before = static_cast<std::ptrdiff_t>(ranks.size());
    for (const int place : places) ranks.push_back(rank_of({stage, place}));
    std::inplace_merge(ranks.begin(), ranks.begin() + before, ranks.end());
  }
  return ranks;
}

// Returns a normal form of the runs. Two Sharers have equal normal forms if and only if they have equal places. The
// first run contains only the lowest place. Every other run has several places. A run that continues the previous run
// is merged with it.
std::vector<Layout::Run> Layout::merged(const Sharers& sharers) {
  std::vector<Run> out{{1, 0, 1}};
  for (auto run = sharers.runs.rbegin(); run != sharers.runs.rend(); ++run) {  // in ascending order of steps
    out.front().first += run->step * run->first;
    if (run->count == 1) continue;
    if (out.size() > 1 && out.back().step * out.back().count == run->step)
      out.back().count *= run->count;
    else
      out.push_back({run->step, 0, run->count});
  }
  return out;
}

bool Layout::same_reducers(const Placement& a, const Placement& b, int rank) const {
  const Sharers of_a = sharers(a, rank, Copies::partial), of_b = sharers(b, rank, Copies::partial);
  return of_a.stages == of_b.stages && merged(of_a) == merged(of_b);
}

int Layout::lowest(const Sharers& sharers) const {
  int place = 0;
  for (const Run& run : sharers.runs) place += run.step * run.first;
  return rank_of({sharers.stages.front(), place});
}

std::vector<int> Layout::reducers(const Placement& placement, int rank) const {
  return ranks_of(sharers(placement, rank, Copies::partial));
}

std::vector<int> Layout::holders(const Placement& placement, int rank) const {
  return ranks_of(sharers(placement, rank, Copies::all));
}

int Layout::first_reducer(const Placement& placement, int rank) const {
  return lowest(sharers(placement, rank, Copies::partial));
}

bool Layout::first_holder(const Placement& placement, int rank) const {
  return lowest(sharers(placement, rank, Copies::all)) == rank;
}

bool Layout::etp_inside_tp() const {
  const int tensor = stride(Axis::tp), expert = stride(Axis::etp);
  return size(Axis::etp) == 1 || (expert % tensor == 0 && tensor * size(Axis::tp) % (expert * size(Axis::etp)) == 0);
}

std::string Layout::to_string() const {
  const auto part = [&](Axis axis) { return cat(name_of(axis), " ", size(axis)); };
  return cat(part(Axis::pp), " x ", part(Axis::dp), " x ", part(Axis::cp), " x ", part(Axis::tp), " | ", part(Axis::pp),
             " x ", part(Axis::edp), " x ", part(Axis::ep), " x ", part(Axis::etp), " (",
             !order_.empty()                       ? cat("order ", order_)
             : expansion_ == Expansion::horizontal ? "horizontal"
                                                   : "vertical",
             ")");
}

std::vector<int> group_across_nodes(const Layout& layout, Axis axis, std::span<const int> node_of_rank) {
  std::vector<int> found;
  for_each_group(
      layout.world(), [&](int rank) { return layout.members(axis, rank); },
      [&](const std::vector<int>& ranks) {
        const auto elsewhere = [&](int r) { return node_of_rank[r] != node_of_rank[ranks.front()]; };
        if (found.empty() && std::ranges::any_of(ranks, elsewhere)) found = ranks;
      });
  return found;
}

}  // namespace hexad::mesh
