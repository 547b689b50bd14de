// TensorBoard's event files, decoded by a reader that shares only the checksum with the writer. The checksum is
// compared with published values.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "framework/telemetry/crc32c.h"
#include "framework/telemetry/tensorboard_sink.h"
#include "tests/telemetry/temporary_folder.h"

namespace hexad::telemetry {
namespace {

TEST(Crc32c, MatchesRfc3720AppendixB4) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string ascending, descending;
  for (int i = 0; i < 32; ++i) ascending += static_cast<char>(i), descending += static_cast<char>(31 - i);
  EXPECT_EQ(crc32c(ascending), 0x46dd794eu);
  EXPECT_EQ(crc32c(descending), 0x113fdb5cu);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);  // the standard check value
  EXPECT_EQ(crc32c(""), 0u);
}

template <class T>
T take(std::string_view& bytes) {
  T value{};
  if (bytes.size() < sizeof value) throw std::runtime_error("the event file is too short");
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

uint64_t take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = take<uint8_t>(bytes);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

struct Field {
  uint64_t number = 0;
  uint64_t varint = 0;
  double f64 = 0;
  float f32 = 0;
  std::string_view bytes = {};
};

std::vector<Field> fields(std::string_view message) {
  std::vector<Field> out;
  while (!message.empty()) {
    const uint64_t key = take_varint(message);
    Field f{.number = key >> 3};
    switch (key & 7) {
      case 0:
        f.varint = take_varint(message);
        break;
      case 1:
        f.f64 = take<double>(message);
        break;
      case 5:
        f.f32 = take<float>(message);
        break;
      case 2: {
        const uint64_t size = take_varint(message);
        f.bytes = message.substr(0, size);
        message.remove_prefix(size);
        break;
      }
      default:
        throw std::runtime_error("the event has an unknown wire type");
    }
    out.push_back(f);
  }
  return out;
}

struct Event {
  double wall_time = 0;
  int64_t step = 0;
  std::string file_version;
  std::optional<uint64_t> session_status;
  std::map<std::string, float> scalars;
};

Event decode(std::string_view message) {
  Event event;
  for (const Field& f : fields(message)) {
    if (f.number == 1) event.wall_time = f.f64;
    if (f.number == 2) event.step = static_cast<int64_t>(f.varint);
    if (f.number == 3) event.file_version = f.bytes;
    if (f.number == 7) event.session_status = fields(f.bytes).at(0).varint;
    if (f.number != 5) continue;
    for (const Field& value : fields(f.bytes)) {
      std::string tag;
      for (const Field& part : fields(value.bytes)) {
        if (part.number == 1) tag = part.bytes;
        if (part.number == 2) event.scalars[tag] = part.f32;
      }
    }
  }
  return event;
}

uint32_t masked(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

std::vector<Event> read_events(const std::filesystem::path& folder) {
  std::vector<Event> events;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_EQ(entry.path().filename().string().rfind("events.out.tfevents.", 0), 0u) << entry.path();
    const std::string file = contents(entry.path());
    for (std::string_view rest = file; !rest.empty();) {
      const std::string_view length_bytes = rest.substr(0, 8);
      const auto length = take<uint64_t>(rest);
      EXPECT_EQ(take<uint32_t>(rest), masked(length_bytes));
      const std::string_view data = rest.substr(0, length);
      rest.remove_prefix(length);
      EXPECT_EQ(take<uint32_t>(rest), masked(data));
      events.push_back(decode(data));
    }
  }
  return events;
}

TEST(TensorboardSink, EventsDecodeToTheReportedValues) {
  const TemporaryFolder folder;
  TensorboardSink sink(folder / "tensorboard");
  sink.on_start({});
  StepMetrics s;
  s.step = 300;  // needs two varint bytes
  s.loss = 2.5;
  s.lr = 1e-4;
  s.memory_peak_bytes["activation"] = 1 << 20;
  s.comm["ep"] = {.bytes = 64, .seconds = 0.5, .exposed_seconds = 0.25};
  s.expert_load = {{}, {0.25, 0.75}};
  sink.on_step(s);
  sink.on_eval({.step = 300, .loss = 2.25, .bits_per_byte = 1.5});
  sink.on_end();

  const std::vector<Event> events = read_events(folder / "tensorboard");
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_GT(events[0].wall_time, 1.6e9);
  EXPECT_EQ(events[2].step, 300);
  EXPECT_EQ(events[2].scalars.at("train/loss"), 2.5f);
  EXPECT_EQ(events[2].scalars.at("train/lr"), 1e-4f);
  EXPECT_EQ(events[2].scalars.at("memory_peak_bytes/activation"), 1048576.0f);
  EXPECT_EQ(events[2].scalars.at("comm_exposed_seconds/ep"), 0.25f);
  EXPECT_EQ(events[2].scalars.at("moe_layers/max_load_001"), 1.5f) << "0.75 is 1.5 times the mean of two experts";
  EXPECT_EQ(events[2].scalars.count("moe_layers/max_load_000"), 0u) << "layer 0 is dense";
  EXPECT_EQ(events[3].step, 300);
  EXPECT_EQ(events[3].scalars.at("eval/bits_per_byte"), 1.5f);
}

TEST(TensorboardSink, WritesNoLossWithoutTargets) {
  const TemporaryFolder folder;
  TensorboardSink sink(folder / "tb");
  sink.on_start({});
  StepMetrics s;
  s.step = 1;
  s.grad_norm = 2;
  sink.on_step(s);
  sink.on_eval({.step = 1});
  const std::vector<Event> events = read_events(folder / "tb");
  ASSERT_EQ(events.size(), 3u) << "the evaluation has no event";
  EXPECT_EQ(events[2].scalars.count("train/loss"), 0u);
  EXPECT_EQ(events[2].scalars.at("train/grad_norm"), 2.0f);
}

TEST(TensorboardSink, SampleAndTheWholeHeldOutSetAreTwoCurves) {
  const TemporaryFolder folder;
  TensorboardSink sink(folder / "tb");
  sink.on_start({});
  sink.on_eval({.step = 1, .tokens = 8, .loss = 2.5, .sequences = 2, .total_sequences = 9});
  sink.on_eval({.step = 1, .tokens = 36, .loss = 2.25, .sequences = 9, .total_sequences = 9});
  const std::vector<Event> events = read_events(folder / "tb");
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[2].scalars.at("eval_sample/loss"), 2.5f);
  EXPECT_EQ(events[3].scalars.at("eval/loss"), 2.25f);
}

TEST(TensorboardSink, CapsTheMfuAtOne) {
  const TemporaryFolder folder;
  TensorboardSink sink(folder / "tb");
  sink.on_start({});
  StepMetrics s;
  s.mfu = 1.76;
  s.peak_flops_per_second = 1e9;
  sink.on_step(s);
  const Event event = read_events(folder / "tb").at(2);
  EXPECT_EQ(event.scalars.at("speed/mfu"), 1.0f);
  EXPECT_EQ(event.scalars.at("speed/peak_flops_per_second"), 1e9f);
}

TEST(TensorboardSink, ResumedRunPurgesTheStepsItRepeats) {
  const TemporaryFolder folder;
  TensorboardSink sink(folder / "tb");
  RunInfo run;
  run.first_step = 40;
  sink.on_start(run);
  const std::vector<Event> events = read_events(folder / "tb");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].session_status, 1u) << "1 is SessionLog.START";
  EXPECT_EQ(events[1].step, 41);
}

}  // namespace
}  // namespace hexad::telemetry
