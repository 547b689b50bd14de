// Return of rows in phases, after a dispatch in one all-to-all: Parm's SAA (section III-D). Tensor-parallel ranks can
// gather the rows of one phase while the rows of the next phase return.
#pragma once

#include <span>
#include <vector>

#include "parallel/comm/node_groups.h"
#include "parallel/ep/moved_rows.h"
#include "parallel/ep/row_ranges.h"

namespace hexad::ep {

/// Order in which rows return. Rank p * fan + j of the all-to-all is rank p of an ep group with `ep` ranks. It is also
/// rank j of the `fan` ranks that each return an addend of the same rows. The distance from the rank of a token to the
/// rank of an expert is (d, i). i is the distance in the ring of the `fan` ranks. d is the distance in the ring of the
/// ep ranks if the grid of the ep group has one level. With two levels, d is (distance between the nodes) * places +
/// (distance between the places), each in its ring. Only (d, i) determines the phase of a row. Therefore, in each
/// phase, all ranks send to the same number of ranks, and receive from the same number of ranks. With two levels, the
/// peers at distance d are on the own node for all ranks, or on another node for all ranks. No phase therefore uses the
/// links between nodes in one direction only. With n phases, the phase is:
///   n <= ep        d mod n, so that every phase has about the same number of rows for other nodes
///   n = ep * fan   d * fan + i: one rank in each phase (Parm, Fig. 5), first the ranks of the own node
/// A set contains the rows with the same phase or, if n = ep * fan, with the same d. All addends of a set return in one
/// phase, or in `fan` consecutive phases.
class ReturnOrder {
 public:
  /// Makes the order with `phases` phases, or with the next lower legal number of phases. Legal numbers are 1 to the
  /// number of ep ranks, and this number times `fan`. All rows return in one phase if there is one ep
  /// rank. `node_of_rank` has the node of each ep rank.
  ReturnOrder(std::span<const int> node_of_rank, int fan, int phases);

  int phases() const { return phases_; }
  int sets() const { return phases_ < ep_ ? phases_ : ep_; }
  /// Returns the set of the rows that ep rank `token` sends to ep rank `expert`. Sets are numbered in the order of
  /// their return.
  int set(int token, int expert) const { return distance(token, expert) % sets(); }
  /// Returns the phase in which rank `expert` of the all-to-all returns rows to rank `token`.
  int phase(int token, int expert) const;
  /// The next two functions return the first phase of a set, and the number of phases of each set.
  int first_phase(int set) const { return set * phases_of_set(); }
  int phases_of_set() const { return phases_ > ep_ ? fan_ : 1; }

 private:
  int distance(int token, int expert) const;

  comm::NodeGrid grid_;  // grid of the ep ranks
  int ep_, fan_, phases_;
};

/// Rows that return to this rank in one phase, and rows that this rank returns in the same phase.
struct ReturnPhase : MovedRows {
  RowRanges leaving;  // rows to return, among the rows that arrived
  RowRanges landing;  // rows that return, among the rows that this rank sent
};

/// Slot rows of this rank whose addends return in the phases [first_phase, end_phase).
struct ReturnSet {
  int first_phase, end_phase;
  RowRanges slots;
};

/// Phases and sets of the rows of one rank. Both are empty if rows return in a single all-to-all.
struct PhasedReturn {
  std::vector<ReturnPhase> phases;
  std::vector<ReturnSet> sets;
};

/// Arguments of phased_return(), for rank `rank` of the all-to-all.
struct ReturnSite {
  int rank, fan;                      // fan: as in ReturnOrder
  const MovedRows& all;               // rows of all phases
  std::span<const int> destinations;  // ranks of the all-to-all, in the order in which this rank sends to them
  const comm::NodeGrid& grid;
  RowsBetween between;  // numbers of rows that ranks send to each other; called only if all.steps is set
};
/// Returns the phases and sets of rank `site.rank`.
PhasedReturn phased_return(const ReturnOrder& order, const ReturnSite& site);

}  // namespace hexad::ep
