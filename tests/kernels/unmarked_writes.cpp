#include "tests/kernels/unmarked_writes.h"

#include <algorithm>
#include <cstring>

namespace hexad::tests {

using namespace base;
namespace {

using tensor::Tensor;

// Returns the bytes of the elements in row-major order, without the gaps between rows.
std::vector<std::byte> element_bytes(const Tensor& t) {
  const int64_t run = t.rank() > 0 && t.strides()[-1] == 1 ? t.dim(-1) : 1;  // consecutive elements
  const int64_t run_bytes = run * size_of(t.dtype());
  std::vector<std::byte> bytes(t.bytes());
  for (int64_t i = 0; i < t.numel(); i += run) {
    int64_t offset = 0, rest = i;
    for (int d = t.rank() - 1; d >= 0; --d) {
      offset += rest % t.dim(d) * t.strides()[d];
      rest /= t.dim(d);
    }
    std::memcpy(bytes.data() + i * size_of(t.dtype()),
                static_cast<const std::byte*>(t.raw()) + offset * size_of(t.dtype()), run_bytes);
  }
  return bytes;
}

}  // namespace

void CallOperands::add_operand(const Tensor& t, bool written) {
  if (!t.defined() || t.numel() == 0) return;
  if (written)
    outputs_.push_back(t.address());
  else
    inputs_.push_back({t, number_, element_bytes(t)});
}

void CallOperands::require_marked_writes(const kernels::EntryName& kernel) const {
  for (const Input& input : inputs_) {
    const Tensor& t = input.tensor;
    if (std::ranges::find(outputs_, t.address()) != outputs_.end()) continue;
    require(element_bytes(t) == input.before, "[", kernel, "] the kernel changed operand ", input.number, ", ",
            t.dtype(), " ", t.shape(), ", which its signature does not mark; expected Out<...>");
  }
}

}  // namespace hexad::tests
