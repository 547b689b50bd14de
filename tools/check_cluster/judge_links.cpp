#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>

#include "framework/base/counted.h"
#include "framework/base/units.h"
#include "tools/check_cluster/findings.h"
#include "tools/check_cluster/robust.h"

namespace hexad::check_cluster {
namespace {

constexpr size_t max_named = 8;

struct Message {
  const RankReport* from;
  const RankReport* to;
  const LinkFigure* link;
};

using Messages = std::vector<Message>;

// Returns the messages between ranks of different nodes if `across` is true, otherwise the messages inside nodes.
Messages messages_of(const std::vector<RankReport>& ranks, bool across) {
  Messages messages;
  for (const RankReport& from : ranks)
    for (const LinkFigure& link : from.links) {
      const RankReport& to = ranks.at(link.to);
      if ((from.node != to.node) == across) messages.push_back({&from, &to, &link});
    }
  return messages;
}

std::string rate_text(double seconds_per_byte) { return base::human_quantity(1 / seconds_per_byte, "B/s"); }

/// A direction of the traffic between a node and the other nodes.
struct Direction {
  const RankReport* Message::*end;    // end of a message on this node
  const RankReport* Message::*other;  // end of a message on the other node
  const char* verb;
};
constexpr Direction directions[] = {{&Message::from, &Message::to, "sends slowly to"},
                                    {&Message::to, &Message::from, "receives slowly from"}};

// Compares the nodes by their fastest message in each direction. Adds a finding for each slow node, and removes its
// messages in this direction from `slow`. If a node exchanges messages with only one other node, either node may be at
// fault. Therefore, only nodes that exchange messages with at least two other nodes are compared.
void name_nodes(std::vector<Finding>& findings, const Messages& messages, std::vector<Slow>& slow) {
  for (const Direction& d : directions) {
    struct OfNode {
      const RankReport* rank = nullptr;
      std::set<int> others{};
      double fastest = std::numeric_limits<double>::infinity();  // seconds per byte
    };
    std::map<int, OfNode> nodes;
    for (const Message& m : messages) {
      OfNode& node = nodes[(m.*d.end)->node];
      node.rank = m.*d.end;
      node.others.insert((m.*d.other)->node);
      node.fastest = std::min(node.fastest, 1 / m.link->rate());
    }
    std::vector<const OfNode*> compared;
    std::vector<double> fastest;
    for (const auto& [number, node] : nodes)
      if (node.others.size() > 1) compared.push_back(&node), fastest.push_back(node.fastest);
    for (const Slow& found : slow_values(fastest, {.ratio = slow_link_ratio})) {
      const OfNode& node = *compared[found.index];
      findings.push_back(
          {.code = base::ExitCode::done,
           .kind = "link",
           .message = fmt::format("node {} {} all {}: at most {}, {:.1f} times slower than other nodes ({})",
                                  node.rank->facts.host, d.verb,
                                  base::counted(static_cast<int64_t>(node.others.size()), "other node"),
                                  rate_text(node.fastest), found.times, rate_text(found.reference))});
      std::erase_if(slow, [&](const Slow& s) { return (messages[s.index].*d.end)->node == node.rank->node; });
    }
  }
}

// Adds a finding for each of the slowest messages, at most `max_named`, the slowest first.
void name_pairs(std::vector<Finding>& findings, const Messages& messages, std::vector<Slow> slow,
                const std::function<std::string(const Slow&)>& extent) {
  std::stable_sort(slow.begin(), slow.end(), [](const Slow& a, const Slow& b) { return a.times > b.times; });
  for (size_t i = 0; i < std::min(max_named, slow.size()); ++i) {
    const Message& m = messages[slow[i].index];
    const size_t unnamed = slow.size() - max_named;
    const bool ends_list = i + 1 == max_named && slow.size() > max_named;
    findings.push_back(
        {.code = base::ExitCode::done,
         .kind = "link",
         .message = fmt::format(
             "from {} to {}: {}{}", name_of(*m.from), name_of(*m.to), extent(slow[i]),
             ends_list ? fmt::format("; and {}", base::counted(static_cast<int64_t>(unnamed), "more slow link"))
                       : "")});
  }
}

void name_slow_links(std::vector<Finding>& findings, const Messages& messages, bool across) {
  const char* others = across ? "other links between nodes" : "other links inside nodes";
  std::vector<double> per_byte, latencies;
  for (const Message& m : messages) {
    per_byte.push_back(1 / m.link->rate());
    latencies.push_back(m.link->latency);
  }
  std::vector<Slow> slow = slow_values(per_byte, {.ratio = slow_link_ratio});
  if (across) name_nodes(findings, messages, slow);
  name_pairs(findings, messages, slow, [&](const Slow& s) {
    return fmt::format("{}, {:.1f} times slower than {} ({})", rate_text(s.times * s.reference), s.times, others,
                       rate_text(s.reference));
  });
  const Rule latency_rule{.ratio = slow_latency_ratio, .least_excess = slow_latency_excess};
  name_pairs(findings, messages, slow_values(latencies, latency_rule), [&](const Slow& s) {
    return fmt::format("latency {}, {:.1f} times that of {} ({})", base::precise_duration(s.times * s.reference),
                       s.times, others, base::precise_duration(s.reference));
  });
}

}  // namespace

void judge_links(std::vector<Finding>& findings, const std::vector<RankReport>& ranks) {
  for (const RankReport& rank : ranks)
    if (!rank.damaged_from.empty())
      findings.push_back(
          {.code = base::ExitCode::communication,
           .kind = "link",
           .message = fmt::format("{} received other bytes than {} sent; check the cables and network adapters",
                                  name_of(rank), names_of(rank.damaged_from))});
  for (const bool across : {false, true}) name_slow_links(findings, messages_of(ranks, across), across);
}

}  // namespace hexad::check_cluster
