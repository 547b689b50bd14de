// Transport over MPI. The thread that makes the transport initialises MPI, and only this thread calls MPI.
#pragma once

#include <memory>

#include "parallel/comm/transport.h"

namespace hexad::comm {

/// Connects this rank with the others through MPI. Throws Error(communication) if MPI fails. Throws Error(usage) if MPI
/// has a different number of ranks than the launcher announced (`announced_size`). This happens if MPI does not know
/// the launcher: every rank is then started as a separate job.
std::unique_ptr<Transport> connect_mpi(int announced_size);

}  // namespace hexad::comm
