#include "framework/device/cuda/cuda_stream.h"

#include "framework/base/error.h"
#include "framework/device/cuda/cuda_check.h"

namespace hexad::device::cuda {

Card::Card(int ordinal) : ordinal_(ordinal), clock_(std::make_shared<CardClock>(ordinal)) {
  check(cudaGetDeviceProperties(&properties_, ordinal), "reading the properties of the card");
}

void Card::reserve(int multiprocessors) {
  const int all = this->multiprocessors(), most = all - 2;
  if (multiprocessors < 0 || multiprocessors > most)
    base::fail(base::ExitCode::usage, "distributed.reserve_multiprocessors (", multiprocessors, ") must be from 0 to ",
               most, ", because the ", properties_.name, " has ", all, " multiprocessors, and GEMMs need at least two");
  reserved_ = multiprocessors == 0 ? 0 : all - (all - multiprocessors) / 2 * 2;
}

CudaStream::CudaStream(std::shared_ptr<Card> card, std::shared_ptr<Blocks> blocks, int priority)
    : card_(std::move(card)),
      blocks_(std::move(blocks)),
      priority_(priority),
      queue_(std::make_shared<Queue>(card_->ordinal(), priority, card_->clock())) {}

std::unique_ptr<CudaStream> CudaStream::beside(int priority) const {
  return std::make_unique<CudaStream>(card_, blocks_, priority);
}

void CudaStream::run(std::function<void()>) {
  base::fail_invariant(base::cat("[cuda] host work was appended to a stream of card ", card_->ordinal(),
                                 "; expected kernels and copies"));
}

CudaStream& cuda_stream(Stream& stream) {
  auto* cuda = dynamic_cast<CudaStream*>(&stream);
  base::require(cuda != nullptr, "[cuda] a kernel of the card was given a stream of ",
                stream.on_device() ? "another device" : "the host", "; expected a CudaStream");
  return *cuda;
}

}  // namespace hexad::device::cuda
