// Queries whether MPI accepts card memory.
#pragma once

namespace hexad::comm {

/// True if the library reports at run time that it accepts addresses in card memory ("CUDA-aware"). False if it cannot
/// report this. Call it after MPI_Init.
bool mpi_takes_cards();

}  // namespace hexad::comm
