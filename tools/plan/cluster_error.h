// Errors of predictions on a cluster that lacks a rate, a link or ranks.
#pragma once

#include <string>

#include "framework/base/error.h"

namespace hexad::plan {

/// An Error(usage): a cluster lacks a rate, a link or ranks that a prediction needs. The message does not name the
/// cluster's file, because the code that prices operations does not know it. Callers that know the file's name put this
/// name in front of the message.
class ClusterError : public base::Error {
 public:
  explicit ClusterError(const std::string& message) : base::Error(base::ExitCode::usage, message) {}
};

/// Throws a ClusterError with the concatenation of `parts` as its message.
template <class... Parts>
[[noreturn]] void fail_cluster(const Parts&... parts) {
  throw ClusterError(base::cat(parts...));
}

}  // namespace hexad::plan
