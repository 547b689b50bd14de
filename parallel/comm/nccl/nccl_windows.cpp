#include "parallel/comm/nccl/nccl_windows.h"

#include <exception>

#include "framework/device/cuda/thread_card.h"
#include "framework/tensor/device_access.h"
#include "framework/tensor/host_read.h"
#include "parallel/comm/nccl/window_distances.h"

namespace hexad::comm::nccl {

using namespace base;
using device::Category;

NcclWindows::NcclWindows(std::shared_ptr<CardRank> card, std::shared_ptr<Communicator> communicator,
                         std::shared_ptr<TrafficStream> stream, const ProcessGroup& control)
    : card_(std::move(card)),
      communicator_(std::move(communicator)),
      stream_(std::move(stream)),
      control_(control),
      exceptions_(std::uncaught_exceptions()) {}

NcclWindows::~NcclWindows() {
  if (std::uncaught_exceptions() == exceptions_) free();
}

WindowMemory::Block NcclWindows::allocate(int64_t bytes, Device device) {
  const Library& nccl = card_->library();
  const Watch::HostCall call(card_->watch(), cat("registering windows of group ", control_.name()));
  device::cuda::use_card(card_->ordinal());
  stream_->stream().synchronize();
  communicator_->take_memory(bytes, [&] {
    free();
    check(nccl, nccl.mem_alloc(&memory_, bytes), "allocating a window");
    check(nccl, nccl.comm_window_register(communicator_->handle(), memory_, bytes, &window_, NCCL_WIN_COLL_SYMMETRIC),
          "registering a window");
  });
  refuse_if(!is_mapped(window_), device);
  Block block{.own = tensor::DeviceAccess::borrowed(static_cast<std::byte*>(memory_), bytes, device),
              .distances = Tensor::empty({control_.size()}, Dtype::i64, device, Category::communication)};
  device::cuda::CudaStream& compute = device::cuda::cuda_stream(device.context().compute());
  auto* const distances = tensor::device_data<int64_t>(block.distances);
  compute.touch(distances);
  {
    const auto handle = compute.handle();
    write_distances(handle.get(), distances, window_, memory_, control_.rank(), control_.size());
  }
  const tensor::HostRead read = tensor::read_to_host("windows: addresses", block.distances, compute);
  refuse_if(read.wait<int64_t>()[control_.rank()] != 0, device);
  return block;
}

// Throws Error(resource) on all ranks if `unfit` is true on any rank.
void NcclWindows::refuse_if(bool unfit, Device device) const {
  if (control_.any(unfit, device))
    fail(ExitCode::resource, "schedule.moe.all_to_all is window, but NCCL cannot map the memory of each card of group ",
         control_.name(), " for all others; legal here: direct");
}

void NcclWindows::free() noexcept {
  if (!memory_) return;
  const Library& nccl = card_->library();
  const device::cuda::OnCard on(card_->ordinal());
  // Errors are ignored, because the communicator reports them. An aborted communicator has no windows any more.
  if (window_ && card_->watch().has(communicator_->handle()))
    static_cast<void>(nccl.comm_window_deregister(communicator_->handle(), window_));
  static_cast<void>(nccl.mem_free(memory_));
  memory_ = nullptr, window_ = nullptr;
}

}  // namespace hexad::comm::nccl
