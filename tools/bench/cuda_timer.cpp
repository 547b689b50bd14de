#include "tools/bench/cuda_timer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"
#include "framework/base/philox.h"
#include "framework/device/cuda/cuda_check.h"
#include "framework/device/cuda/cuda_stream.h"
#include "framework/tensor/device_access.h"

namespace hexad::bench {

using namespace base;
using namespace tensor;
namespace {

using device::cuda::check;

class TimingEvent {
 public:
  TimingEvent() { check(cudaEventCreate(&event_), "creating an event"); }
  ~TimingEvent() { static_cast<void>(cudaEventDestroy(event_)); }
  TimingEvent(const TimingEvent&) = delete;
  TimingEvent& operator=(const TimingEvent&) = delete;

  void record(Stream& stream) {
    const auto queue = device::cuda::cuda_stream(stream).handle();
    check(cudaEventRecord(event_, queue.get()), "recording an event");
  }
  double seconds_since(const TimingEvent& begin) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.event_, event_), "reading a time");
    return milliseconds * 1e-3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

CudaTimer::CudaTimer(device::DeviceContext& card, const std::string& only, const std::string& json_file)
    : card_(card), only_(only) {
  constexpr int64_t flood = 256 << 20, copied = int64_t{1} << 30;
  flood_ = empty({flood}, Dtype::u8);
  if (!json_file.empty()) {
    json_.open(json_file);
    if (!json_)
      base::fail(base::ExitCode::resource, "cannot write '", json_file,
                 "'; expected a writable file in an existing folder");
  }
  const Tensor from = Tensor::zeros({copied}, Dtype::u8, card), to = empty({copied}, Dtype::u8);
  const double seconds = median_seconds([&](Stream& s) { card_.copy(s, device_raw(to), device_raw(from), copied); });
  copy_rate_ = 2.0 * static_cast<double>(copied) / seconds;
  fmt::print("{}; copy bandwidth {:.0f} GB/s (read + write)\n\n", card.description(), copy_rate_ * 1e-9);
  fmt::print("{:<44}{:>11}{:>10}{:>9}{:>9}\n", "kernel", "us", "TFLOP/s", "GB/s", "% copy");
}

double CudaTimer::median_seconds(const std::function<void(Stream&)>& call) {
  constexpr int warm_ups = 5, timed = 20;
  Stream& stream = card_.compute();
  for (int i = 0; i < warm_ups; ++i) call(stream);
  std::vector<TimingEvent> begins(timed), ends(timed);
  for (size_t i = 0; i < timed; ++i) {
    card_.fill(stream, device_raw(flood_), 0, flood_.bytes());  // the host queues the timed call while this fill runs
    begins[i].record(stream);
    call(stream);
    ends[i].record(stream);
  }
  stream.synchronize();
  std::vector<double> seconds;
  for (size_t i = 0; i < timed; ++i) seconds.push_back(ends[i].seconds_since(begins[i]));
  std::sort(seconds.begin(), seconds.end());
  return (seconds[timed / 2 - 1] + seconds[timed / 2]) / 2;
}

bool CudaTimer::succeeds(const std::string& name, const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const std::exception& e) {
    ++failures_;
    fmt::print("{:<44}failed: {}\n", name, e.what());
    return false;
  }
}

void CudaTimer::prepare(const std::string& name, const std::function<void(Stream&)>& call) {
  succeeds(name, [&] { call(card_.compute()); });
}

void CudaTimer::line(const std::string& name, const Work& work, const std::function<void(Stream&)>& call,
                     const Around& around) {
  if (!std::regex_search(name, only_)) return;
  double seconds = 0;
  if (!succeeds(name, [&] { around([&] { seconds = median_seconds(call); }); })) return;
  const double tflops = work.operations / seconds * 1e-12, gigabytes = work.bytes / seconds * 1e-9;
  const double share = work.bytes / seconds / copy_rate_;
  fmt::print("{:<44}{:>11.1f}{:>10}{:>9}{:>9}\n", name, seconds * 1e6,
             work.operations > 0 ? fmt::format("{:.1f}", tflops) : "",
             work.bytes > 0 ? fmt::format("{:.0f}", gigabytes) : "",
             work.bytes > 0 ? fmt::format("{:.0f}%", 100 * share) : "");
  std::fflush(stdout);
  if (!json_.is_open()) return;
  json_ << fmt::format(
               R"({{"kernel": "{}", "us": {:.2f}, "tflops": {:.2f}, "gbytes_per_s": {:.1f}, "of_copy": {:.3f}}})", name,
               seconds * 1e6, tflops, gigabytes, share)
        << std::endl;
}

Tensor CudaTimer::normal(Shape shape, Dtype dtype, double scale) {
  constexpr int64_t period = 1 << 20;
  const Tensor t = empty(shape, dtype);
  const int64_t own = std::min(period, t.numel());
  with_dtype<float, bf16, double>("bench", dtype, [&]<class T>() {
    const base::Philox random(1, base::Purpose::synthetic);
    std::vector<T> v(own);
    uint64_t i = 0;
    for (T& x : v) x = T(static_cast<float>(scale * random.normal(i++)));
    card_.copy(card_.compute(), device_raw(t), v.data(), own * size_of(dtype));
  });
  auto* bytes = static_cast<std::byte*>(device_raw(t));
  for (int64_t done = own * size_of(dtype); done < t.bytes(); done *= 2)
    card_.copy(card_.compute(), bytes + done, bytes, std::min(done, t.bytes() - done));
  return t;
}

}  // namespace hexad::bench
