#include "parallel/comm/nccl/registered.h"

#include <cstdio>
#include <vector>

#include "framework/device/cuda/thread_card.h"
#include "framework/tensor/device_access.h"

namespace hexad::comm::nccl {

using namespace base;

using device::cuda::Blocks;

std::shared_ptr<Registered> Registered::make(CardRank& card, ncclComm_t communicator, const std::string& name) {
  if (!card.options().register_buffers) return nullptr;
  return std::shared_ptr<Registered>(new Registered(card, communicator, name));
}

std::unique_lock<std::mutex> Registered::use(std::span<const Tensor* const> tensors, Stream& caller,
                                             const std::shared_ptr<TrafficStream>& stream) {
  Blocks& blocks = *device::cuda::cuda_stream(caller).blocks();
  std::vector<Blocks::Extent> whole;
  bool all = true;
  for (const Tensor* t : tensors) {
    if (!t->defined()) continue;
    const auto block = blocks.whole(tensor::device_raw(*t));
    all = all && block;
    if (block) whole.push_back(*block);
  }
  std::unique_lock lock(mutex_);
  if (!all) return lock;
  stream_ = stream;
  for (const Blocks::Extent& block : whole)
    if (!handles_.contains(block.begin)) add(blocks, block);
  return lock;
}

void Registered::add(Blocks& blocks, const Blocks::Extent& block) {
  const Library& nccl = card_.library();
  device::cuda::ensure_card(card_.ordinal());
  void* handle = nullptr;
  const ncclResult_t result = nccl.comm_register(communicator_, block.begin, block.bytes, &handle);
  check(nccl, result,
        cat("registering a buffer of ", block.bytes, " bytes with communicator ", name_,
            " (distributed.register_buffers: false avoids this)"));
  handles_.emplace(block.begin, handle);
  blocks.accompany(block.begin, std::shared_ptr<const void>(
                                    block.begin, [self = shared_from_this()](const void* b) { self->remove(b); }));
}

void Registered::remove(const void* block) {
  std::lock_guard lock(mutex_);
  const auto it = handles_.find(block);
  if (it == handles_.end()) return;  // the communicator has already ended
  void* const handle = it->second;
  handles_.erase(it);
  try {
    const Watch::HostCall call(card_.watch(), cat("deregistering a buffer of communicator ", name_));
    deregister(handle);
  } catch (const Error& e) {
    // Prints nothing after a failure, which has already been reported. In that case, aborting the communicators has
    // deregistered the buffers.
    if (card_.watch().has(communicator_)) std::fprintf(stderr, "hexad: %s\n", e.what());
  }
}

void Registered::end() {
  std::lock_guard lock(mutex_);
  if (handles_.empty()) return;
  const Watch::HostCall call(card_.watch(), cat("deregistering the buffers of communicator ", name_));
  stream_->stream().synchronize();
  for (const auto& [block, handle] : handles_) deregister(handle);
  handles_.clear();
}

void Registered::forget() {
  std::lock_guard lock(mutex_);
  handles_.clear();
}

void Registered::deregister(void* handle) {
  const Library& nccl = card_.library();
  device::cuda::ensure_card(card_.ordinal());
  check(nccl, nccl.comm_deregister(communicator_, handle), "deregistering a buffer of communicator " + name_);
}

}  // namespace hexad::comm::nccl
