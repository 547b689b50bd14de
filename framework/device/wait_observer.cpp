#include "framework/device/wait_observer.h"

#include <utility>

namespace hexad::device {
namespace {

thread_local WaitObserver* innermost = nullptr;

}  // namespace

ObservedThread::ObservedThread(WaitObserver& observer) : around_(std::exchange(innermost, &observer)) {}

ObservedThread::~ObservedThread() { innermost = around_; }

BlockedThread::BlockedThread() : observer_(innermost) {
  if (observer_) observer_->blocked();
}

BlockedThread::~BlockedThread() {
  if (observer_) observer_->resumed();
}

}  // namespace hexad::device
