// The transport over MPI. The thread that makes it initialises MPI and is the only one to call it, up to the end.
#pragma once

#include <memory>

#include "parallel/comm/transport.h"

namespace hexad::comm {

/// Throws Error(communication) when MPI fails, Error(usage) when MPI sees another number of ranks than the launcher
/// announced (a launcher that MPI does not know would start every rank as a job of its own).
std::unique_ptr<Transport> connect_mpi(int announced_size);

}  // namespace hexad::comm
