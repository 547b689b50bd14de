// Transport over MPI. The thread that makes the transport initialises MPI, and is the only thread that calls MPI.
#pragma once

#include <memory>

#include "parallel/comm/transport.h"

namespace hexad::comm {

/// Connects this rank with all other ranks through MPI. Throws Error(communication) if MPI fails. Throws Error(usage)
/// if the number of ranks in MPI is not `announced_size`, the number that the launcher announced. This happens if MPI
/// does not support the launcher, so that every rank is a separate job.
std::unique_ptr<Transport> connect_mpi(int announced_size);

}  // namespace hexad::comm
