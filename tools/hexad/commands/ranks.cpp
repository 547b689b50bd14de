#include "tools/hexad/commands/ranks.h"

#include <chrono>
#include <exception>
#include <thread>

#include <fmt/core.h>

#include "framework/base/failure.h"
#include "tools/train/process/crash_report.h"
#include "tools/train/process/job_launcher.h"
#include "tools/train/process/say.h"
#include "tools/train/process/signals.h"

namespace hexad::app {

using namespace train;

using base::ExitCode;
using namespace std::chrono_literals;

namespace {

// Waits a few seconds, and returns true if another rank has reported the error. If all ranks find the same error, rank
// 0 reports it and ends the job. The launcher then sends SIGTERM to this rank. If this rank gets no SIGTERM, only this
// rank has found the error. A SIGUSR1 that arrived before the error does not count. If a SIGTERM arrived before the
// error, a second SIGTERM ends the process. The function then returns only if no rank has reported the error, and
// returns false.
bool ended_by_another() {
  const bool announced = preemption_requested(), asked_before = end_requested();
  // mpirun may also wait before it sends SIGTERM.
  const std::chrono::duration<double> longest(3 + mpirun_patience().value_or(0));
  const auto began = std::chrono::steady_clock::now();
  const auto asked = [&] { return !asked_before && (announced ? end_requested() : preemption_requested()); };
  while (!asked() && std::chrono::steady_clock::now() - began < longest) std::this_thread::sleep_for(100ms);
  return asked();
}

}  // namespace

ExitCode on_all_ranks(const std::function<ExitCode(comm::World&)>& body, const comm::CommEngine::Options& options) {
  comm::World world(options);
  try {
    return body(world);
  } catch (const std::exception& e) {
    const auto [text, code] = base::failure_of(e);
    report_end(text);
    if (world.size() == 1) throw;
    const bool shared = code == ExitCode::usage || code == ExitCode::data || code == ExitCode::peer_lost;
    const bool found_by_peer = dynamic_cast<const comm::FoundByPeer*>(&e) != nullptr;
    // Usually, rank 0 reports an error that all ranks share. If the job was already asked to end, every rank reports,
    // because rank 0 may be lost.
    const bool speaks = !found_by_peer && (world.rank() == 0 || !shared || end_requested());
    if (speaks || !ended_by_another()) say(fmt::format("rank {}: {}", world.rank(), text));
    world.abort_job(code);
  }
}

std::function<ExitCode()> on_one_rank(const Command& command, std::function<ExitCode()> body,
                                      const std::string& remedy) {
  return [command, body = std::move(body), remedy] {
    const int ranks = comm::announced_world_size();
    if (ranks == 1) return body();
    if (comm::announced_rank() == 0)
      base::fail(ExitCode::usage, command.full_name(), " runs as one process, but mpirun or srun has started ", ranks,
                 "; ", remedy);
    // The launcher ends the job at the first exit. This delay lets the first process print its message before the job
    // ends.
    std::this_thread::sleep_for(1s);
    return ExitCode::usage;
  };
}

}  // namespace hexad::app
