// Ways to make a run wrong from outside: groups that communicate wrongly, and data that are not what they should be.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "tools/verify/run_variant.h"

namespace hexad::tests {

using tensor::Tensor;

/// Performs an operation of a group wrongly, or returns nothing so that it is performed correctly.
using Wrong = std::function<std::optional<comm::Event>(const comm::ProcessGroup& right, const comm::Operation& op,
                                                       comm::Stream& stream)>;

/// `right` and all groups that are split from it, with `wrong` in the way. `right` outlives it.
std::unique_ptr<comm::ProcessGroup> wrong_group(const comm::ProcessGroup& right, Wrong wrong);

/// Operations of this kind in groups of this name are left out: reductions keep the rank's own part. `elements`: only
/// those of a bucket that holds nothing but a parameter of this size.
Wrong leave_out(comm::Operation::Kind kind, std::string group, std::optional<int64_t> elements = {});

/// Begins operations of this kind in groups of this name, and reports them as done at once.
Wrong claim_done(comm::Operation::Kind kind, std::string group);

/// A source whose sequence i is what `change` makes of the true one.
std::unique_ptr<data::Source> wrong_source(const data::Source& right,
                                           std::function<void(int64_t index, const data::Row& row)> change);

/// The first `sequences` of `right`.
std::unique_ptr<data::Source> shorter_source(const data::Source& right, int64_t sequences);

/// t[i] *= factor.
void scale(const Tensor& t, double factor);

}  // namespace hexad::tests
