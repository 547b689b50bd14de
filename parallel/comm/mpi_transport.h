// Transport over MPI. The thread that makes the transport initialises MPI, and is the only thread that calls MPI,
// except for MPI_Get_library_version.
#pragma once

#include <memory>

#include "parallel/comm/transport.h"

namespace hexad::comm {

/// Connects this rank with all other ranks through MPI. Throws Error(communication) if MPI fails. Throws Error(usage)
/// - if the launcher does not fit the MPI library (require_interface()),
/// - if HEXAD_LOCAL_RANK is not a whole number of at least 0, or HEXAD_NODE is set only on some ranks, or
/// - if the number of ranks in MPI is not `announced_size`, the number that the launcher announced. The numbers differ
///   if MPI does not support the launcher, so that every rank is a separate job.
std::unique_ptr<Transport> connect_mpi(int announced_size);

}  // namespace hexad::comm
