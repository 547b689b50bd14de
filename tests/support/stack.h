// Stacking of tensors along a new dimension, and extraction of entries, as dense copies.
#pragma once

#include <cstring>
#include <vector>

#include "framework/tensor/host_read.h"
#include "tests/support/on_device.h"

namespace hexad::tests {

using base::Shape;
using tensor::Tensor;

namespace detail {

// Calls f(address in the stack, offset in entry `index`, length) for each contiguous run. Offset and length are in
// bytes.
template <class F>
void for_each_block(const Tensor& stack, int dim, int64_t index, const F& f) {
  int64_t outer = 1, inner = base::size_of(stack.dtype());
  for (int d = 0; d < dim; ++d) outer *= stack.dim(d);
  for (int d = dim + 1; d < stack.shape().rank(); ++d) inner *= stack.dim(d);
  for (int64_t o = 0; o < outer; ++o)
    f(static_cast<char*>(stack.raw()) + (o * stack.dim(dim) + index) * inner, o * inner, inner);
}

}  // namespace detail

/// Returns entry `index` along `dim`, without that dimension.
inline Tensor entry_of(const Tensor& stack, int dim, int64_t index) {
  std::vector<int64_t> sizes(stack.shape().begin(), stack.shape().end());
  sizes.erase(sizes.begin() + dim);
  const Tensor out = Tensor::empty(Shape(sizes), stack.dtype(), stack.device().host());
  detail::for_each_block(to_host(stack), dim, index, [&](const char* there, int64_t at, size_t bytes) {
    std::memcpy(static_cast<char*>(out.raw()) + at, there, bytes);
  });
  return tensor::on_device(out, stack.device(), device::Category::temporary);
}

/// Stacks entries of one shape along the new dimension `dim`. This function is the inverse of entry_of().
inline Tensor stack_of(const std::vector<Tensor>& entries, int dim) {
  const Tensor& first = entries.front();
  std::vector<int64_t> sizes(first.shape().begin(), first.shape().end());
  sizes.insert(sizes.begin() + dim, static_cast<int64_t>(entries.size()));
  const Tensor out = Tensor::empty(Shape(sizes), first.dtype(), first.device().host());
  for (size_t i = 0; i < entries.size(); ++i)
    detail::for_each_block(out, dim, static_cast<int64_t>(i), [&](char* there, int64_t at, size_t bytes) {
      std::memcpy(there, static_cast<const char*>(to_host(entries[i]).raw()) + at, bytes);
    });
  return tensor::on_device(out, first.device(), device::Category::temporary);
}

}  // namespace hexad::tests
