// Grouped products on Hopper's tensor cores whose epilogue is a function of the sums in registers.
#pragma once

#include "framework/kernels/cuda/products/grouped_gemm.cuh"
#include "framework/kernels/cuda/products/wgmma_sums.h"

namespace hexad::kernels::cuda {

/// True if CUTLASS's products by `Mma` have their sums at place_of_sum(). Compares all sums of some threads.
template <class Mma, class Tile>
constexpr bool has_sums_in_place() {
  constexpr int rows = cute::size<0>(Tile{}), columns = cute::size<1>(Tile{}), threads = cute::size(Mma{});
  constexpr auto index = decltype(Mma{}.thrfrg_C(cute::Layout<cute::Shape<cute::Int<rows>, cute::Int<columns>>>{})){};
  for (int thread = 0; thread < threads; thread += 29)
    for (int i = 0; i < rows * columns / threads; ++i) {
      const SumPlace place = place_of_sum(thread, i, columns);
      if (index(thread, i) != place.row + place.column * rows) return false;
    }
  return true;
}

/// Epilogue for CUTLASS's kernels that gives the sums of each tile to `Store`. It uses no shared memory and has no
/// source operand. A `Store` object is also the argument of the epilogue. All threads of a tile call store(problem,
/// tile, sums, thread) of `Store`. `tile` has the tile's indices (rows, columns, terms, group).
template <class Plain, class Store>
struct StoringEpilogue {
  using DispatchPolicy = cutlass::epilogue::PtrArrayNoSmemWarpSpecialized;
  using ThreadEpilogueOp = void;
  using ElementC = typename Plain::Element;
  using ElementD = typename Plain::Element;
  using StrideC = typename Plain::StrideD*;
  using StrideD = typename Plain::StrideD*;
  using InternalStrideC = typename Plain::StrideD;
  using InternalStrideD = typename Plain::StrideD;
  struct SharedStorage {};
  using Arguments = Store;
  using Params = Store;

  template <class Problems>
  static constexpr Params to_underlying_arguments(const Problems&, const Arguments& arguments, void*) {
    return arguments;
  }
  template <class Problems>
  static size_t get_workspace_size(const Problems&, const Arguments&, int) {
    return 0;
  }
  template <class Problems>
  static cutlass::Status initialize_workspace(const Problems&, const Arguments&, void*, cudaStream_t,
                                              cutlass::CudaHostAdapter* = nullptr) {
    return cutlass::Status::kSuccess;
  }
  template <class Problems>
  static bool can_implement(const Problems&, const Arguments&) {
    return true;
  }

  CUTLASS_HOST_DEVICE explicit StoringEpilogue(const Params& params_) : params(params_) {}

  template <class Problem, class Tile, class Coordinate, class Engine, class Layout, class Mma, class Residue>
  CUTLASS_DEVICE void operator()(const Problem& problem, Tile, const Coordinate& tile,
                                 const cute::Tensor<Engine, Layout>& sums, Mma, Residue, int thread, char*) const {
    static_assert(has_sums_in_place<Mma, Tile>());
    static_assert(
        cute::is_same_v<decltype(cute::coalesce(Layout{})), cute::Layout<decltype(cute::size(Layout{})), cute::_1>>);
    params.store(problem, tile, sums, thread);
  }

  Params params;
};

/// Kernel with the clusters and operands of `Plain`, a mainloop, and StoringEpilogue<Plain, Store>.
template <class Plain, class MainloopType, class Store>
struct GemmWithStore {
  using Mainloop = MainloopType;
  using Epilogue = cutlass::epilogue::collective::detail::Sm90TmaWarpSpecializedAdapter<StoringEpilogue<Plain, Store>>;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<typename Plain::Problems, Mainloop, Epilogue>;
  using Adapter = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;
  static_assert(std::is_same_v<typename Kernel::InternalStrideA, typename Plain::StrideA>);
  static_assert(std::is_same_v<typename Kernel::InternalStrideB, typename Plain::StrideB>);
  static_assert(Kernel::SharedStorageSize <= cutlass::gemm::collective::detail::sm90_smem_capacity_bytes);

  /// Number of clusters that the card can run at the same time. It is queried once per card.
  struct Occupancy {
    int clusters = cutlass::KernelHardwareInfo::query_device_max_active_clusters<Kernel>();
  };
};

/// CUTLASS's mainloop for the operands of `Plain`. The epilogue has no shared memory.
template <class Plain, class Tile, class Schedule>
using MainloopOf = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, typename Plain::Element, typename Plain::LayoutA*,
    Plain::aligned, typename Plain::Element, typename Plain::LayoutB*, Plain::aligned, float, Tile,
    typename Plain::Cluster, cutlass::gemm::collective::StageCountAutoCarveout<0>, Schedule>::CollectiveOp;

}  // namespace hexad::kernels::cuda
