#include "framework/device/context.h"

#include "framework/base/enum_names.h"
#include "framework/base/error.h"
#include "framework/base/ordinal.h"
#include "framework/device/meta/meta_run.h"

namespace hexad::device {
namespace {

std::unique_ptr<Backend> make_backend(const ContextOptions& options) {
  switch (options.kind) {
    case DeviceKind::cpu:
      return make_cpu_backend(options);
    case DeviceKind::cuda:
      return make_cuda_backend(options);
    case DeviceKind::emulated:
      return make_emulated_backend(options);
    case DeviceKind::meta:
      return make_meta_backend(options);
  }
  base::fail_invariant(base::cat("[device] unknown kind of device: ", static_cast<int>(options.kind),
                                 "; expected cpu, cuda, emulated or meta"));
}

}  // namespace

std::string_view name_of(DeviceKind kind) {
  if (kind == DeviceKind::meta) return "meta";
  return base::enum_name(kind);
}

DeviceContext::DeviceContext(const Options& options)
    : backend_(make_backend(options)),
      kind_(options.kind),
      meta_(kind_ == DeviceKind::meta ? options.meta : nullptr),
      runs_ahead_((meta_ ? meta_->stands_for() : kind_) != DeviceKind::cpu),
      allocator_(backend_->make_allocator()) {
  for (int l = 0; l < lane_count; ++l) lanes_[l] = backend_->make_lane(static_cast<Lane>(l), false);
  updates_ = backend_->make_update_queue();
  run_lanes_on_threads(options.worker_lanes);
}

DeviceContext::~DeviceContext() {
  host_stream_.reset();  // destroyed first, because its remaining work may use this context
  std::lock_guard lock(life_->mutex_);
  life_->over_ = true;
}

bool DeviceContext::Life::during(const std::function<void()>& use) {
  std::lock_guard lock(mutex_);
  if (over_) return false;
  use();
  return true;
}

Stream& DeviceContext::host_stream() {
  if (!host_stream_) host_stream_ = make_worker_stream("host");
  return *host_stream_;
}

void DeviceContext::run_lanes_on_threads(bool wanted) {
  if (wanted == lanes_have_threads_) return;
  if (kind_ == DeviceKind::cuda || kind_ == DeviceKind::emulated) {
    lanes_have_threads_ = wanted;  // the lanes remain, because they are queues of the device and may have pending work
    return;
  }
  for (const Lane lane : {Lane::inter, Lane::intra, Lane::copy})
    lanes_[base::ordinal(lane)] = backend_->make_lane(lane, wanted);
  lanes_have_threads_ = wanted;
}

const std::shared_ptr<Allocator>& DeviceContext::offload_allocator() {
  std::lock_guard lock(offload_mutex_);
  if (!offload_) offload_ = backend_->make_offload_allocator();
  return offload_;
}

std::array<int64_t, category_count> DeviceContext::used_memory() const {
  std::array<int64_t, category_count> used = allocator_->stats().used;
  std::lock_guard lock(offload_mutex_);
  if (offload_) used[base::ordinal(Category::offload)] = offload_->stats().used_in(Category::offload);
  return used;
}

DeviceContext& DeviceContext::host() {
  if (on_host()) return *this;
  if (!host_) host_ = std::make_unique<DeviceContext>();
  return *host_;
}

void DeviceContext::count_host_read(std::string_view name) {
  if (const auto it = host_reads_.find(name); it != host_reads_.end())
    ++it->second;
  else
    host_reads_.emplace(name, 1);
}

}  // namespace hexad::device
