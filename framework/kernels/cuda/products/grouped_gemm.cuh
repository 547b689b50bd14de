// Grouped products on Hopper's tensor cores, with one persistent CUTLASS kernel. The sizes of the problems are only in
// device memory. Each instantiation has a separate file, because it takes half a minute to compile. Without -DNDEBUG,
// CUTLASS's asserts serialize the products.
#pragma once

#include <cutlass/cutlass.h>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cute/tensor.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/dispatch_policy.hpp>
#include <cutlass/gemm/group_array_problem_shape.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/util/packed_stride.hpp>

#include "framework/kernels/cuda/launch.cuh"
#include "framework/kernels/cuda/products/group_order.h"
#include "framework/kernels/cuda/products/group_problem.h"
#include "framework/kernels/cuda/products/grouped_passes.h"
#include "framework/kernels/cuda/products/multiprocessors.h"

namespace hexad::kernels::cuda {

using base::Dtype;
using base::ExitCode;
using base::fail;
using tensor::device_raw;

/// The kernel of a pass with results of type Out. Its tiles and clusters were the fastest in all passes, for 8K to 256K
/// rows and 8 to 128 experts. They were compared with cooperative kernels with tiles of 256 x 128, and with ping-pong
/// kernels with tiles of 128 x 128.
template <GroupedPass pass, class Out>
struct GroupedGemm {
  using Element = cutlass::bfloat16_t;
  using Row = cutlass::layout::RowMajor;
  using Column = cutlass::layout::ColumnMajor;
  // All matrices are stored row-major. The kernel transposes a factor that is declared column-major.
  using LayoutA = std::conditional_t<pass == GroupedPass::weight_gradient, Column, Row>;
  using LayoutB = std::conditional_t<pass == GroupedPass::forward, Column, Row>;
  using Tile = cute::Shape<cute::_128, cute::_256, cute::_64>;
  using Cluster = cute::Shape<cute::_2, cute::_1, cute::_1>;
  static constexpr int aligned = 8, aligned_out = 16 / sizeof(Out);  // elements; TMA requires multiples of 16 bytes

  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
      cutlass::epilogue::collective::EpilogueTileAuto, float, float, Out, Row*, aligned_out, Out, Row*, aligned_out,
      cutlass::epilogue::PtrArrayTmaWarpSpecializedCooperative,
      cutlass::epilogue::fusion::LinearCombination<Out, float>>::CollectiveOp;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, LayoutA*, aligned, Element, LayoutB*, aligned,
      float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
      cutlass::gemm::KernelPtrArrayTmaWarpSpecializedCooperative>::CollectiveOp;
  using Problems = cutlass::gemm::GroupProblemShape<cute::Shape<int, int, int>>;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<Problems, Mainloop, Epilogue>;
  using Adapter = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

  using StrideA = typename Kernel::InternalStrideA;
  using StrideB = typename Kernel::InternalStrideB;
  using StrideD = typename Kernel::InternalStrideD;
  static_assert(std::is_same_v<StrideD, typename Kernel::InternalStrideC>);

  /// Data of each group, which the kernel reads from device memory. If results are added, d is updated in place.
  struct Groups {
    typename Problems::UnderlyingProblemShape* shapes = nullptr;
    const Element **a = nullptr, **b = nullptr;
    Out** d = nullptr;
    StrideA* stride_a = nullptr;
    StrideB* stride_b = nullptr;
    StrideD* stride_d = nullptr;
  };

  /// Number of clusters that the card can run at the same time. It is queried once per card.
  struct Occupancy {
    int clusters = cutlass::KernelHardwareInfo::query_device_max_active_clusters<Kernel>();
  };
};

/// Divides one block of memory into parts. Each part is aligned to 64 bytes, as tensor maps require. If the block
/// begins at nullptr, only the total size is computed.
class Parts {
 public:
  explicit Parts(void* begin) : begin_(reinterpret_cast<uintptr_t>(begin)), next_(begin_) {}
  template <class T>
  T* take(size_t count) {
    T* part = reinterpret_cast<T*>(next_);
    next_ += (count * sizeof(T) + 63) / 64 * 64;
    return part;
  }
  size_t bytes() const { return next_ - begin_; }

