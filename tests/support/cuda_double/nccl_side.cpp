#include "tests/support/cuda_double/nccl_side.h"

#include <utility>

#include "tests/support/cuda_double/device.h"

namespace hexad::cuda_double {
namespace {

thread_local std::string last_error;

}  // namespace

NcclRegistry& nccl_registry() {
  static NcclRegistry all;
  return all;
}

ncclResult_t nccl_refusal(ncclResult_t result, std::string why) {
  last_error = std::move(why);
  return result;
}

ncclResult_t nccl_has_device(const char* call) {
  return require_device(call) == cudaSuccess ? ncclSuccess
                                             : nccl_refusal(ncclUnhandledCudaError, "the thread has chosen no device");
}

ncclResult_t nccl_ready(ncclComm_t comm) {
  if (!comm || !comm->side) return nccl_refusal(ncclInvalidArgument, "the communicator is null");
  if (comm->side->gone) return nccl_refusal(ncclInvalidUsage, "the communicator was aborted");
  if (comm->side->state == ncclInProgress)
    return nccl_refusal(ncclInvalidArgument, "the communicator is used before its last call has ended");
  return comm->side->state;
}

}  // namespace hexad::cuda_double

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) { return hexad::cuda_double::last_error.c_str(); }

}  // extern "C"
