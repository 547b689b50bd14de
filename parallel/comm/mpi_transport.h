// Transport over MPI. The thread that makes the transport initialises MPI and is the only thread that calls MPI.
#pragma once

#include <memory>

#include "parallel/comm/transport.h"

namespace hexad::comm {

/// Connects this rank through MPI. Throws Error(communication) if MPI fails. Throws Error(usage) if MPI has another
/// number of ranks than the launcher announced: a launcher unknown to MPI starts every rank as a separate job.
std::unique_ptr<Transport> connect_mpi(int announced_size);

}  // namespace hexad::comm
