// Version of mpi_takes_cards() for MPI libraries without MPIX_Query_cuda_support.
#include "parallel/comm/mpi_cards.h"

namespace hexad::comm {

bool mpi_takes_cards() { return false; }

}  // namespace hexad::comm
