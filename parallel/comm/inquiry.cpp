#include "parallel/comm/inquiry.h"

#include <algorithm>
#include <utility>

#include "framework/base/error.h"

namespace hexad::comm {
namespace {

using base::cat;

// Maximum number of ranks in one inquiry, including this rank. This number suffices for thousands of ranks, because the
// chain of waits that leads to the rank to blame is short.
constexpr size_t max_in_inquiry = 256;

std::string one_decimal(double seconds) { return cat(static_cast<double>(static_cast<int64_t>(seconds * 10)) / 10); }

// Describes the rank at which a chain of waits ends.
std::string complaint(const std::optional<Standing>& standing) {
  if (!standing) return "does not answer: it is stopped, has ended or cannot be reached";
  if (standing->kind == Standing::Kind::files)
    return cat("has made no progress in its file work for ", one_decimal(standing->seconds), " s: it is ",
               standing->text);
  return cat("waits for no other rank: it computes, or hangs in its own code", standing->text.empty() ? "" : "; ",
             standing->text);
}

}  // namespace

Inquiry::Inquiry(int rank, Standing wait, Standing own, double limit)
    : rank_(rank), wait_(std::move(wait)), limit_(limit) {
  nodes_[rank] = {.waiter = -1, .asked = true, .ticks = 0, .standing = own};
  reach(rank, wait_.missing);
  if (own.kind == Standing::Kind::waits) reach(rank, own.missing);
}

void Inquiry::reach(int waiter, const std::vector<int>& ranks) {
  for (int r : ranks)
    if (nodes_.size() < max_in_inquiry) nodes_.try_emplace(r, Node{.waiter = waiter});
}

std::vector<int> Inquiry::ranks_to_ask() {
  std::vector<int> ranks;
  for (auto& [rank, node] : nodes_)
    if (!std::exchange(node.asked, true)) ranks.push_back(rank);
  return ranks;
}

void Inquiry::answer(int rank, Standing standing) {
  const auto node = nodes_.find(rank);
  if (node == nodes_.end()) return;
  if (standing.kind == Standing::Kind::waits) reach(rank, standing.missing);
  node->second.standing = std::move(standing);
}

void Inquiry::tick() {
  for (auto& [rank, node] : nodes_) ++node.ticks;
}

bool Inquiry::over() const {
  return std::all_of(nodes_.begin(), nodes_.end(),
                     [&](const auto& n) { return n.second.standing.has_value() || silent(n.second); });
}

std::vector<int> Inquiry::ranks_where(const std::function<bool(const Node&)>& holds) const {
  std::vector<int> ranks;
  for (const auto& [rank, node] : nodes_)
    if (holds(node)) ranks.push_back(rank);
  return ranks;
}

std::string Inquiry::hang_text(const std::vector<int>& ranks, const std::function<std::string(int)>& name,
                               const std::string& advice) const {
  constexpr size_t shown = 4;
  std::string chain, verdict;
  // Describes the chain of waits from this rank to the first of `ranks`.
  for (int r = nodes_.at(ranks.front()).waiter; r >= 0 && r != rank_; r = nodes_.at(r).waiter)
    chain = cat("; ", name(r), " waits in ", nodes_.at(r).standing->text, chain);
  for (size_t i = 0; i < std::min(ranks.size(), shown); ++i)
    verdict += cat(i ? "; " : "", name(ranks[i]), " ", complaint(nodes_.at(ranks[i]).standing));
  if (ranks.size() > shown) verdict += cat("; and ", ranks.size() - shown, " more");
  return cat(wait_.text, chain, "; to blame: ", verdict, "; ", advice);
}

Inquiry::Finding Inquiry::finding(const std::function<std::string(int)>& name) const {
  const auto is = [](const Node& n, Standing::Kind kind) { return n.standing && n.standing->kind == kind; };
  const auto still = [&](const Node& n) { return is(n, Standing::Kind::files) && n.standing->seconds >= limit_; };
  const auto moving = [&](const Node& n) { return is(n, Standing::Kind::files) && !still(n); };
  // The order of these checks matters:
  //   - A silent rank is always to blame, and so is a rank whose file work makes no progress.
  //   - There is no hang yet if other file work makes progress, because all waits may be waits for this work.
  //   - In all other cases, a rank that waits for no other rank is to blame. The ranks wait in a cycle if there is no
  //     such rank.
  const auto gone = ranks_where([&](const Node& n) { return silent(n); });
  if (!gone.empty())
    return {.silence = true,
            .text = hang_text(gone, name,
                              gone.size() == 1
                                  ? "expected an answer within a few seconds; check the process and the log of "
                                    "the rank, and the network to its host"
                                  : "expected answers within a few seconds; check the processes and the logs of "
                                    "these ranks, and the network to their hosts")};
  const auto stuck = ranks_where(still);
  if (!stuck.empty())
    return {.text = hang_text(stuck, name,
                              cat("expected progress within ", limit_,
                                  " s; check the storage of the file, or increase distributed.watchdog_seconds"))};
  const auto busy = ranks_where(moving);
  if (!busy.empty()) {
    double quiet = 0;
    for (int r : busy) quiet = std::max(quiet, nodes_.at(r).standing->seconds);
    return {.moves = true, .quiet_seconds = quiet};
  }
  const auto working = ranks_where([&](const Node& n) { return is(n, Standing::Kind::works); });
  if (!working.empty()) {
    // Blames other ranks first, because the program of this rank may be computing while its operations are in flight.
    auto others = working;
    std::erase(others, rank_);
    const auto& blamed = others.empty() ? working : others;
    return {.text =
                hang_text(blamed, name,
                          blamed.size() == 1
                              ? "expected the rank to join the operation; check its log and the stack of its process; "
                                "if it computes, increase distributed.watchdog_seconds"
                              : "expected these ranks to join the operation; check their logs and the stacks of their "
                                "processes; if they compute, increase distributed.watchdog_seconds")};
  }
  std::string circle;
  for (const auto& [rank, node] : nodes_)
    if (rank != rank_) circle += cat("; ", name(rank), " waits in ", node.standing->text);
  return {.text = cat(wait_.text, circle,
                      "; to blame: no single rank, because they wait for each other; expected the same order of "
                      "operations on all ranks; compare the operations that are named here")};
}

}  // namespace hexad::comm
