#include "parallel/comm/nccl/nccl_windows.h"

#include <exception>
#include <utility>

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
  if (std::uncaught_exceptions() == exceptions_) free(memory_);
}

std::optional<WindowMemory::Block> NcclWindows::allocate(int64_t bytes, Device device) {
  const Watch::HostCall call(card_->watch(), cat("registering windows of group ", control_.name()));
  device::cuda::use_card(card_->ordinal());
  stream_->stream().synchronize();
  Block block;
  const bool none_for_distances = lacks_memory(
      [&] { block.distances = Tensor::empty({control_.size()}, Dtype::i64, device, Category::communication); });
  Memory taken;
  // Passes 0 as the expected bytes, because take() itself handles a lack of memory. With a larger number, the error of
  // a lost rank could be reported as a lack of memory.
  communicator_->take_memory(0, [&] {
    taken = take(bytes, none_for_distances, device);
    if (taken.begin) free(std::exchange(memory_, taken));
  });
  if (!taken.begin) return {};
  refuse_if(!is_mapped(memory_.window), device);
  block.own = tensor::DeviceAccess::borrowed(static_cast<std::byte*>(memory_.begin), bytes, device);
  device::cuda::CudaStream& compute = device::cuda::cuda_stream(device.context().compute());
  auto* const distances = tensor::device_data<int64_t>(block.distances);
  compute.touch(distances);
  {
    const auto handle = compute.handle();
    write_distances(handle.get(), distances, memory_.window, memory_.begin, control_.rank(), control_.size());
  }
  const tensor::HostRead read = tensor::read_to_host("windows: addresses", block.distances, compute);
  refuse_if(read.wait<int64_t>()[control_.rank()] != 0, device);
  return block;
}

// Allocates the memory and registers it as a window. After each of these two steps, the ranks agree whether all of them
// succeeded. If a rank failed, all ranks free their memory. Registering waits for all ranks, so no rank may register
// alone.
NcclWindows::Memory NcclWindows::take(int64_t bytes, bool refused, Device device) const {
  const Library& nccl = card_->library();
  Memory memory;
  refused = refused || out_of_memory(nccl.mem_alloc(&memory.begin, bytes), "allocating a window");
  if (refused) memory.begin = nullptr;
  if (!control_.any(refused, device)) {
    const ncclResult_t result = nccl.comm_window_register(communicator_->handle(), memory.begin, bytes, &memory.window,
                                                          NCCL_WIN_COLL_SYMMETRIC);
    if (!control_.any(out_of_memory(result, "registering a window"), device)) return memory;
  }
  free(memory);
  return {};
}

// NCCL reports a lack of memory as a CUDA error.
bool NcclWindows::out_of_memory(ncclResult_t result, std::string_view what) const {
  if (result == ncclUnhandledCudaError) {
    static_cast<void>(cudaGetLastError());  // clears the error, which later calls would otherwise report
    return true;
  }
  check(card_->library(), result, what);
  return false;
}

// Throws Error(resource) on all ranks if `unfit` is true on any rank.
void NcclWindows::refuse_if(bool unfit, Device device) const {
  if (control_.any(unfit, device))
    fail(ExitCode::resource, "schedule.moe.all_to_all is window, but NCCL cannot map the memory of each card of group ",
         control_.name(), " for the other cards of the group; legal here: direct");
}

void NcclWindows::free(const Memory& memory) const noexcept {
  if (!memory.begin) return;
  const Library& nccl = card_->library();
  const device::cuda::OnCard on(card_->ordinal());
  // Errors are ignored, because the communicator reports them. An aborted communicator has no windows any more.
  if (memory.window && card_->watch().has(communicator_->handle()))
    static_cast<void>(nccl.comm_window_deregister(communicator_->handle(), memory.window));
  static_cast<void>(nccl.mem_free(memory.begin));
}

}  // namespace hexad::comm::nccl
