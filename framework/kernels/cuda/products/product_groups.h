// Code shared by kernels over groups of rows: checks of offsets, offsets on the device, and zeros for groups without
// rows.
#pragma once

#include <string_view>

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

/// Throws std::logic_error unless the host or the device has the offsets of `groups` groups. Host offsets are also
/// checked by require_offsets().
void check_offsets(std::string_view op, const GroupOffsets& offsets, int64_t groups, int64_t rows);

/// Returns the offsets, [groups + 1] i64, on `device`. If only the host has them, copies them in stream order. Each
/// call makes a new copy from pageable memory through a staging buffer (Backend::copy). The copy takes the host a few
/// microseconds. Callers that use the same offsets more than once should therefore provide them on the device.
Tensor offsets_on_device(Stream& stream, const GroupOffsets& offsets, Device device);

/// Zeroes the slices of dw[E, ...] whose groups have no rows. The device finds these groups. The call is unnecessary if
/// the host has the offsets and they show that every group has rows. The size and the address of each slice must be
/// multiples of 16 bytes.
void zero_empty_groups(Stream& stream, const Tensor& dw, const Tensor& offsets);

}  // namespace hexad::kernels::cuda
