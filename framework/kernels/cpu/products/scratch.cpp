#include "framework/kernels/cpu/products/scratch.h"

#include <memory>
#include <new>

namespace hexad::kernels::cpu {
namespace {

constexpr std::align_val_t alignment{64};

struct Release {
  void operator()(void* p) const { ::operator delete(p, alignment); }
};

}  // namespace

void* scratch(int64_t bytes) {
  thread_local std::unique_ptr<void, Release> block;
  thread_local int64_t size = 0;
  if (bytes > size) {
    size = 0;
    block.reset();  // frees the old block before the new one is allocated
    block.reset(::operator new(bytes, alignment));
    size = bytes;
  }
  return block.get();
}

}  // namespace hexad::kernels::cpu
