// One pass of an MoE layer, as data: rows are dispatched to the experts, computed, and combined. Forward and backward
// are the same pass: each step's adjoint is its counterpart on the way back.
//
// Tensors, in MPMoE's letters; backward moves their gradients the other way round:
//   T_I   [T, D]  the layer's input: this rank's tokens
//   T_DI  [C, D]  dispatched input: rows at their experts, grouped by local expert
//   T_M           expert activations: [C, 2 F] before the activation, gate and up side by side (GELU: [C, F]), and
//         [C, F]  after it
//   T_DO  [C, D]  the experts' output, grouped as T_DI
//   T_O   [T, D]  the layer's output: of each token the weighted sum of its slots' results
//
// Shapes. Tasks have letters, too: those with the number of a chunk (S0, C1), B and H, listed at MoePass.
//   T  tokens of this rank                     D  hidden size (MoePass::width)
//   K  slots of a token (top_k)                F  an expert's width on this rank
//   S  slot rows, as they return               R  rows that have arrived in a chunk
//   M  slots of a row; 1: rows are of slots    C  rows that are computed of a chunk, one for each slot
//   W  rows to send                            E/P  experts on this rank
// A slot is one (token, k) assignment to an expert; its routing weight travels beside its row where that is a token's.
#pragma once

#include <vector>

#include "framework/kernels/kernel_table.h"
#include "layers/moe/pass/shared_work.h"
#include "layers/moe/schedule/issue_order.h"
#include "layers/moe/schedule/moe_schedule.h"
#include "parallel/ep/routing_plan.h"

namespace hexad::moe {

using base::Dtype;
using device::Device;

using device::Stream;

/// Which rows the ranks of a group gather from each other after they have returned, chunk by chunk.
struct RowCollection {
  const comm::ProcessGroup* group;
  std::vector<std::vector<int64_t>> counts;  // [chunks][ranks of the group]
};

/// The rows that a pass sends and computes.
struct PassRows {
  int64_t width;
  Dtype dtype;
  Device device;
  int64_t weights_out = 0, weights_back = 0;  // row weights that accompany each slot of a row: dispatch, combine
  /// Rows of tokens: the weights that came with a row's slots weigh their results in the sum that returns.
  bool weighs = false;
};

/// Task B.
struct Gathering {
  const comm::ProcessGroup* group = nullptr;  // null: there is none
  int64_t bytes = 0;                          // that this rank sends
};

/// What MPMoE's strategies have besides.
struct ReusedActivations {
  bool inputs_again = false;                               // whether there are P' to D'
  int64_t fetched_row_bytes = 0, offloaded_row_bytes = 0;  // of F and O, for each row computed; 0: there are none
};

/// Of what experts compute in a pass; products are counted as Experts::products() does.
struct ExpertCost {
  double flops_per_row = 0;                  // of one product
  schedule::ByGemmPass<int64_t> products{};  // of each expert, in Ci
  int64_t weight_products = 0;               // of each expert, in Wi; 0: there is no Wi
};

/// Its tasks, in MPMoE's letters where it has them; i is the chunk:
///   dispatch.cpp
///   B   ranks gather the tokens that they send                                              intra
///   Pi  rows are brought into the order and format in which they are sent                   compute; bounded: copy
///   Ni  hierarchical: they are handed to the ranks of the node at the places of the
///       experts' ranks, in the order of the nodes (all-to-all inside nodes)                 intra
///   Si  they are sent to the experts' ranks (all-to-all; hierarchical: between nodes)       inter
///   Gi  ranks that share an expert's width gather what each of them got                     intra
///   Di  rows are copied to where they are computed                                          compute, intra or copy
///   Fi  what the experts need of an earlier pass is fetched                                 copy
///   expert_compute.cpp
///   H   the shared experts compute, when all is sent that comes before the first Ci         compute
///   Ci  the experts compute; C: of all chunks at once                                       compute
///   Oi  what a later pass needs is offloaded                                                copy
///   Wi  weight gradients, while the next chunks travel                                      compute
///   combine.cpp
///   Ui  results go back into the order and format in which the rows came; those of a
///       token's copies become their sum (EPS-MoE's LocalReduce)                             compute
///   Ai  results of ranks that share an expert's width are added up                          intra
///   Ri  they return (all-to-all; hierarchical: between nodes)                               inter
///   Ki  hierarchical: and inside nodes, to where they came from                             intra
///   Li  what returned is unpacked, added up where it came in addends, handed on             copy
///   Xi  tensor-parallel ranks gather what returned to each of them                          intra
/// Pi to Di a second time, for inputs that are sent again, are called P'i, N'i, S'i, G'i, D'i.
///
/// What the tasks do with rows is PassWork; what is on its way is in PassBuffers.
struct MoePass {
  const ep::RoutingPlan& plan;
  ep::ExpertGroups groups;
  Overlap overlap = Overlap::sequential;
  kernels::WireFormat wire = kernels::WireFormat::model;
  const kernels::WireKernels* wire_kernels = nullptr;  // that bring rows into that format; null: the device's
  PassRows rows;
  /// Chunks share two sets of buffers: a chunk starts only when the one before the last has returned, is computed only
  /// when the one before is, and its results are made ready only when they are there. Tensors are made when a task is
  /// issued, so all are issued late (TaskSpec::issued_late). PassWork::accept takes the slot rows of a chunk; they are
  /// not put into PassBuffers::returned.
  bool bounded = false;
  /// Of a rank's threads, for experts that compute while other chunks are on their way.
  double compute_share = 1;
  /// Of the steps of chunks that are computed one after another.
  IssueOrder order = alternating_order();

  Gathering gathering{};
  ReusedActivations reuse{};
  ExpertCost experts{};
  SharedWork shared{};
  const RowCollection* collection = nullptr;  // of X; null: there is none
};

}  // namespace hexad::moe
