// Test interface of the cuBLASLt double. The first product with a choice of the heuristic waits for the device, because
// the library then loads a kernel. Products do not wait if kernels are loaded early (Settings).
#pragma once

#include <cstddef>
#include <cstdint>

namespace hexad::cuda_double {

/// Returns the number of calls of cublasLtMatmulAlgoGetHeuristic in this process.
int64_t heuristic_calls();

/// While an object of this class exists, cublasLtMatmulAlgoCheck refuses every algorithm.
class ChecksRefused {
 public:
  ChecksRefused();
  ~ChecksRefused();
  ChecksRefused(const ChecksRefused&) = delete;
  ChecksRefused& operator=(const ChecksRefused&) = delete;
};

/// While an object of this class exists, cublasLtMatmulAlgoCheck still approves algorithms, but cublasLtMatmul then
/// refuses these algorithms. Earlier approvals and the choices of the heuristic remain valid.
class ChecksMislead {
 public:
  ChecksMislead();
  ~ChecksMislead();
  ChecksMislead(const ChecksMislead&) = delete;
  ChecksMislead& operator=(const ChecksMislead&) = delete;
};

/// Returns the number of multiprocessors to which the process's last product was limited. Returns 0 if there was no
/// product or no limit.
int last_multiprocessors();

/// Part of a workspace that a product uses while it runs. The constructor throws std::runtime_error if this part
/// overlaps the part of another product, because two streams then share a workspace.
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
