// Errors of predictions on a cluster that lacks a rate, a link or ranks.
#pragma once

#include <string>
#include <utility>

#include "framework/base/error.h"

namespace hexad::plan {

/// Error(usage) about a cluster that lacks a rate, a link or ranks that a prediction needs. The message does not name
/// the cluster's file, because the code that prices operations does not have the file's path. Callers that have the
/// path put the position of key() in front of the message (position_in_cluster()).
class ClusterError : public base::Error {
 public:
  ClusterError(std::string key, const std::string& message)
      : base::Error(base::ExitCode::usage, message), key_(std::move(key)) {}

  /// Returns the path of the key that the cluster file lacks, or whose value causes the error. The path is empty if the
  /// error is not about a single key.
  const std::string& key() const { return key_; }

 private:
  std::string key_;
};

/// Throws a ClusterError about `key` with the concatenation of `parts` as its message.
template <class... Parts>
[[noreturn]] void fail_cluster(std::string key, const Parts&... parts) {
  throw ClusterError(std::move(key), base::cat(parts...));
}

}  // namespace hexad::plan
