// Commands that may run on many ranks, and commands that run as one process.
#pragma once

#include <functional>
#include <string>

#include "framework/base/error.h"
#include "parallel/comm/world.h"
#include "tools/hexad/command_line.h"
#include "tools/train/recipe/job.h"

namespace hexad::app {

/// Makes the world and runs `body` in it. On a single rank, an exception propagates to main. With peers, prints the
/// exception and ends the job at once with its exit code: the peers may be waiting for this rank in a collective.
base::ExitCode on_all_ranks(const std::function<base::ExitCode(comm::World&)>& body,
                            const comm::CommEngine::Options& options = {});

/// `body` of a command that is one process. If mpirun or srun has started several, none runs it: the first one says so,
/// and all exit with `usage`. `remedy`: what to do then.
std::function<base::ExitCode()> on_one_rank(const Command& command, std::function<base::ExitCode()> body,
                                            const std::string& remedy = "start it without the launcher");

}  // namespace hexad::app
