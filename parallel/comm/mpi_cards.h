// Asks MPI if it takes memory of cards.
#pragma once

namespace hexad::comm {

/// True if the library says so at run time ("CUDA-aware"); false where it has no such query. Call it after MPI_Init.
bool mpi_takes_cards();

}  // namespace hexad::comm
