// The double of cuBLASLt, as far as tests look into it.
#pragma once

#include <cstddef>

namespace hexad::cuda_double {

/// The room that a product takes in its workspace while it runs. Throws std::runtime_error where another has taken some
/// of it: two streams then share a workspace.
class WorkspaceInUse {
 public:
  WorkspaceInUse(const void* begin, size_t bytes);
  ~WorkspaceInUse();
  WorkspaceInUse(const WorkspaceInUse&) = delete;
  WorkspaceInUse& operator=(const WorkspaceInUse&) = delete;

 private:
  const std::byte* begin_;
};

}  // namespace hexad::cuda_double
