// A typed, non-owning view of a tensor: the operand type of kernels.
#pragma once

#include <array>
#include <cstdint>

namespace hexad::tensor {

/// View in which element (i, j, ...) is data[i * stride[0] + j * stride[1] + ...]. There are no bounds checks; kernels
/// iterate over `size`.
template <class T, int Rank>
struct View {
  T* data = nullptr;
  std::array<int64_t, Rank> size{}, stride{};

  template <class... Index>
  T& operator()(Index... index) const {
    static_assert(sizeof...(Index) == Rank);
    int64_t offset = 0;
    int d = 0;
    ((offset += static_cast<int64_t>(index) * stride[d++]), ...);
    return data[offset];
  }
};

}  // namespace hexad::tensor