 private:
  uintptr_t begin_, next_;
};

template <class Gemm>
typename Gemm::Groups take_groups(Parts& parts, size_t groups) {
  return {.shapes = parts.take<std::remove_pointer_t<decltype(Gemm::Groups::shapes)>>(groups),
          .a = parts.take<const typename Gemm::Element*>(groups),
          .b = parts.take<const typename Gemm::Element*>(groups),
          .d = parts.take<std::remove_pointer_t<decltype(Gemm::Groups::d)>>(groups),
          .stride_a = parts.take<typename Gemm::StrideA>(groups),
          .stride_b = parts.take<typename Gemm::StrideB>(groups),
          .stride_d = parts.take<typename Gemm::StrideD>(groups)};
}

/// Writes the data of the groups in the order of place_of_group(), with one thread per group.
template <GroupedPass pass, class Out>
__global__ void describe_groups(typename GroupedGemm<pass, Out>::Groups to, const cutlass::bfloat16_t* a,
                                const cutlass::bfloat16_t* b, Out* d, const int64_t* offsets, int64_t groups,
                                int64_t features, int64_t width) {
  using Gemm = GroupedGemm<pass, Out>;
  const int64_t e = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (e >= groups) return;
  const GroupProblem p = group_problem(pass, e, offsets[e], offsets[e + 1], features, width);
  const int64_t place = place_of_group(pass, e, offsets, groups);
  to.shapes[place] = cute::make_shape(p.m, p.n, p.k);
  to.a[place] = a + p.a;
  to.b[place] = b + p.b;
  to.d[place] = d + p.d;
  to.stride_a[place] = cutlass::make_cute_packed_stride(typename Gemm::StrideA{}, cute::make_shape(p.m, p.k, 1));
  to.stride_b[place] = cutlass::make_cute_packed_stride(typename Gemm::StrideB{}, cute::make_shape(p.n, p.k, 1));
  to.stride_d[place] = cutlass::make_cute_packed_stride(typename Gemm::StrideD{}, cute::make_shape(p.m, p.n, 1));
}

/// Operands of the products d = a b of all groups, with weights [E, features, width].
struct GroupedOperands {
  const Tensor &d, &a, &b, &offsets;
  int64_t features, width;
};

/// Runs the kernel of `Gemm` on the groups of a pass. `Gemm` is GroupedGemm<pass, Out> or a type with an Adapter and an
/// Occupancy for the same clusters. set_epilogue(arguments, list) sets the arguments of the epilogue. `list` contains
/// the data of the groups.
template <GroupedPass pass, class Out, class Gemm, class SetEpilogue>
void run_groups(std::string_view op, Stream& stream, const GroupedOperands& operands, const SetEpilogue& set_epilogue) {
  const auto& [d, a, b, offsets, features, width] = operands;
  using Plain = GroupedGemm<pass, Out>;
  using Element = typename Plain::Element;
  const int64_t groups = offsets.numel() - 1;
  device::cuda::Card& card = cuda_stream(stream).card();
  const size_t count = groups;

  typename Gemm::Adapter::Arguments arguments{};
  arguments.mode = cutlass::gemm::GemmUniversalMode::kGrouped;
  arguments.problem_shape.num_groups = static_cast<int>(groups);
  arguments.hw_info.device_id = card.ordinal();
  const int multiprocessors = multiprocessors_of_products(card);
  arguments.hw_info.sm_count = multiprocessors;
  arguments.hw_info.max_active_clusters = std::min(card.shared<typename Gemm::Occupancy>().clusters,
                                                   multiprocessors / int{cute::size(typename Plain::Cluster{})});
  const size_t workspace_bytes = Gemm::Adapter::get_workspace_size(arguments);

  Parts measure(nullptr);
  measure.take<std::byte>(workspace_bytes);
  take_groups<Plain>(measure, count);
  const Tensor memory = Tensor::empty({static_cast<int64_t>(measure.bytes())}, Dtype::u8, d.device());
  Parts parts(device_raw(memory));
  std::byte* workspace = parts.take<std::byte>(workspace_bytes);
  const auto list = take_groups<Plain>(parts, count);

  constexpr int threads = 128;
  launch(op, describe_groups<pass, Out>, blocks_of(groups, threads), threads, stream, list,
         static_cast<const Element*>(device_raw(a)), static_cast<const Element*>(device_raw(b)),
         static_cast<Out*>(device_raw(d)), device_data<int64_t>(offsets), groups, features, width);

  arguments.problem_shape.problem_shapes = list.shapes;
  arguments.mainloop = {list.a, list.stride_a, list.b, list.stride_b};
  set_epilogue(arguments.epilogue, list);
  typename Gemm::Adapter gemm;
  const auto queue = cuda_stream(stream).handle();
  const cutlass::Status status = gemm.run(arguments, workspace, queue.get());
  if (status != cutlass::Status::kSuccess)
    fail(ExitCode::resource, "[", op, "] the CUTLASS kernel failed: ", cutlass::cutlassGetStatusString(status));
}

/// Computes d = a b, or d += a b, for each group, with weights [E, features, width].
template <GroupedPass pass, class Out>
void grouped_gemm(Stream& stream, const Tensor& d, const Tensor& a, const Tensor& b, const Tensor& offsets,
                  int64_t features, int64_t width, Write write) {
  using Gemm = GroupedGemm<pass, Out>;
  run_groups<pass, Out, Gemm>("grouped matmul", stream, {d, a, b, offsets, features, width},
                              [&](auto& epilogue, const typename Gemm::Groups& list) {
                                epilogue.thread.alpha = 1;
                                epilogue.thread.beta = write == Write::add ? 1 : 0;
                                epilogue.ptr_C = const_cast<const Out**>(list.d);
                                epilogue.dC = list.stride_d;
                                epilogue.ptr_D = list.d;
                                epilogue.dD = list.stride_d;
                              });
}

}  // namespace hexad::kernels::cuda
