// Sabotage of a run from outside: groups that communicate wrongly, and wrong data.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "tools/verify/run_variant.h"

namespace hexad::tests {

using tensor::Tensor;

/// Function that performs an operation of a group wrongly. The group performs the operation correctly if the function
/// returns std::nullopt.
using Wrong = std::function<std::optional<device::Event>(const comm::ProcessGroup& right, const comm::Operation& op,
                                                         device::Stream& stream)>;

/// Returns a group like `right` that applies `wrong` to its operations. All groups that are split from the result also
/// apply `wrong`. `right` must outlive the result.
std::unique_ptr<comm::ProcessGroup> wrong_group(const comm::ProcessGroup& right, Wrong wrong);

/// Returns a function that omits operations of `kind` in groups named `group`. After an omitted all-reduce, each rank
/// has only its own values. Omits only operations on buckets of one parameter with this size if `elements` is set.
Wrong leave_out(comm::Operation::Kind kind, std::string group, std::optional<int64_t> elements = {});

/// Returns a function that begins operations of `kind` in groups named `group`, and immediately reports them as done.
Wrong claim_done(comm::Operation::Kind kind, std::string group);

/// Returns a source whose sequence i is sequence i of `right`, changed by `change`.
std::unique_ptr<data::Source> wrong_source(const data::Source& right,
                                           std::function<void(int64_t index, const data::Row& row)> change);

/// Returns a source of the first `sequences` sequences of `right`.
std::unique_ptr<data::Source> shorter_source(const data::Source& right, int64_t sequences);

/// Multiplies each element of `t`, an f64 tensor on the host, by `factor`.
void scale(const Tensor& t, double factor);

}  // namespace hexad::tests
