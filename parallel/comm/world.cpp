#include "parallel/comm/world.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "framework/base/failure.h"
#include "framework/base/parsed_number.h"
#include "framework/device/kernel_loading.h"
#include "parallel/comm/engine_group.h"
#include "parallel/comm/launcher.h"
#include "parallel/comm/mpi_transport.h"
#include "parallel/comm/self_group.h"

namespace hexad::comm {

using namespace base;
namespace {

Topology alone() {
  Topology topology;
  std::array<char, 256> host{};
  if (const char* node = std::getenv("HEXAD_NODE"))
    topology.node_names = {node};
  else if (gethostname(host.data(), host.size() - 1) == 0)
    topology.node_names = {host.data()};
  return topology;
}

}  // namespace

int announced_world_size() {
  // The variables are set by Open MPI's mpirun, by other process managers, and by Slurm in a step of srun. A batch
  // script is not a step, so it counts as one rank.
  for (const RankVariables& variables : rank_variables()) {
    const char* text = std::getenv(variables.size);
    if (!text) continue;
    const auto size = parsed_number<int>(text);
    if (!size || *size < 1 || *size > 1 << 24)
      fail(ExitCode::usage, variables.size, " is '", text, "'; expected the number of ranks, a whole number from 1 to ",
           1 << 24);
    return *size;
  }
  return 1;
}

int announced_rank() {
  for (const RankVariables& variables : rank_variables()) {
    if (!std::getenv(variables.size)) continue;
    const char* text = std::getenv(variables.rank);
    return text ? parsed_number<int>(text).value_or(0) : 0;
  }
  return 0;
}

World::World(CommEngine::Options options) : exceptions_(std::uncaught_exceptions()) {
  const int size = announced_world_size();
  if (size == 1) {
    topology_ = alone();
    group_ = std::make_unique<SelfGroup>(TrafficClass::control, "world");
    return;
  }
  device::load_kernels_at_start();
  engine_ = std::make_unique<CommEngine>([size] { return connect_mpi(size); }, options);
  topology_ = engine_->topology();
  file_work_ = engine_->file_work();
  group_ = std::make_unique<EngineGroup>(*engine_, TrafficClass::control, "world");
}

World::World(const ProcessGroup& ranks) : exceptions_(std::uncaught_exceptions()), topology_(alone()) {
  topology_.rank = ranks.rank(), topology_.size = ranks.size();
  topology_.node_of_rank = ranks.node_of_rank();
  const auto mine = topology_.node_of_rank.begin() + ranks.rank();
  topology_.local_rank = static_cast<int>(std::count(topology_.node_of_rank.begin(), mine, *mine));
  topology_.node_names.resize(std::ranges::max(topology_.node_of_rank) + 1, topology_.node_names.front());
  group_ = ranks.split(0, ranks.rank(), TrafficClass::control, "world");
}

World::~World() {
  if (!engine_ || std::uncaught_exceptions() <= exceptions_) return;
  std::fprintf(stderr, "rank %d has failed; ending the job\n", rank());
  abort_job(ExitCode::communication);
}

const std::string& World::node_name() const { return topology_.node_names[topology_.node_of_rank[rank()]]; }

void World::set_guards(const Guards& guards) {
  if (engine_) engine_->set_guards(guards);
}

void World::set_limits(const Limits& limits) {
  if (engine_) engine_->limit(limits);
}

void World::prioritize(const Priorities& priorities) {
  if (engine_) engine_->prioritize(priorities);
}

void World::abort_job(ExitCode code) {
  if (engine_) engine_->abort_job(static_cast<int>(code));
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(code));
}

int with_world(const std::function<int(World&)>& body, CommEngine::Options options) {
  World world(options);
  try {
    return body(world);
  } catch (const std::exception& e) {
    const Failure failure = failure_of(e);
    std::fprintf(stderr, "rank %d: %s\n", world.rank(), failure.text.c_str());
    world.abort_job(failure.code);
  }
}

}  // namespace hexad::comm
