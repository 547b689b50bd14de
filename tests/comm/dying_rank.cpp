// Program that world_test.cpp starts under the MPI launcher. The argument names the way in which rank 1 fails or makes
// a wrong call while other ranks wait for rank 1. Rank 0 ends first if the argument is "lost".
#include <mpi.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <new>
#include <string>

#include "parallel/comm/world.h"

using namespace hexad;

// Prints that MPI_Abort was called, waits, and aborts. MPICH's launcher would lose this output without the wait,
// because the launcher ends at MPI_Abort and does not read the remaining output.
extern "C" int MPI_Abort(MPI_Comm communicator, int code) {
  std::fprintf(stderr, "MPI_Abort is called\n");
  usleep(200'000);
  return PMPI_Abort(communicator, code);
}

int main(int, char** argv) {
  const std::string way = argv[1];
  comm::CommEngine::Options options;
  options.guards = {.watchdog_seconds = way == "stop" || way == "hang" ? 0.5 : 300,
                    .check_collectives = way == "disagree"};
  const auto body = [&](comm::World& world) {
    device::DeviceContext context;
    device::InlineStream stream;
    world.group().barrier(stream).wait();
    if (way == "lost" && world.rank() == 0) world.abort_job(base::ExitCode::peer_lost);
    int64_t size = 256;
    if (world.rank() == 1) {
      if (way == "lost") sleep(1);
      if (way == "abort" || way == "lost") world.abort_job(base::ExitCode::resource);
      if (way == "throw") base::fail(base::ExitCode::numeric, "out of luck");
      if (way == "memory") throw std::bad_alloc();
      if (way == "kill") kill(getpid(), SIGKILL);
      if (way == "stop") kill(getpid(), SIGSTOP);
      while (way == "hang") pause();
      if (way == "mismatch" || way == "disagree") size = 512;
    }
    const auto x = tensor::Tensor::zeros({size}, base::Dtype::f32, context);
    world.group().all_reduce(x, comm::Reduce::sum, stream).wait();
    return 0;
  };
  return comm::with_world(body, options);
}
