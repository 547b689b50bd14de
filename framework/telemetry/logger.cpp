#include "framework/telemetry/logger.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <ctime>
#include <mutex>

#include "framework/base/error.h"
#include "framework/base/escaped.h"
#include "framework/telemetry/append_file.h"
#include "framework/telemetry/text_output.h"

namespace hexad::telemetry {

namespace {

/// Unbuffered file sink. The file sink of spdlog uses a stdio buffer. This buffer loses lines when a rank is killed,
/// and repeats lines when the disk is full.
class LogFileSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit LogFileSink(const std::filesystem::path& path) : file_(path) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    try {
      file_.append(base::escaped_lines({line.data(), line.size()}));
    } catch (const base::Error& e) {
      if (!warned_)
        TextOutput(STDERR_FILENO, BlockedReader::drop)
            .write(base::cat(e.what(), "; lines of this log may be missing\n"));
      warned_ = true;
    }
  }
  void flush_() override {}

 private:
  AppendFile file_;
  bool warned_ = false;
};

class StandardErrorSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    // Clears the progress line, if any. The next step writes it again below the log line.
    if (output_.is_terminal()) output_.write("\r\x1b[K");
    output_.write(base::escaped_lines({line.data(), line.size()}));
  }
  void flush_() override {}

 private:
  TextOutput output_{STDERR_FILENO, BlockedReader::drop};
};

}  // namespace

namespace {

/// Appends the local time, for example ", 13:05:07 +0100", if it differs from UTC.
class LocalTime : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::time_t time = spdlog::log_clock::to_time_t(message.time);
    const std::tm local = fmt::localtime(time);
    if (local.tm_gmtoff != 0) fmt::format_to(std::back_inserter(out), ", {:%H:%M:%S %z}", local);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<LocalTime>(); }
};

std::unique_ptr<spdlog::formatter> line_of_file() {
  auto line = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  line->add_flag<LocalTime>('*').set_pattern("%Y-%m-%d %H:%M:%S.%e UTC%* %n %l: %v");
  return line;
}

}  // namespace

std::shared_ptr<spdlog::logger> make_logger(const std::filesystem::path& path, int rank,
                                            spdlog::level::level_enum level) {
  std::vector<spdlog::sink_ptr> sinks{std::make_shared<LogFileSink>(path)};
  sinks.back()->set_formatter(line_of_file());
  if (rank == 0) {
    sinks.push_back(std::make_shared<StandardErrorSink>());
    sinks.back()->set_pattern("%l: %v");
  }
  auto logger = std::make_shared<spdlog::logger>(fmt::format("rank {}", rank), sinks.begin(), sinks.end());
  logger->set_level(level);
  return logger;
}

std::shared_ptr<spdlog::logger> file_only(const spdlog::logger& logger) {
  auto file = std::make_shared<spdlog::logger>(logger.name(), logger.sinks().front());
  file->set_level(logger.level());
  return file;
}

}  // namespace hexad::telemetry
