// Transport of one rank of a large job whose other ranks do not exist.
#pragma once

#include <atomic>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallel/comm/transport.h"

namespace hexad::bench {

/// Number and bytes of a rank's messages so far, in both directions.
struct MessageCounts {
  std::atomic<int64_t> messages = 0, bytes = 0;
};

/// Completes every message at the next poll. All received messages consist of zeros. The rank behaves like a rank of a
/// real job as long as zeros are valid values for the program.
class SilentPeers final : public comm::Transport {
 public:
  SilentPeers(comm::Topology topology, std::shared_ptr<MessageCounts> counts)
      : topology_(std::move(topology)), counts_(std::move(counts)) {}

  const comm::Topology& topology() const override { return topology_; }
  int largest_tag() const override { return INT_MAX; }
  void send(int, int, const std::byte*, int64_t bytes, uint64_t token, SendDone) override { complete(token, bytes); }
  void receive(int, int, std::byte* data, int64_t bytes, uint64_t token) override {
    if (bytes > 0) std::memset(data, 0, bytes);
    complete(token, bytes);
  }
  void program_waits(bool) override {}
  bool wake_with(std::function<void()>) override { return false; }
  void poll(std::vector<Done>& done) override {
    for (Done& message : ready_) done.push_back(std::move(message));
    ready_.clear();
  }
  std::vector<Pending> pending(uint64_t) const override { return {}; }
  void send_note(int, const std::string&) override {}
  void take_notes(std::vector<Note>&) override {}
  void abort(int code) override { std::_Exit(code); }

 private:
  void complete(uint64_t token, int64_t bytes) {
    ++counts_->messages;
    counts_->bytes += bytes;
    ready_.push_back({.token = token});
  }

  const comm::Topology topology_;
  const std::shared_ptr<MessageCounts> counts_;
  std::vector<Done> ready_;
};

}  // namespace hexad::bench
