#include "framework/device/cuda/whole_blocks.h"

#include "framework/base/error.h"

namespace hexad::device::cuda {
namespace {

CUdeviceptr address(const void* block) { return reinterpret_cast<CUdeviceptr>(block); }

}  // namespace

WholeBlocks::~WholeBlocks() {
  for (const auto& [block, piece] : blocks_) {
    driver_.drop(address(block), piece.bytes, piece.page);
    driver_.give_back_addresses(address(block), piece.bytes);
  }
}

void* WholeBlocks::take(int64_t bytes) {
  const int64_t size = size_of(bytes);
  const CUdeviceptr begin = driver_.reserve(size);
  Driver::Page page{};
  try {
    if (!driver_.map(begin, size, page)) {
      driver_.give_back_addresses(begin, size);
      return nullptr;
    }
  } catch (const base::Error&) {
    driver_.give_back_addresses(begin, size);
    throw;
  }
  void* const block = reinterpret_cast<void*>(begin);
  blocks_.emplace(block, Piece{size, page});
  held_ += size;
  return block;
}

void WholeBlocks::give(void* block) {
  const auto it = blocks_.find(block);
  driver_.unmap(address(block), it->second.bytes, it->second.page);
  driver_.give_back_addresses(address(block), it->second.bytes);
  held_ -= it->second.bytes;
  blocks_.erase(it);
}

}  // namespace hexad::device::cuda
