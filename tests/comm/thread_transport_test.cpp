#include "parallel/comm/thread_transport.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

namespace hexad::comm {
namespace {

using base::Error;
using base::ExitCode;
using SendDone = Transport::SendDone;

// Network of two or more ranks, all driven by the test's own thread.
struct Network {
  explicit Network(ThreadNetwork::Options options)
      : shared(std::make_shared<ThreadNetwork>(options)), size(options.node_of_rank.size()) {
    for (size_t r = 0; r < size; ++r) ranks.push_back(shared->connect(static_cast<int>(r)));
  }
  Transport& operator[](size_t rank) { return *ranks[rank]; }
  std::vector<Transport::Done> poll(size_t rank, bool waits = true) {
    std::vector<Transport::Done> done;
    ranks[rank]->program_waits(waits);
    ranks[rank]->poll(done);
    return done;
  }
  std::set<uint64_t> tokens(size_t rank, bool waits = true) {
    std::set<uint64_t> out;
    for (const auto& d : poll(rank, waits)) out.insert(d.token);
    return out;
  }
  std::shared_ptr<ThreadNetwork> shared;
  size_t size;
  std::vector<std::unique_ptr<Transport>> ranks;
};

std::byte* bytes(float& value) { return reinterpret_cast<std::byte*>(&value); }
using Tokens = std::set<uint64_t>;

TEST(ThreadNetwork, MessagesArriveInOrderAndTagsAreSeparate) {
  Network net({.node_of_rank = {0, 0}});
  float first = 1, second = 2, other = 3, a = 0, b = 0, c = 0;
  net[0].send(1, 7, bytes(first), 4, 1, SendDone::copied);
  net[0].send(1, 7, bytes(second), 4, 2, SendDone::copied);
  net[1].receive(0, 8, bytes(c), 4, 3);
  EXPECT_EQ(net.tokens(1), Tokens{}) << "a message with another tag is not received";
  net[1].receive(0, 7, bytes(a), 4, 4);
  net[1].receive(0, 7, bytes(b), 4, 5);
  net[0].send(1, 8, bytes(other), 4, 6, SendDone::copied);
  EXPECT_EQ(net.tokens(1), (Tokens{3, 4, 5}));
  EXPECT_EQ(net.tokens(0), (Tokens{1, 2, 6}));
  EXPECT_EQ((std::array{a, b, c}), (std::array{1.f, 2.f, 3.f}));
}

TEST(ThreadNetwork, SendIsDoneOnlyWhenItsDataHaveBeenRead) {
  Network net({.node_of_rank = {0, 0}});
  float sent = 1, got = 0;
  net[0].send(1, 0, bytes(sent), 4, 1, SendDone::copied);
  EXPECT_EQ(net.tokens(0), Tokens{});
  sent = 2;
  net[1].receive(0, 0, bytes(got), 4, 2);
  EXPECT_EQ(got, 2);
  EXPECT_EQ(net.tokens(0), Tokens{1});
}

TEST(ThreadNetwork, SizeMismatchesAreReportedToTheReceiver) {
  Network net({.node_of_rank = {0, 0}});
  std::array<float, 2> sent{1, 2}, got{0, 0};
  net[0].send(1, 0, bytes(sent[0]), 8, 1, SendDone::copied);
  net[1].receive(0, 0, bytes(got[0]), 4, 2);
  const auto done = net.poll(1);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].error, "receive from rank 0: 8 bytes arrived, expected 4");
  EXPECT_EQ(done[0].code, ExitCode::communication);
  EXPECT_EQ(got, (std::array{1.f, 0.f})) << "nothing is written beyond the receiver's memory";
}

TEST(ThreadNetwork, ListsPendingOperations) {
  Network net({.node_of_rank = {0, 0, 1}});
  float value = 0;
  net[0].receive(2, 0, bytes(value), 4, 5);
  net[0].send(1, 0, bytes(value), 4, 5, SendDone::copied);
  net[0].receive(1, 0, bytes(value), 4, 6);
  const auto pending = net[0].pending(5);
  ASSERT_EQ(pending.size(), 2u);
  std::set<std::pair<int, bool>> found;
  for (const auto& p : pending) found.insert({p.peer, p.receive});
  EXPECT_EQ(found, (std::set<std::pair<int, bool>>{{1, false}, {2, true}}));
  EXPECT_EQ(net[2].topology().node_names, (std::vector<std::string>{"node0", "node1"}));
  EXPECT_EQ(net[1].topology().local_rank, 1);
  EXPECT_EQ(net[2].topology().local_rank, 0);
}

