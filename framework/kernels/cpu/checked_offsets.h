// Offsets of groups of rows, kept until a launch has run.
#pragma once

#include <vector>

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {

using base::require;

/// Offsets of `groups` groups in `rows` rows. Host offsets are copied and checked at the launch. Without host offsets,
/// the device offsets are read when the work runs.
class CheckedOffsets {
 public:
  CheckedOffsets(std::string_view op, const GroupOffsets& o, int64_t groups, int64_t rows)
      : op_(op), groups_(groups), rows_(rows), most_(o.max_rows), host_(o.host.begin(), o.host.end()) {
    require(!host_.empty() || o.device.defined(), "[", op, "] neither host nor device has the offsets of ", groups,
            " groups; expected offsets on the host or on the device");
    if (host_.empty())
      device_ = o.device;
    else
      require_offsets(op_, host_, groups_, rows_);
  }

  std::vector<int64_t> offsets() const {
    if (!host_.empty()) return host_;
    require(device_.contiguous(), "[", op_, "] offsets of shape ", device_.shape(), " have strides ", device_.strides(),
            "; expected contiguous offsets");
    const auto* o = device_.data<int64_t>();
    std::vector<int64_t> offsets(o, o + device_.numel());
    require_offsets(op_, offsets, groups_, rows_);
    for (size_t e = 0; e + 1 < offsets.size(); ++e)
      require(offsets[e + 1] - offsets[e] <= most_, "[", op_, "] group ", e, " has ", offsets[e + 1] - offsets[e],
              " rows; expected at most ", most_);
    return offsets;
  }

 private:
  std::string_view op_;  // string literal
  int64_t groups_, rows_, most_;
  std::vector<int64_t> host_;
  Tensor device_;
};

}  // namespace hexad::kernels::cpu
