#include "parallel/comm/mpi_cards.h"

#include <mpi.h>

#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>  // header of Open MPI; other libraries declare the query in mpi.h
#endif

namespace hexad::comm {

bool mpi_takes_cards() { return MPIX_Query_cuda_support() == 1; }

}  // namespace hexad::comm
