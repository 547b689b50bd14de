#include "parallel/comm/engine_ranks.h"

#include "parallel/comm/engine_group.h"
#include "parallel/comm/thread_transport.h"

namespace hexad::comm {

using namespace base;

void with_engine_ranks(int n, const std::function<void(const ProcessGroup& world)>& body, const EngineRanks& options) {
  std::vector<int> nodes = options.node_of_rank;
  if (nodes.empty()) nodes.resize(n);
  require(std::ssize(nodes) == n, "[with_engine_ranks] there are ", n, " ranks, but node_of_rank has ", nodes.size(),
          " entries; expected one for each rank");
  const auto network = std::make_shared<ThreadNetwork>(ThreadNetwork::Options{
      .node_of_rank = std::move(nodes), .adversary = options.adversary, .takes_cards = options.takes_cards});
  std::mutex mutex;
  std::exception_ptr first;
  const auto run = [&](int rank) {
    CommEngine engine([&] { return network->connect(rank); }, options.engine);
    try {
      body(EngineGroup(engine, TrafficClass::control, "world"));
    } catch (...) {
      {
        std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
      network->fail(std::make_exception_ptr(Error(
          ExitCode::peer_lost, cat("[world] rank ", rank, " ended with an error; see the message of rank ", rank))));
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace hexad::comm
