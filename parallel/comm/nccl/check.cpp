#include "framework/base/error.h"
#include "parallel/comm/nccl/library.h"

namespace hexad::comm::nccl {

void check(const Library& library, ncclResult_t result, std::string_view what) {
  if (result == ncclSuccess) return;
  const char* last = library.get_last_error(nullptr);
  const auto code = result == ncclRemoteError ? base::ExitCode::peer_lost : base::ExitCode::communication;
  base::fail(code, "[nccl] ", what, ": ", library.get_error_string(result), last && *last ? " (" : "", last ? last : "",
             last && *last ? ")" : "");
}

}  // namespace hexad::comm::nccl
