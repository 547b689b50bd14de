#include "framework/telemetry/metrics.h"

#include <chrono>

#include <fmt/chrono.h>

#include "framework/base/error.h"

namespace hexad::telemetry {

std::string utc_time() {
  using std::chrono::milliseconds, std::chrono::seconds;
  const auto now = std::chrono::time_point_cast<milliseconds>(std::chrono::system_clock::now());
  const auto second = std::chrono::floor<seconds>(now);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(second)),
                     (now - second).count());
}

void MetricsHub::on_start(const RunInfo& run) {
  for (auto& sink : sinks_) sink->on_start(run);
}

void MetricsHub::on_step(const StepMetrics& step) {
  for (auto& sink : sinks_) sink->on_step(step);
}

void MetricsHub::on_eval(const EvalMetrics& eval) {
  for (auto& sink : sinks_) sink->on_eval(eval);
}

void MetricsHub::on_save(const SaveMetrics& save) {
  for (auto& sink : sinks_) sink->on_save(save);
}

void MetricsHub::on_end() {
  for (auto& sink : sinks_) sink->on_end();
}

namespace {

class TolerantSink : public MetricsSink {
 public:
  TolerantSink(std::unique_ptr<MetricsSink> sink, std::function<void(const std::string&)> warn)
      : sink_(std::move(sink)), warn_(std::move(warn)) {}

  void on_start(const RunInfo& run) override { sink_->on_start(run); }
  void on_step(const StepMetrics& step) override {
    attempt([&] { sink_->on_step(step); });
  }
  void on_eval(const EvalMetrics& eval) override {
    attempt([&] { sink_->on_eval(eval); });
  }
  void on_save(const SaveMetrics& save) override {
    attempt([&] { sink_->on_save(save); });
  }
  void on_end() override {
    attempt([&] { sink_->on_end(); });
  }

 private:
  template <class F>
  void attempt(F&& f) {
    try {
      f();
    } catch (const base::Error& e) {  // a std::logic_error is a bug and must not be hidden
      if (!warned_) warn_(base::cat(e.what(), "; training continues, but records may be missing"));
      warned_ = true;
    }
  }

  std::unique_ptr<MetricsSink> sink_;
  std::function<void(const std::string&)> warn_;
  bool warned_ = false;
};

class CheckedSink : public MetricsSink {
 public:
  CheckedSink(std::unique_ptr<MetricsSink> sink, std::function<void()> check)
      : sink_(std::move(sink)), check_(std::move(check)) {}

  void on_start(const RunInfo& run) override { check_(), sink_->on_start(run); }
  void on_step(const StepMetrics& step) override { check_(), sink_->on_step(step); }
  void on_eval(const EvalMetrics& eval) override { check_(), sink_->on_eval(eval); }
  void on_save(const SaveMetrics& save) override { check_(), sink_->on_save(save); }
  void on_end() override { check_(), sink_->on_end(); }

 private:
  std::unique_ptr<MetricsSink> sink_;
  std::function<void()> check_;
};

}  // namespace

std::unique_ptr<MetricsSink> tolerate_failures(std::unique_ptr<MetricsSink> sink,
                                               std::function<void(const std::string&)> warn) {
  return std::make_unique<TolerantSink>(std::move(sink), std::move(warn));
}

std::unique_ptr<MetricsSink> checked(std::unique_ptr<MetricsSink> sink, std::function<void()> check) {
  return std::make_unique<CheckedSink>(std::move(sink), std::move(check));
}

}  // namespace hexad::telemetry