TEST(ThreadNetwork, OperationsWithADepartedRankFail) {
  Network net({.node_of_rank = {0, 0, 0}});
  float value = 0;
  net[0].receive(1, 0, bytes(value), 4, 1);
  net.ranks[1].reset();
  net[0].send(1, 0, bytes(value), 4, 2, SendDone::copied);
  net[0].receive(1, 3, bytes(value), 4, 3);
  const auto done = net.poll(0);
  ASSERT_EQ(done.size(), 3u);
  for (const auto& d : done) {
    EXPECT_EQ(d.error, "rank 1 has ended");
    EXPECT_EQ(d.code, ExitCode::peer_lost);
  }
  EXPECT_EQ(net.tokens(2), Tokens{});
}

TEST(ThreadNetwork, NotesArriveEvenAfterAnAbort) {
  for (const std::optional<uint64_t> adversary : {std::optional<uint64_t>(), std::optional<uint64_t>(1)}) {
    Network net({.node_of_rank = {0, 0}, .adversary = adversary});
    net[0].send_note(1, "who are you");
    net[1].abort(6);
    net[0].send_note(1, std::string(2 * Transport::longest_note, 'x'));
    std::vector<Transport::Note> notes;
    net[1].take_notes(notes), net[1].take_notes(notes);
    ASSERT_EQ(notes.size(), 2u);
    EXPECT_EQ(notes[0].from, 0);
    EXPECT_EQ(notes[0].text, "who are you");
    EXPECT_EQ(notes[1].text.size(), Transport::longest_note);
  }
}

TEST(ThreadNetwork, AbortReachesAllRanks) {
  Network net({.node_of_rank = {0, 0}});
  net[1].abort(5);
  try {
    net.poll(0);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::peer_lost);
    EXPECT_STREQ(e.what(), "[world] rank 1 ended with an error; see the message of rank 1");
  }
}

TEST(AdversaryNetwork, MessagesMoveOnlyIfEveryProgramIsBlocked) {
  Network net({.node_of_rank = {0, 0, 0}, .adversary = 1});
  float sent = 1, got = 0;
  net[1].receive(0, 0, bytes(got), 4, 2);
  EXPECT_TRUE(std::isnan(got)) << "the adversary fills the memory of a receive with NaN";
  net[0].send(1, 0, bytes(sent), 4, 1, SendDone::taken);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(net.tokens(0), Tokens{});
    EXPECT_EQ(net.tokens(1), Tokens{});
    EXPECT_EQ(net.tokens(2, false), Tokens{}) << "no message arrives while rank 2 computes";
  }
  EXPECT_TRUE(std::isnan(got));
  net.poll(2, true);
  EXPECT_EQ(got, 1);
  EXPECT_EQ(net.tokens(0), Tokens{1});
  EXPECT_EQ(net.tokens(1), Tokens{2});
}

// Some messages are read immediately, so data that are sent too early are wrong. Other messages are read as late as
// possible, so data that are overwritten too early are wrong.
TEST(AdversaryNetwork, DataAreReadImmediatelyOrAsLateAsPossible) {
  std::set<float> seen;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    Network net({.node_of_rank = {0, 0}, .adversary = seed});
    float sent = 1, got = 0;
    net[0].send(1, 0, bytes(sent), 4, 1, SendDone::copied);
    net[1].receive(0, 0, bytes(got), 4, 2);
    const bool done = net.tokens(0, false) == Tokens{1};
    sent = 2;
    while (std::isnan(got)) net.poll(0), net.poll(1);
    EXPECT_EQ(got, done ? 1 : 2) << "the first value is read if the send is done, otherwise the second";
    seen.insert(got);
  }
  EXPECT_EQ(seen, (std::set<float>{1, 2}));
}

TEST(AdversaryNetwork, MessagesOfDifferentWiresOvertakeEachOther) {
  std::set<size_t> first_to_come;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    Network net({.node_of_rank = {0, 0, 0}, .adversary = seed});
    std::array<float, 3> sent{0, 1, 2}, got{};
    for (const size_t from : {1, 2}) {
      net[0].receive(static_cast<int>(from), 0, bytes(got[from]), 4, from);
      net[from].send(0, 0, bytes(sent[from]), 4, 9, SendDone::copied);
    }
    for (size_t r : {1, 2, 1, 2}) net.poll(r);
    const auto arrived = net.tokens(0);
    ASSERT_EQ(arrived.size(), 1u) << "only one wire delivers at a time";
    first_to_come.insert(*arrived.begin());
  }
  EXPECT_EQ(first_to_come, (std::set<size_t>{1, 2}));
}

TEST(AdversaryNetwork, MessagesOfADepartedRankArrive) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Network net({.node_of_rank = {0, 0}, .adversary = seed});
    float sent = 1, got = 0;
    net[1].send(0, 0, bytes(sent), 4, 1, SendDone::copied);
    const bool done = net.tokens(1, false) == Tokens{1};
    if (!done) continue;  // the send is not done, so rank 1 may not end yet
    net.ranks[1].reset();
    sent = 2;
    net[0].receive(1, 0, bytes(got), 4, 2);
    EXPECT_EQ(net.tokens(0), Tokens{2});
    EXPECT_EQ(got, 1);
  }
}

}  // namespace
}  // namespace hexad::comm
