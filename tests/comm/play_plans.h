// Execution of message plans without a network.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "framework/base/philox.h"
#include "parallel/comm/message_plan.h"

namespace hexad::comm {

using base::Philox;
using base::Purpose;

/// Executes the plans of all ranks without a network. `seed` determines the order in which ranks continue. Each rank
/// executes one round at a time. A rank receives a round only once all messages of the round have arrived. Therefore,
/// the test fails if a plan needs several rounds in flight.
inline void play(std::vector<MessagePlan>& plans, uint64_t seed) {
  const Philox random(seed, Purpose::shuffle, "plan");
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> wires;  // by (sender, receiver)
  std::vector<size_t> next(plans.size()), sent(plans.size());
  uint64_t tick = 0;
  for (size_t stuck = 0; stuck < 1000;) {
    const size_t me = random.below(tick++, plans.size());
    if (next[me] == plans[me].rounds.size()) {
      ++stuck;
      continue;
    }
    const Round& round = plans[me].rounds[next[me]];
    ASSERT_LT(round.after, static_cast<int>(next[me]));
    if (sent[me] == next[me]) {
      ++sent[me];
      for (const Transfer& t : round.sends)
        wires[{static_cast<int>(me), t.peer}].emplace_back(t.data, t.data + t.bytes);
    }
    std::map<int, size_t> needed;
    for (const Transfer& t : round.receives) ++needed[t.peer];
    const bool there = std::all_of(needed.begin(), needed.end(), [&](const auto& n) {
      return wires[{n.first, static_cast<int>(me)}].size() >= n.second;
    });
    if (!there) {
      ++stuck;
      continue;
    }
    stuck = 0;
    for (const Transfer& t : round.receives) {
      auto& wire = wires[{t.peer, static_cast<int>(me)}];
      ASSERT_EQ(static_cast<int64_t>(wire.front().size()), t.bytes);
      if (t.bytes) std::memcpy(t.data, wire.front().data(), wire.front().size());
      wire.pop_front();
    }
    if (round.finish) round.finish();
    ++next[me];
  }
  for (size_t r = 0; r < plans.size(); ++r)
    ASSERT_EQ(next[r], plans[r].rounds.size()) << "rank " << r << " waits for a message that no rank sends";
  for (const auto& [pair, wire] : wires)
    ASSERT_TRUE(wire.empty()) << "rank " << pair.first << " sent more messages than expected to rank " << pair.second;
}

}  // namespace hexad::comm
