#include "parallel/comm/windows.h"

#include <algorithm>

#include "framework/tensor/device_access.h"

namespace hexad::comm {

using namespace base;
using device::Category;

Windows::~Windows() {
  if (!own_.defined()) return;
  if (std::uncaught_exceptions() > exceptions_) {
    // Deliberately leaks the window, because the other ranks may still access it. They may wait for this rank, so this
    // rank must not wait for them.
    static_cast<void>(new auto(own_.storage()));
    return;
  }
  try {
    closed_.wait();
  } catch (...) {  // ignored: a peer has ended early; the error of the peer or the next operation reports this
  }
}

const std::string& Windows::refusal(Device device) {
  if (refusal_) return *refusal_;
  if (group_.crosses_nodes())
    return refusal_.emplace(cat("the ranks of group ", group_.name(), " are on several nodes"));
  memory_ = group_.window_memory();
  if (memory_) return refusal_.emplace();
  if (!group_.in_one_process())
    return refusal_.emplace(
        cat("the ranks of group ", group_.name(), " are neither connected by NCCL nor threads of one process"));
  const int64_t number = device.context().memory_number();
  if (!group_.same_on_all(std::span(&number, 1), device))
    return refusal_.emplace(cat("the ranks of group ", group_.name(), " have different cards"));
  return refusal_.emplace();
}

bool Windows::hold(int64_t bytes, Device device) {
  wanted_ = std::max(wanted_, bytes);
  if (!own_.defined() && bytes > 0 && !refused_) allocate(bytes, device);
  return own_.defined() && bytes <= own_.bytes() && device.has_memory();
}

void Windows::grow() {
  if (own_.defined() && wanted_ > own_.bytes() && !refused_) allocate(wanted_, own_.device());
}

void Windows::allocate(int64_t bytes, Device device) {
  constexpr int64_t spare = 4, page = 4096;  // windows have a quarter more bytes than requested, in whole pages
  const int64_t size = (bytes + bytes / spare + page - 1) / page * page;
  closed_.wait();
  if (!memory_) memory_ = group_.window_memory();
  // A rank that lacks memory must not return alone, because the other ranks would wait for this rank.
  const auto token = [&] {
    if (!token_.defined()) token_ = Tensor::zeros({1}, Dtype::i32, device, Category::communication);
  };
  std::optional<WindowMemory::Block> block;
  if (!memory_)
    block = allocate_in_process(size, device);
  else if (!group_.any(lacks_memory(token), device))
    block = memory_->allocate(size, device);
  if (!block) {
    refused_ = true, unreported_ = size;
    return;
  }
  own_ = std::move(block->own), distances_ = std::move(block->distances), fresh_ = true;
}

std::optional<WindowMemory::Block> Windows::allocate_in_process(int64_t bytes, Device device) const {
  WindowMemory::Block block;
  const auto take = [&] {
    block.own = Tensor::empty({bytes}, Dtype::u8, device, Category::communication);
    block.distances = Tensor::empty({group_.size()}, Dtype::i64, device, Category::communication);
  };
  if (!device.has_memory()) {
    take();
    return block;
  }
  if (group_.any(lacks_memory(take), device)) return {};
  // The queues of other ranks do not wait for the earlier users of this memory. Therefore, this rank waits for these
  // users.
  Stream& compute = device.context().compute();
  block.own.fill_bytes(0, compute);
  compute.synchronize();
  const auto address =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(device.context().kernel_address(tensor::device_raw(block.own))));
  std::vector<int64_t> distances = group_.all_gather_values(std::span(&address, 1), device);
  for (int64_t& d : distances) d -= address;
  block.distances.upload(distances.data());
  return block;
}

// Returns an event that is done once the streams of all ranks have reached this call. The barrier is a maximum over the
// ranks if memory_ is set: this operation ends on no rank before all ranks have begun it, and no host waits for it. The
// end of a kernel makes its stores to the memory of peers visible before later work of its queue begins.
Event Windows::barrier(Stream& stream) const {
  return memory_ ? group_.all_reduce(token_, Reduce::max, stream) : group_.barrier(stream);
}

}  // namespace hexad::comm
