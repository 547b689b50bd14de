#include "framework/device/host_wait.h"

#include <utility>

namespace hexad::device {
namespace {

thread_local const HostWait* innermost = nullptr;

}  // namespace

HostWait::HostWait(std::string name) : name_(std::move(name)), around_(std::exchange(innermost, this)), range_(name_) {}

HostWait::~HostWait() { innermost = around_; }

std::string_view HostWait::current() { return innermost ? std::string_view(innermost->name_) : std::string_view(); }

}  // namespace hexad::device
