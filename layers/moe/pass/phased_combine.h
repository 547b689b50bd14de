// Return of results in phases (Parm's SAA): rows of one phase return while ranks gather the rows of the previous phase.
#pragma once

#include "layers/moe/pass/pass_graph.h"

namespace hexad::moe {

/// Results on the experts' rank, in wire format and in the order in which their rows arrived.
struct ReadyRows {
  TaskId by;  // task that makes the rows
  Handoff<Rows> rows;
};

/// Destination of the rows that return.
struct PhasedReturnTarget {
  Handoff<Rows> slot_rows;          // slot rows of the pass
  bool in_place;                    // true: the all-to-alls write the slot rows
  const RowCollection* collection;  // null: slot rows are not gathered
  Tensor collected;                 // receives the gathered slot rows of the collection
};

/// Adds the following tasks for the phases and sets of RoutingCounts::phased:
///   combine.a2a[f]         returns the rows of phase f; in a hierarchical all-to-all, only between nodes
///   combine.a2a_inside[f]  only hierarchical: returns the rows of phase f to their sources inside nodes
///   combine.unpack[g]      unpacks the rows of set g and sums addends; omitted if the all-to-alls write the slot rows
///   combine.all_gather[g]  only with a RowCollection: gathers the slot rows of set g on each tensor-parallel rank
void add_phased_return(PassGraph& g, const RowFormat& format, const ReadyRows& ready, const PhasedReturnTarget& target);

}  // namespace hexad::moe
