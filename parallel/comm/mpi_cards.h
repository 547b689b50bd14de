// Support of the MPI library for card memory.
#pragma once

namespace hexad::comm {

/// True if the MPI library reports at run time that it is CUDA-aware: it accepts addresses in card memory. False if the
/// library cannot report this. Must be called after MPI_Init.
bool mpi_takes_cards();

}  // namespace hexad::comm
