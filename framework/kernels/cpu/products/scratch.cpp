#include "framework/kernels/cpu/products/scratch.h"

#include <array>
#include <memory>
#include <new>

#include "framework/base/ordinal.h"

namespace hexad::kernels::cpu {
namespace {

constexpr std::align_val_t alignment{64};

struct Release {
  void operator()(void* p) const { ::operator delete(p, alignment); }
};

struct Block {
  std::unique_ptr<void, Release> memory;
  int64_t size = 0;  // bytes
};

}  // namespace

void* scratch(Scratch use, int64_t bytes) {
  thread_local std::array<Block, base::ordinal(Scratch::sums) + 1> blocks;  // one for each use
  auto& [block, size] = blocks[base::ordinal(use)];
  if (bytes > size) {
    size = 0;
    block.reset();  // frees the old block before the new one is allocated
    block.reset(::operator new(bytes, alignment));
    size = bytes;
  }
  return block.get();
}

}  // namespace hexad::kernels::cpu
