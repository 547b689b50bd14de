// Code shared by kernels over groups of rows: offsets on the device, zeros for groups without rows.
#pragma once

#include <string_view>

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

/// Throws std::logic_error unless the offsets are for `groups` groups and, if the host has them, rise within 0 .. rows.
void check_offsets(std::string_view op, const GroupOffsets& offsets, int64_t groups, int64_t rows);

/// Returns the offsets, [groups + 1] i64, on `device`; copies them in the order of `stream` if only the host has them.
/// Each call copies again, from pageable memory through the driver's staging buffer, which takes the host some
/// microseconds. Callers that use offsets more than once should also provide them on the device.
Tensor offsets_on_device(Stream& stream, const GroupOffsets& offsets, Device device);

/// Zeroes the slices of dw[E, ...] whose group has no rows. The device finds these groups; a host that knows that every
/// group has rows can omit the launch. The size and the address of a slice are multiples of 16 bytes.
void zero_empty_groups(Stream& stream, const Tensor& dw, const Tensor& offsets);

}  // namespace hexad::kernels::cuda
