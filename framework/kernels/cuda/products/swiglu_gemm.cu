// The first product of SwiGLU experts with their activation in its epilogue. CUTLASS's grouped kernel computes tiles of
// 256 columns. A tile has 128 columns of gate and the same columns of up, so that a thread has both in registers.
#include "framework/kernels/cuda/products/gemm_with_store.cuh"
#include "framework/kernels/cuda/products/swiglu_tile.cuh"

namespace hexad::kernels::cuda::tensor_cores {
namespace {

using Plain = GroupedGemm<GroupedPass::forward, cutlass::bfloat16_t>;
static_assert(SwigluTile::columns == swiglu_columns);

/// Returns the layout of the tiles of w: (rows of a tile, terms of a tile, tiles of rows, tiles of terms, 1). Row c of
/// tile n is row 128 * n + c of gate if c < 128, otherwise row 128 * n + c - 128 of up. `plain` is CUTLASS's layout of
/// these tiles. `gates` is the number of rows of gate.
template <class TileLayout, class Gates>
CUTE_HOST_DEVICE constexpr auto gate_up_tiles(const TileLayout& plain, Gates gates) {
  using namespace cute;
  constexpr Int<SwigluTile::columns> part{};
  const auto row = stride<0>(plain);
  return make_layout(
      make_shape(make_shape(part, Int<2>{}), shape<1>(plain), shape<2>(plain), shape<3>(plain), shape<4>(plain)),
      make_stride(make_stride(row, gates * row), stride<1>(plain), part * row, stride<3>(plain), stride<4>(plain)));
}

/// Mainloop whose tiles of w are gate_up_tiles(). A cluster has two blocks of threads. Each block loads half of a tile
/// of w for both blocks: the first block loads gate, and the second loads up.
template <class Base>
struct GateUpMainloop : Base {
  static_assert(cute::size<0>(typename Base::DispatchPolicy::ClusterShape{}) == 2);
  static_assert(cute::size<1>(typename Base::TileShape{}) == 2 * SwigluTile::columns);

  /// Returns the tiles of x and w, like CUTLASS's function.
  template <class Problem>
  CUTLASS_DEVICE auto load_init(const Problem& problem, const typename Base::Params& params) const {
    const auto tiles = Base::load_init(problem, params);
    const auto plain = cute::get<1>(tiles);
    return cute::make_tuple(
        cute::get<0>(tiles),
        cute::make_tensor(plain.data(), gate_up_tiles(plain.layout(), int{cute::get<1>(problem) / 2})));
  }
};

/// Returns the first term (`dimension` 0) or the first row (`dimension` 1) of a part of w. Block `block` of a cluster
/// loads this part for row tile `tile` and term tile `k`. A term tile has 64 terms. For the static_asserts that call
/// this function, experts have 384 rows of gate.
template <class Mainloop, int block, int tile, int k, int dimension>
constexpr int loaded_at() {
  using namespace cute;
  using Tiles =
      decltype(gate_up_tiles(make_layout(cute::Shape<_256, _64, _3, Int<5>, _1>{},
                                         make_stride(E<1>{}, E<0>{}, _256{} * E<1>{}, _64{} * E<0>{}, E<2>{})),
                             Int<384>{}));
  using Parts = decltype(Mainloop::TMA_B::tidfrg_S(Tiles{}));
  static_assert(size<0>(Parts{}) == 2);
  using Coordinate = decltype(Parts{}(Int<block>{}, _0{}, make_coord(_0{}, _0{}, Int<tile>{}, Int<k>{}, _0{})));
  return decltype(get<dimension>(Coordinate{}))::value;
}

/// Arguments of the epilogue. Tiles are stored with store_swiglu_tile().
struct SwigluStore {
  const int64_t* offsets;  // first row of each group
  __nv_bfloat16 *gate_up, *activated;
  const float* weights;  // weights of all rows; null: all weights are 1
  int64_t width;         // columns of `activated`

  template <class Problem, class Coordinate, class Sums>
  CUTLASS_DEVICE void store(const Problem& problem, const Coordinate& tile, const Sums& sums, int thread) const {
    const int64_t first = int64_t{cute::get<0>(tile)} * SwigluTile::rows, group = cute::get<3>(tile);
    const int64_t row = offsets[group] + first, column = int64_t{cute::get<1>(tile)} * SwigluTile::columns;
    __nv_bfloat16* const gate = gate_up + row * 2 * width + column;
    store_swiglu_tile({.gate = gate,
                       .up = gate + width,
                       .activated = activated + row * width + column,
                       .stride = 2 * width,
                       .activated_stride = width,
                       .weights = weights ? weights + row : nullptr,
                       .existing = cute::get<0>(problem) - first},
                      sums, thread);
  }
};

using Mainloop =
    GateUpMainloop<MainloopOf<Plain, Plain::Tile, cutlass::gemm::KernelPtrArrayTmaWarpSpecializedCooperative>>;
static_assert(loaded_at<Mainloop, 0, 2, 3, 0>() == 3 * 64 && loaded_at<Mainloop, 0, 2, 3, 1>() == 2 * 128);
static_assert(loaded_at<Mainloop, 1, 2, 3, 0>() == 3 * 64 && loaded_at<Mainloop, 1, 2, 3, 1>() == 384 + 2 * 128);
using Gemm = GemmWithStore<Plain, Mainloop, SwigluStore>;

}  // namespace

void swiglu_forward_in_one_kernel(Stream& stream, const Tensor& gate_up, const Tensor& activated, const Tensor& x,
                                  const Tensor& w, const Tensor& offsets, const Tensor& weights) {
  run_groups<GroupedPass::forward, Plain::Element, Gemm>("grouped swiglu", stream,
                                                         {gate_up, x, w, offsets, gate_up.dim(-1), x.dim(-1)},
                                                         [&](SwigluStore& epilogue, const Plain::Groups&) {
                                                           epilogue = {.offsets = device_data<int64_t>(offsets),
                                                                       .gate_up = pointer<bf16>(gate_up),
                                                                       .activated = pointer<bf16>(activated),
                                                                       .weights = pointer<float>(weights),
                                                                       .width = activated.dim(-1)};
                                                         });
}

}  // namespace hexad::kernels::cuda::tensor_cores
