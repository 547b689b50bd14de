// Tables whose kernels throw if they change a tensor that their signature does not mark as an output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "framework/kernels/entries.h"

namespace hexad::tests {

/// Tensor operands of one kernel call in host memory. Call add() for each operand before the kernel runs, in the order
/// of the signature.
class CallOperands {
 public:
  template <class Argument>
  void add(const std::remove_cvref_t<kernels::Operand<Argument>>& operand) {
    ++number_;
    add_operand(operand, kernels::is_out<Argument>);
  }
  /// Throws std::logic_error if the kernel has changed a tensor that neither is marked nor begins at the address of an
  /// output. The message names the kernel and the number of the operand. Operand 1 follows the stream.
  void require_marked_writes(const kernels::EntryName& kernel) const;

 private:
  struct Input {
    tensor::Tensor tensor;
    int number;
    std::vector<std::byte> before;
  };

  void add_operand(const tensor::Tensor& t, bool written);
  void add_operand(std::span<const tensor::Tensor> tensors, bool written) {
    for (const tensor::Tensor& t : tensors) add_operand(t, written);
  }
  void add_operand(std::span<const kernels::AdamwSlice> slices, bool written) {
    for (const kernels::AdamwSlice& s : slices) {
      for (const tensor::Tensor* t : {&s.main, &s.m, &s.v, &s.weights}) add_operand(*t, written);
      add_operand(s.gradient, false);
    }
  }
  void add_operand(const kernels::GroupOffsets& offsets, bool written) { add_operand(offsets.device, written); }
  template <kernels::OperandStruct S>
  void add_operand(const S& operands, bool written) {
    kernels::for_each_tensor<S>([&](auto member) { add_operand(operands.*member, written); });
  }
  template <class T>
  void add_operand(const T&, bool) {
    static_assert(std::is_trivially_copyable_v<T>, "operands of this overload must not contain tensors");
  }

  int number_ = 0;
  std::vector<Input> inputs_;
  std::vector<std::uintptr_t> outputs_;  // addresses
};

template <const kernels::KernelTable& table>
struct MarkedWrites {
  template <auto Family, auto Entry, class>
  struct Call;

  template <auto Family, auto Entry, class F, class... Args>
  struct Call<Family, Entry, kernels::Kernel<void(device::Stream&, Args...)> F::*> {
    static void launch(device::Stream& stream, kernels::Operand<Args>... operands) {
      CallOperands all;
      (all.add<Args>(operands), ...);
      (table.*Family.*Entry)(stream, operands...);
      all.require_marked_writes(kernels::name_of_entry<Family, Entry>);
    }
  };

  /// Wraps an entry that returns a property of a kernel to the host.
  template <auto Family, auto Entry, class F, class Answer, class... Args>
  struct Call<Family, Entry, kernels::Kernel<Answer(Args...)> F::*> {
    static Answer launch(Args... args) { return (table.*Family.*Entry)(args...); }
  };

  template <auto Family, auto Entry>
  struct Checked : Call<Family, Entry, decltype(Entry)> {};
};

/// Returns a table with the kernels of `table`, which must run on inline streams. Each kernel throws like
/// CallOperands::require_marked_writes().
template <const kernels::KernelTable& table>
kernels::KernelTable checking_marked_writes() {
  return kernels::wrapped_table<MarkedWrites<table>::template Checked>();
}

}  // namespace hexad::tests
