// Replacement for mpi_cards.cpp if the MPI library has no MPIX_Query_cuda_support.
#include "parallel/comm/mpi_cards.h"

namespace hexad::comm {

bool mpi_takes_cards() { return false; }

}  // namespace hexad::comm
