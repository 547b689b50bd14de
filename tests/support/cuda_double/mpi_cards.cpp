// Replacement of parallel/comm/mpi_cards.cpp. The memory of the double's cards is the process's own, which every MPI
// accepts.
#include "parallel/comm/mpi_cards.h"

#include <cstdlib>

namespace hexad::comm {

bool mpi_takes_cards() { return std::getenv("HEXAD_CUDA_DOUBLE_MPI_TAKES_CARDS") != nullptr; }

}  // namespace hexad::comm
