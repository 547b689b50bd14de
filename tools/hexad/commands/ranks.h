// Helpers for commands that may run on many ranks, and for commands that run as one process.
#pragma once

#include <functional>
#include <string>

#include "framework/base/error.h"
#include "parallel/comm/world.h"
#include "tools/hexad/command_line.h"
#include "tools/train/recipe/job.h"

namespace hexad::app {

/// Makes the world and runs `body` with it. On a single rank, an exception propagates to main. With several ranks,
/// prints the exception and ends the job with its exit code. Otherwise, other ranks could wait for this rank in a
/// collective. If all ranks may have found the same error, ranks other than rank 0 first wait a few seconds. They print
/// nothing if the job ends during this wait. A rank whose error another rank has found (comm::FoundByPeer) waits, too.
base::ExitCode on_all_ranks(const std::function<base::ExitCode(comm::World&)>& body,
                            const comm::CommEngine::Options& options = {});

/// Returns the body of a command that runs as one process. If mpirun or srun has started several processes, `body` does
/// not run: the first process prints an error with `remedy`, and all processes exit with ExitCode::usage.
std::function<base::ExitCode()> on_one_rank(const Command& command, std::function<base::ExitCode()> body,
                                            const std::string& remedy = "start it without the launcher");

}  // namespace hexad::app
