#include "framework/telemetry/tensorboard_sink.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>

#include "framework/telemetry/crc32c.h"

namespace hexad::telemetry {

namespace {

static_assert(std::endian::native == std::endian::little, "records are little-endian");

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Encodes the parts of the protobuf wire format that Event needs (protobuf.dev/programming-guides/encoding).
class Message {
 public:
  Message& varint(int field, uint64_t value) { return tag(field, 0), raw_varint(value), *this; }
  Message& fixed64(int field, double value) { return tag(field, 1), put(bytes_, value), *this; }
  Message& fixed32(int field, float value) { return tag(field, 5), put(bytes_, value), *this; }
  Message& bytes(int field, std::string_view value) {
    tag(field, 2), raw_varint(value.size());
    bytes_ += value;
    return *this;
  }
  const std::string& str() const { return bytes_; }

 private:
  void tag(int field, int wire_type) {
    raw_varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type));
  }
  void raw_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// Field numbers from tensorboard/compat/proto/event.proto and summary.proto.
namespace event_field {
constexpr int wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7;
}
namespace session_field {
constexpr int status = 1;
constexpr uint64_t start = 1;  // value of the enum SessionStatus
}  // namespace session_field
namespace summary_field {
constexpr int value = 1, tag = 1, simple_value = 2;
}

Message new_event(int64_t step) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  Message event;
  event.fixed64(event_field::wall_time, std::chrono::duration<double>(now).count());
  event.varint(event_field::step, static_cast<uint64_t>(step));
  return event;
}

class Scalars {
 public:
  void add(std::string_view tag, double value) {
    Message v;
    v.bytes(summary_field::tag, tag).fixed32(summary_field::simple_value, static_cast<float>(value));
    summary_.bytes(summary_field::value, v.str());
  }
  std::string event(int64_t step) const { return new_event(step).bytes(event_field::summary, summary_.str()).str(); }

 private:
  Message summary_;
};

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

std::string tensorboard_record(std::string_view bytes) {
  std::string out;
  put(out, static_cast<uint64_t>(bytes.size()));
  put(out, masked_crc32c(out));
  out += bytes;
  put(out, masked_crc32c(bytes));
  return out;
}

void TensorboardSink::on_start(const RunInfo& run) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  file_ = AppendFile(folder_ / fmt::format("events.out.tfevents.{:010}.{}.{}", seconds, host_name(), ::getpid()));
  file_.append(tensorboard_record(new_event(0).bytes(event_field::file_version, "brain.Event:2").str()));
  const std::string session = Message().varint(session_field::status, session_field::start).str();
  // A START event makes TensorBoard discard all points from the step of the event on.
  file_.append(tensorboard_record(new_event(run.first_step + 1).bytes(event_field::session_log, session).str()));
}

void TensorboardSink::on_step(const StepMetrics& s) {
  Scalars scalars;
  if (s.loss) scalars.add("train/loss", *s.loss);
  if (s.prediction_loss) scalars.add("train/prediction_loss", *s.prediction_loss);
  scalars.add("train/lr", s.lr);
  scalars.add("train/grad_norm", s.grad_norm);
  scalars.add("train/tokens", static_cast<double>(s.tokens));
  scalars.add("train/skipped_steps", static_cast<double>(s.skipped_steps));
  scalars.add("speed/step_seconds", s.step_seconds);
  scalars.add("speed/tokens_per_second", s.tokens_per_second);
  scalars.add("speed/model_flops_per_second", s.model_flops_per_second);
  scalars.add("speed/mfu", std::min(s.mfu, 1.0));  // a value above 1 means that the peak is too low
  scalars.add("speed/peak_flops_per_second", s.peak_flops_per_second);
  scalars.add("moe/aux_loss", s.aux_loss);
  scalars.add("moe/z_loss", s.z_loss);
  scalars.add("moe/router_max_load", s.router_max_load);
  scalars.add("moe/dropped_fraction", s.dropped_fraction);
  if (s.shadowed_experts > 0) scalars.add("moe/shadowed_experts", s.shadowed_experts);
  for (size_t layer = 0; layer < s.expert_load.size(); ++layer) {
    const auto& load = s.expert_load[layer];
    if (load.empty()) continue;
    const double max_over_mean = *std::max_element(load.begin(), load.end()) * static_cast<double>(load.size());
    scalars.add(fmt::format("moe_layers/max_load_{:03}", layer), max_over_mean);
  }
  for (const auto& [category, bytes] : s.memory_peak_bytes)
    scalars.add("memory_peak_bytes/" + category, static_cast<double>(bytes));
  for (const auto& [traffic, c] : s.comm) {
    scalars.add("comm_bytes/" + traffic, static_cast<double>(c.bytes));
    scalars.add("comm_seconds/" + traffic, c.seconds);
    scalars.add("comm_exposed_seconds/" + traffic, c.exposed_seconds);
  }
  if (s.ranks) {
    scalars.add("ranks/own_seconds_median", s.ranks->own_seconds.median);
    scalars.add("ranks/own_seconds_most", s.ranks->own_seconds.most);
    scalars.add("ranks/waited_seconds_median", s.ranks->waited_seconds.median);
  }
  file_.append(tensorboard_record(scalars.event(s.step)));
}

void TensorboardSink::on_eval(const EvalMetrics& e) {
  if (!e.loss) return;
  // Evaluations during training may use a sample of the held-out set. The sample and the whole set are different texts,
  // so each has its own curve.
  const std::string group = e.whole_set() ? "eval/" : "eval_sample/";
  Scalars scalars;
  scalars.add(group + "loss", *e.loss);
  if (e.bits_per_byte) scalars.add(group + "bits_per_byte", *e.bits_per_byte);
  file_.append(tensorboard_record(scalars.event(e.step)));
}

}  // namespace hexad::telemetry
