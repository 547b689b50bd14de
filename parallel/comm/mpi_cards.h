// Whether MPI takes memory of cards.
#pragma once

namespace hexad::comm {

/// What the library says of itself at run time ("CUDA-aware"); false where it has no such word. After MPI_Init.
bool mpi_takes_cards();

}  // namespace hexad::comm
