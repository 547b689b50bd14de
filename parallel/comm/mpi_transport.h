// Transport over MPI. The thread that makes the transport initialises MPI, and only this thread calls MPI.
#pragma once

#include <memory>

#include "parallel/comm/transport.h"

namespace hexad::comm {

/// Connects this rank with the others through MPI. Throws Error(communication) if MPI fails. Throws Error(usage) if the
/// number of ranks in MPI is not `announced_size`, the number that the launcher announced: a launcher that MPI does not
/// know starts every rank as a separate job.
std::unique_ptr<Transport> connect_mpi(int announced_size);

}  // namespace hexad::comm
