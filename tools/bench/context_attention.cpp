// Measures attention over ranks that share a sequence: its duration, and the time for which a rank waits for messages.
//
//   mpirun -np 4 context_attention [--tokens 8192] [--heads 2] [--kv-heads 1] [--size 64] [--rounds 3]
//                                 [--kinds ring,..]
//
// Prints one line per measurement, with fields separated by tabs: round, what, pass, seconds of the slowest rank,
// seconds for which a rank waited, seconds in which its messages were in flight, bytes that a rank sent. The last three
// values are means over the ranks. `what` is a kind of context attention, "alone" (the ring's attention without
// messages), or "messages" (the ring's messages without attention).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>

#include "framework/base/enum_names.h"
#include "framework/base/philox.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/kernel_table.h"
#include "parallel/comm/world.h"
#include "parallel/cp/attention_blocks.h"

namespace hexad::cp {

using namespace autograd;
namespace {

struct Options {
  int64_t tokens = 8192;  // tokens per rank
  int64_t heads = 2, kv_heads = 1, size = 64;
  int rounds = 3;
  std::vector<std::string> kinds{"ring", "all_gather"};
};

class Bench {
 public:
  Bench(const Options& o, const comm::ProcessGroup& group)
      : options_(o), group_(group), q_(random(o.heads)), k_(random(o.kv_heads)), v_(random(o.kv_heads)) {
    context_.split = {.sequences = 1, .length = o.tokens * group.size(), .ranks = group.size(), .rank = group.rank()};
    context_.group = &group;
    context_.scale = 1 / std::sqrt(static_cast<double>(o.size));
  }

  void round(int number) {
    round_ = number;
    alone();
    messages();
    for (const std::string& name : options_.kinds)
      if (const auto kind = base::enum_named<ContextKind>(name)) attention(*kind, name);
  }

 private:
  using Clock = std::chrono::steady_clock;

  Tensor random(int64_t heads) {
    std::vector<float> values(options_.tokens * heads * options_.size);
    base::Philox(1, base::Purpose::synthetic, "attention", drawn_++)
        .normals(values, static_cast<uint64_t>(group_.rank()) << 32);
    return Tensor::from<float>(values, {options_.tokens, heads, options_.size}, device_);
  }

  // Runs `work` on all ranks at the same time and prints a line with the measurement.
  template <class Work>
  void measure(std::string_view what, std::string_view pass, const Work& work) {
    group_.barrier(stream()).wait();
    group_.take(group_.traffic());
    const auto begin = Clock::now();
    work();
    stream().record().wait();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    const comm::TrafficStats t = group_.take(group_.traffic());
    const auto mean = [&](double x) { return group_.all_reduce_value(x, comm::Reduce::sum, device_) / group_.size(); };
    const double slowest = group_.all_reduce_value(seconds, comm::Reduce::max, device_);
    const double waited = mean(t.exposed_seconds), in_flight = mean(t.seconds),
                 sent = mean(static_cast<double>(t.bytes));
    if (group_.rank() != 0) return;
    fmt::print("{}\t{}\t{}\t{:.4f}\t{:.4f}\t{:.4f}\t{:.0f}\n", round_, what, pass, slowest, waited, in_flight, sent);
    std::fflush(stdout);
  }

  void attention(ContextKind kind, std::string_view name) {
    context_.kind = kind;
    const auto policy = autograd::keep_policy();
    Tape tape(stream(), *policy);
    const Value q = tape.leaf(q_), k = tape.leaf(k_), v = tape.leaf(v_);
    Value out;
    measure(name, "forward", [&] { out = context_attention(tape, q, k, v, context_); });
    const std::vector<autograd::Replay::Root> roots{{out, q_}};
    autograd::Replay replay(tape, roots);
    measure(name, "backward", [&] { replay.run(); });
  }

  // Computes attention with the same number of keys as in the ring, but all keys are this rank's own.
  void alone() {
    RunningAttention running(q_, stream());
    measure("alone", "forward", [&] {
      for (int owner = 0; owner < group_.size(); ++owner) running.add(q_, k_, v_, owner, context_, stream());
    });
    const QueryGradient g{.dq = Tensor::zeros(q_.shape(), Dtype::f32, device_),
                          .dout = q_,
                          .out = running.sum(),
                          .log_sum_exp = running.log_sum_exp(),
                          .q = q_};
    const Tensor dk = Tensor::zeros(k_.shape(), Dtype::f32, device_),
                 dv = Tensor::zeros(k_.shape(), Dtype::f32, device_);
    measure("alone", "backward", [&] {
      for (int owner = 0; owner < group_.size(); ++owner) add_gradients(g, dk, dv, k_, v_, owner, context_, stream());
    });
  }

  // Exchanges only the messages of forward: in each step, sends a block of keys and values to the next rank and
  // receives a block from the previous rank.
  void messages() {
    const Tensor out = Tensor::zeros({2 * k_.numel()}, Dtype::f32, device_), in = Tensor::like(out);
    measure("messages", "forward", [&] {
      for (int i = 1; i < group_.size(); ++i) {
        const device::Event sent = group_.send(out, (group_.rank() + 1) % group_.size(), stream());
        group_.receive(in, (group_.rank() + group_.size() - 1) % group_.size(), stream()).wait();
        sent.wait();
      }
    });
  }

  Stream& stream() { return device_.compute(); }

  const Options& options_;
  const comm::ProcessGroup& group_;
  device::DeviceContext device_;
  uint64_t drawn_ = 0;
  Tensor q_, k_, v_;  // [tokens, heads or kv_heads, size]
  ContextAttention context_;
  int round_ = 0;
};

int run(int argc, char** argv) {
  Options o;
  CLI::App app("Times attention over ranks that share a sequence");
  app.add_option("--tokens", o.tokens, "number of tokens of each rank; must be even")->check(CLI::PositiveNumber);
  app.add_option("--heads", o.heads, "number of query heads")->check(CLI::PositiveNumber);
  app.add_option("--kv-heads", o.kv_heads, "number of heads of keys and values; must divide --heads")
      ->check(CLI::PositiveNumber);
  app.add_option("--size", o.size, "size of a head")->check(CLI::PositiveNumber);
  app.add_option("--rounds", o.rounds, "number of repetitions")->check(CLI::PositiveNumber);
  app.add_option("--kinds", o.kinds, "kinds to measure: ring, all_gather, ulysses")
      ->delimiter(',')
      ->check(CLI::IsMember({"ring", "all_gather", "ulysses"}));
  CLI11_PARSE(app, argc, argv);
  kernels::cpu::set_thread_count(1);
  return comm::with_world([&](comm::World& world) {
    const auto group = world.group().split(0, world.rank(), comm::TrafficClass::cp, "cp");
    Bench bench(o, *group);
    for (int i = 1; i <= o.rounds; ++i) bench.round(i);
    return 0;
  });
}

}  // namespace
}  // namespace hexad::cp

int main(int argc, char** argv) { return hexad::cp::run(argc, argv); }
