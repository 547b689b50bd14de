// One pass of rows to the experts and back as a task graph. Forward and backward are the same pass: each step's adjoint
// is its counterpart on the way back.
#pragma once

#include <functional>
#include <vector>

#include "framework/kernels/kernel_table.h"
#include "framework/schedule/task_graph.h"
#include "layers/moe/pass/shared_work.h"
#include "layers/moe/schedule/issue_order.h"
#include "layers/moe/schedule/moe_schedule.h"
#include "parallel/ep/routing_plan.h"

namespace hexad::moe {

using namespace tensor;
using device::Stream;

/// Which rows the ranks of a group bring together after the way back, chunk by chunk.
struct RowCollection {
  const comm::ProcessGroup* group;
  std::vector<std::vector<int64_t>> counts;  // [chunks][ranks of the group]
};

/// Rows [R, D] and the numbers that accompany each of them, [R, X] acc, of rows of tokens X for each of a row's M
/// slots, [R, M X]; undefined: none.
struct Rows {
  Tensor values, extras{};
};

/// What is sent: row r is values[index[r]] (index undefined: values[r]) with extras[r].
struct RowSource {
  Tensor values, index{}, extras{};
  Tensor rows{};  // the inverse of `index`, where that names each row's token and is whole (PermuteKernels::gather)
};

/// Ranks that bring their rows together before a pass, and how.
struct Bringing {
  const comm::ProcessGroup* group = nullptr;  // null: nobody does
  std::function<void(Stream&)> work{};
  int64_t bytes = 0;  // that this rank sends
};

/// Work on a chunk beside the pass: a copy to or from where activations wait.
using Aside = std::function<void(Stream&, size_t chunk)>;

/// What a pass works on. Its tasks, in MPMoE's letters where it has them; i is the chunk:
///   B   ranks bring the tokens that they send together                                      intra
///   Pi  rows are brought into the order and format in which they are sent                   compute; bounded: copy
///   Ni  hierarchical: they are handed to the ranks of the node at the places of the
///       experts' ranks, in the order of the nodes (all-to-all inside nodes)                 intra
///   Si  they are sent to the experts' ranks (all-to-all; hierarchical: between nodes)       inter
///   Gi  ranks that share an expert's width gather what each of them got                     intra
///   Di  rows are copied to where they are computed                                          compute, intra or copy
///   H   the shared experts compute, when all is sent that comes before the first Ci         compute
///   Fi  what the experts need of an earlier pass is fetched                                 copy
///   Ci  the experts compute; C: of all chunks at once                                       compute
///   Oi  what a later pass needs is moved away                                               copy
///   Ui  results go back into the order and format in which the rows came; those of a
///       token's copies become their sum (EPS-MoE's LocalReduce)                             compute
///   Ai  results of ranks that share an expert's width are added up                          intra
///   Ri  they return (all-to-all; hierarchical: between nodes)                               inter
///   Ki  hierarchical: and inside nodes, to where they came from                             intra
///   Li  what returned is unpacked, added up where it came in addends, handed on             copy
///   Xi  tensor-parallel ranks gather what returned to each of them                          intra
///   Wi  weight gradients, while the next parts travel                                       compute
/// Pi to Di a second time, for rows that are sent again, are called P'i, N'i, S'i, G'i, D'i.
struct MoePass {
  const ep::RoutingPlan& plan;
  ep::ExpertGroups groups;
  Overlap overlap = Overlap::sequential;
  kernels::WireFormat wire = kernels::WireFormat::model;
  int64_t width;
  Dtype dtype;
  Device device;
  int64_t extras_there = 0, extras_back = 0;  // numbers that accompany each slot of a row
  /// Rows of tokens: the numbers that came with a row's slots weigh their results in the sum that returns.
  bool weighs = false;
  /// Chunks share two sets of buffers: a chunk starts only when the one before the last has returned, is computed only
  /// when the one before is, and its results are made ready only when they are there. Tensors are made when a task is
  /// issued, so all are issued late (TaskSpec::issued_late).
  bool bounded = false;
  /// Of a rank's threads, for experts that compute while other chunks are on their way.
  double compute_share = 1;
  /// Of the steps of chunks that are computed one after another.
  IssueOrder order = alternating_order();

  Bringing bring{};
  std::function<RowSource(Stream&, size_t chunk)> pack{};
  /// Rows that are sent again, for the experts to have them beside those of `pack`; may be empty.
  std::function<RowSource(Stream&, size_t chunk)> pack_again{};
  /// Grouped rows [R, width] to [R, width]; chunk 0 when they are computed together. `again`: see pack_again.
  std::function<Rows(Stream&, size_t chunk, Rows grouped, Tensor again)> compute{};
  Aside fetch{}, offload{};
  int64_t aside_bytes_per_row = 0;  // that each of them copies
  Aside weights{};                  // may be empty
  /// Takes the slot rows of a chunk; empty: they are put into `returned`.
  std::function<void(Stream&, size_t chunk, Rows slots)> accept{};
  double flops_per_row = 0;              // of one product
  schedule::ByPass<int64_t> products{};  // of each expert, in `compute`, ...
  int64_t weight_products = 0;           // ... and gradients in `weights`
  SharedWork shared{};
  const RowCollection* collection = nullptr;

  Tensor returned{};         // [S, width]: filled by the pass unless there is `accept`
  Tensor returned_extras{};  // [S, M X]: and the numbers beside them
  Tensor collected{};        // the collection's rows, chunk by chunk, in each by rank

  /// Rows of a chunk on their way.
  struct Travelling {
    Rows there;        // as they are computed
    Tensor weights;    // of the slots of rows of tokens, where the trip weighs
    Tensor again;      // the second ones
    Rows computed;     // grouped results
    Tensor returning;  // as they are sent
  };
  std::vector<Travelling> chunks{};
  Rows together{};  // grouped rows, then results, of all chunks
};

/// `trip` outlives the graph. Insertion order is trip.order; of chunks that are computed together S0 S1 ... C R0 R1 ...
/// W. Throws Error(usage) when the order is illegal.
schedule::TaskGraph make_pass_graph(MoePass& trip);

}  // namespace hexad::moe
