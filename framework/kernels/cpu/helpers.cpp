#include "framework/kernels/cpu/helpers.h"

#include <pthread.h>

#include <system_error>
#include <utility>

#include "framework/base/blocked_signals.h"
#include "framework/base/error.h"

namespace hexad::kernels::cpu {
namespace {

// Time that a thread spins before it sleeps. A sleep and a wake-up together take about as long as this limit, so
// spinning at most doubles the cost of a wait.
constexpr std::chrono::microseconds spin_limit{50};

}  // namespace

Helpers::Helpers() : spin_(spin_limit) {}

Helpers::~Helpers() {
  work_ = {};
  for (const auto& helper : helpers_) helper->given.give();
  for (const auto& helper : helpers_) helper->thread.join();
}

void Helpers::run(const Work& work) {
  const size_t count = work.pieces - 1;
  while (helpers_.size() < count) add();
  work_ = work;
  for (size_t i = 0; i < count; ++i) helpers_[i]->given.give();
  work.call(work.body, 0, work.pieces);
  for (size_t i = 0; i < count; ++i) {
    helpers_[i]->begun = !helpers_[i]->given.try_take();
    if (!helpers_[i]->begun) work.call(work.body, static_cast<int64_t>(i) + 1, work.pieces);
  }
  for (size_t i = 0; i < count; ++i)
    if (helpers_[i]->begun) helpers_[i]->done.take(spin_);
}

void Helpers::add() {
  const base::BlockedSignals blocked;
  const auto piece = static_cast<int64_t>(helpers_.size()) + 1;
  auto helper = std::make_unique<Helper>();
  try {
    helper->thread = std::thread([this, &self = *helper, piece] { help(self, piece); });
  } catch (const std::system_error& e) {
    base::fail(base::ExitCode::resource, "cannot start thread ", piece + 1, " for kernels: ", e.what(),
               "; set a smaller train.threads, or raise the limit of processes (ulimit -u)");
  }
  helpers_.push_back(std::move(helper));
}

void Helpers::help(Helper& self, int64_t piece) {
  pthread_setname_np(pthread_self(), "kernels");
  base::BriefSpin spin(spin_limit);
  while (true) {
    self.given.take(spin);
    if (!work_.call) return;
    work_.call(work_.body, piece, work_.pieces);
    self.done.give();
  }
}

}  // namespace hexad::kernels::cpu
