// Program started under mpirun by world_test.cpp. Its MPI library claims not to support threads.
#include <mpi.h>

#include <cstdio>

#include "parallel/comm/world.h"

extern "C" int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  const int code = PMPI_Init_thread(argc, argv, required, provided);
  *provided = MPI_THREAD_SINGLE;
  return code;
}

int main() {
  try {
    const hexad::comm::World world;
  } catch (const hexad::base::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return static_cast<int>(e.code());
  }
  return 0;
}
