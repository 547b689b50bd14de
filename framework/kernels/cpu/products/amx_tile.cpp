#include "framework/kernels/cpu/products/pair_product.h"

// Products with the matrix unit (AMX). The sums are kept in registers, as 2 x 2 tiles.
namespace hexad::kernels::cpu::HEXAD_ISA {
namespace {

/// Tells GCC that tile instructions read memory. Without this call, GCC could remove or delay earlier stores to that
/// memory.
inline void memory_is_up_to_date(const void* p) { asm volatile("" ::"r"(p) : "memory"); }

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

void configure_tiles() {
  TileConfig config;
  for (int i = 0; i < 8; ++i) config.row_bytes[i] = 64, config.rows[i] = 16;
  memory_is_up_to_date(&config);
  _tile_loadconfig(&config);
}

/// Executes eight no-operation instructions between two tile instructions. Without them, tile instructions run at two
/// thirds of their speed if the core's other hyperthread is busy. If this hyperthread is idle, the no-operation
/// instructions do not affect the speed.
inline void gap() { asm volatile("nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop"); }

struct MatrixUnit {
  static constexpr PairBlocks blocks = amx::blocks;

  /// Multiplies all 32 rows, even if fewer are requested.
  static void multiply(const Sums& to, const Sums& from, const Factors& factors, InterleavedWork& interleaved) {
    memory_is_up_to_date(from.data);
    if (from.data) {
      const auto bytes = static_cast<size_t>(from.stride) * sizeof(float);
      _tile_loadd(0, from.data, bytes);
      _tile_loadd(1, from.data + side, bytes);
      _tile_loadd(2, from.data + side * from.stride, bytes);
      _tile_loadd(3, from.data + side * from.stride + side, bytes);
    } else {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
    const Strip& a = factors.a;
    const char *upper = a.data, *lower = a.data + side * a.row, *b = factors.b;
    const size_t a_row = a.row;
    for (int64_t i = 0; i < factors.steps(); ++i, upper += a.step, lower += a.step, b += step_bytes) {
      _tile_loadd(4, upper, a_row);
      gap();
      _tile_loadd(6, b, 64);
      gap();
      _tile_loadd(7, b + tile_bytes, 64);
      gap();
      _tile_loadd(5, lower, a_row);
      gap();
      _tile_dpbf16ps(0, 4, 6);
      gap();
      _tile_dpbf16ps(1, 4, 7);
      gap();
      _tile_dpbf16ps(2, 5, 6);
      gap();
      _tile_dpbf16ps(3, 5, 7);
      gap();
      interleaved.step();
    }
    const auto bytes = static_cast<size_t>(to.stride) * sizeof(float);
    _tile_stored(0, to.data, bytes);
    _tile_stored(1, to.data + side, bytes);
    _tile_stored(2, to.data + side * to.stride, bytes);
    _tile_stored(3, to.data + side * to.stride + side, bytes);
  }
};

}  // namespace

void gemm_tile(const GemmTile& t, const GemmTile* next, void* scratch) {
  configure_tiles();
  multiply_tile<MatrixUnit>(t, next, scratch);
  _tile_release();
}

}  // namespace hexad::kernels::cpu::HEXAD_ISA
