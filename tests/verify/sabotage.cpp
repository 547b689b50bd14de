#include "tests/verify/sabotage.h"

namespace hexad::tests {
namespace {

using comm::Operation;
using comm::ProcessGroup;
using device::Event;
using device::Stream;

class WrongGroup final : public ProcessGroup {
 public:
  WrongGroup(const ProcessGroup& right, std::unique_ptr<ProcessGroup> owned, Wrong wrong)
      : ProcessGroup(right.traffic(), right.name(), std::make_shared<comm::TrafficMeter>(), right.node_of_rank()),
        right_(right),
        owned_(std::move(owned)),
        wrong_(std::move(wrong)) {}
  int rank() const override { return right_.rank(); }
  int size() const override { return right_.size(); }
  // Returns false. Ranks could copy rows directly from each other, without calling start(), if this function returned
  // true.
  bool in_one_process() const override { return false; }
  std::unique_ptr<ProcessGroup> split(int color, int key, comm::TrafficClass traffic, std::string name) const override {
    auto part = right_.split(color, key, traffic, std::move(name));
    const ProcessGroup& right = *part;
    return std::make_unique<WrongGroup>(right, std::move(part), wrong_);
  }
  void connect(comm::Uses uses, device::Device device) const override { right_.connect(uses, device); }
  void connect_routes(std::span<const comm::Route> routes, device::Device device) const override {
    right_.connect_routes(routes, device);
  }
  std::unique_ptr<comm::WindowMemory> window_memory() const override { return right_.window_memory(); }

 protected:
  Event start(Operation op, Stream& stream) const override {
    if (const auto event = wrong_(right_, op, stream)) return *event;
    return right_.issue(std::move(op), stream);
  }
  void abort_other_ranks(base::ExitCode code) const override { right_.abort_job(code); }
  // Accepts tensors of any device. The correct group copies them through the host if necessary.
  bool takes_device_tensors() const override { return true; }

 private:
  const ProcessGroup& right_;
  std::unique_ptr<ProcessGroup> owned_;  // null: another object owns the group
  Wrong wrong_;
};

class WrongSource final : public data::Source {
 public:
  WrongSource(const data::Source& right, int64_t size, std::function<void(int64_t, const data::Row&)> change)
      : right_(right), size_(size), change_(std::move(change)) {}
  int64_t context() const override { return right_.context(); }
  int64_t size() const override { return size_; }
  int64_t epoch(int64_t index) const override { return right_.epoch(index); }
  void fill(int64_t index, const data::Row& row) const override {
    right_.fill(index, row);
    change_(index, row);
  }

 private:
  const data::Source& right_;
  int64_t size_;
  std::function<void(int64_t, const data::Row&)> change_;
};

// Returns the number of elements of a bucket with one parameter of `elements` elements. Includes the padding that
// parallel/dp/bucket_plan.cpp adds for `ranks` ranks.
int64_t padded(int64_t elements, int ranks) { return (elements + 16 * ranks - 1) / (16 * ranks) * (16 * ranks); }

}  // namespace

std::unique_ptr<ProcessGroup> wrong_group(const ProcessGroup& right, Wrong wrong) {
  return std::make_unique<WrongGroup>(right, nullptr, std::move(wrong));
}

Wrong leave_out(Operation::Kind kind, std::string group, std::optional<int64_t> elements) {
  return [=](const ProcessGroup& right, const Operation& op, Stream& stream) -> std::optional<Event> {
    if (op.kind != kind || right.name() != group || (elements && op.out.numel() != padded(*elements, right.size())))
      return {};
    return stream.record();
  };
}

Wrong claim_done(Operation::Kind kind, std::string group) {
  return [=](const ProcessGroup& right, const Operation& op, Stream& stream) -> std::optional<Event> {
    if (op.kind != kind || right.name() != group) return {};
    right.issue(op, stream);
    return Event();
  };
}

std::unique_ptr<data::Source> wrong_source(const data::Source& right,
                                           std::function<void(int64_t, const data::Row&)> change) {
  return std::make_unique<WrongSource>(right, right.size(), std::move(change));
}

std::unique_ptr<data::Source> shorter_source(const data::Source& right, int64_t sequences) {
  return std::make_unique<WrongSource>(right, sequences, [](int64_t, const data::Row&) {});
}

void scale(const Tensor& t, double factor) {
  for (int64_t i = 0; i < t.numel(); ++i) t.data<double>()[i] *= factor;
}

}  // namespace hexad::tests
