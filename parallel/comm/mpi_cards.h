// Query whether MPI accepts card memory.
#pragma once

namespace hexad::comm {

/// True if the library reports at run time that it accepts card memory ("CUDA-aware"). False if it has no such query.
/// Call it after MPI_Init.
bool mpi_takes_cards();

}  // namespace hexad::comm
