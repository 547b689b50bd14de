// Kernel launches that announce the memory that they read and write.
#pragma once

#include <span>
#include <type_traits>

#include "framework/device/cuda/cuda_stream.h"
#include "framework/kernels/cuda/launches.h"
#include "framework/tensor/device_access.h"

namespace hexad::kernels::cuda {

/// Tells the allocator which blocks of memory a launch reads and writes. The next user of such a block then waits for
/// the launch. Also announces blocks that are allocated during the launch.
class Touches {
 public:
  explicit Touches(Stream& stream)
      : stream_(device::cuda::cuda_stream(stream)), launch_(*stream_.blocks(), stream_.queue()) {}

  void touch(const Tensor& t) {
    if (t.defined()) stream_.touch(tensor::device_raw(t));
  }
  void touch(std::span<const Tensor> tensors) {
    for (const Tensor& t : tensors) touch(t);
  }
  void touch(std::span<const AdamwSlice> slices) {
    for (const AdamwSlice& s : slices)
      for (const Tensor* t : {&s.main, &s.m, &s.v, &s.weights, &s.gradient}) touch(*t);
  }
  void touch(const GroupOffsets& offsets) { touch(offsets.device); }
  template <OperandStruct S>
  void touch(const S& operands) {
    for_each_tensor<S>([&](auto member) { touch(operands.*member); });
  }
  template <class T>
  void touch(const T&) {
    static_assert(std::is_trivially_copyable_v<T>,
                  "operands of this overload must be numbers or host data, not tensors");
  }

 private:
  device::cuda::CudaStream& stream_;
  device::cuda::Blocks::Launch launch_;
};

template <auto Family, auto Entry, class>
struct TouchingEntry;

template <auto Family, auto Entry, class F, class... Args>
struct TouchingEntry<Family, Entry, Kernel<void(Stream&, Args...)> F::*> {
  static void launch(Stream& stream, Operand<Args>... operands) {
    Touches touches(stream);
    (touches.touch(operands), ...);
    (launches().*Family.*Entry)(stream, operands...);
  }
};

/// Wraps an entry that returns a property of a kernel to the host. The wrapper announces no memory, because the entry
/// launches no kernel.
template <auto Family, auto Entry, class F, class Answer, class... Args>
struct TouchingEntry<Family, Entry, Kernel<Answer(Args...)> F::*> {
  static Answer launch(Args... args) { return (launches().*Family.*Entry)(args...); }
};

template <auto Family, auto Entry>
struct Touching : TouchingEntry<Family, Entry, decltype(Entry)> {};

}  // namespace hexad::kernels::cuda
