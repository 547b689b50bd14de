// Errors that would cause wrong results or crashes on a card, planted one by one. The emulated device finds each
// error. Most errors have no effect on the CPU, where work is done when its launch returns.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "framework/autograd/saved.h"
#include "framework/device/emulated/emulated_queue.h"
#include "framework/device/emulated/heap.h"
#include "framework/kernels/kernel_table.h"
#include "framework/schedule/executor.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tests/verify/sabotage.h"
#include "tools/train/recipe/complete.h"
#include "tools/verify/outcome_text.h"

namespace hexad::tests {

using device::Device;
using namespace base;
using namespace train;
using namespace verify;

namespace {

using comm::Operation;
using device::DeviceContext;
using device::DeviceKind;
using device::Event;
using device::Lane;
using device::Stream;
using Kind = Operation::Kind;

// --- Missing waits in training.

class NotWaitedFor final : public Sabotage {
 public:
  explicit NotWaitedFor(Wrong wrong) : wrong_(std::move(wrong)) {}
  std::unique_ptr<comm::ProcessGroup> groups(const comm::ProcessGroup& world, const MeshSizes&) const override {
    return wrong_group(world, wrong_);
  }

 private:
  Wrong wrong_;
};

// Returns a fault: one all-to-all of each pass of a layer is reported as done too early. `which` is 0 for the dispatch
// and 1 for the combine.
Wrong all_to_all_not_waited_for(int which) {
  return [which, count = 0](const comm::ProcessGroup& right, const Operation& op,
                            Stream& stream) mutable -> std::optional<Event> {
    if (op.kind != Kind::all_to_all || op.in.device().on_host() || count++ % 2 != which) return {};
    right.all_to_all(op.out, op.in, op.splits, stream);
    return Event();
  };
}

struct Planted {
  std::string name;
  std::string layout;  // a layout of four ranks
  std::shared_ptr<Sabotage> sabotage;
};
void PrintTo(const Planted& p, std::ostream* out) { *out << p.name; }

std::vector<Planted> in_training() {
  return {
      {"Dispatch", "dp=4,ep=4", std::make_shared<NotWaitedFor>(all_to_all_not_waited_for(0))},
      {"Combine", "dp=4,ep=4", std::make_shared<NotWaitedFor>(all_to_all_not_waited_for(1))},
      {"Ring", "dp=2,cp=2", std::make_shared<NotWaitedFor>(claim_done(Kind::receive, "cp"))},
      {"ZeroGather", "dp=4,zero=3", std::make_shared<NotWaitedFor>(claim_done(Kind::all_gather, "dp x cp, weights"))},
      {"GradientBucket", "dp=4,zero=2", std::make_shared<NotWaitedFor>(claim_done(Kind::reduce_scatter, "dp x cp"))},
  };
}

class MissingWait : public testing::TestWithParam<Planted> {};

TEST_P(MissingWait, IsFound) {
  const Scratch scratch;
  Recipe recipe = small_recipe({"device=emulated"});
  complete(recipe, 1);
  const layers::Registry registry;
  const Subject subject(recipe, registry, 2, scratch.path());
  const Oracle oracle = compute_oracle(subject);
  const Variant layout = parse_layouts(GetParam().layout + ",transport=engine", 4)[0];
  const ThreadRuns how{.jitter = 1, .seconds = 60};
  const Outcome right = run_in_threads(subject, oracle, layout, how);
  EXPECT_TRUE(right.agrees()) << explanation(right);
  const Outcome wrong = run_in_threads(subject, oracle, layout, how, *GetParam().sabotage);
  EXPECT_FALSE(wrong.comparison.mismatches.empty()) << explanation(wrong);
}

INSTANTIATE_TEST_SUITE_P(, MissingWait, testing::ValuesIn(in_training()), [](const auto& i) { return i.param.name; });

// --- Errors in short programs on the emulated device. Some of these programs also run on the CPU.

// Blocks a lane of the emulated device until let_go() is called or the object is destroyed. On the CPU, no lane is
// blocked.
class Hold {
 public:
  Hold(DeviceContext& context, Lane lane) : on_device_(!context.on_host()) {
    if (on_device_)
      device::emulated::emulated_stream(context.stream(lane)).launch({}, [open = open_] { open->wait(false); });
  }
  ~Hold() { let_go(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  void let_go() { *open_ = true, open_->notify_all(); }

 private:
  bool on_device_;
  const std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
};

constexpr int64_t n = 64;

Tensor filled(float value, Device device) {
  const std::vector<float> values(n, value);
  return Tensor::from<float>(values, {n}, device);
}
void synchronize(DeviceContext& context) {
  for (int lane = 0; lane < device::lane_count; ++lane) context.stream(static_cast<Lane>(lane)).synchronize();
}
float first_of(const Tensor& t) { return t.to_vector<float>().front(); }

// Returns the result of `program` on a kind of device.
float on(DeviceKind kind, const std::function<Tensor(DeviceContext&)>& program) {
  DeviceContext context({.kind = kind});
  const Tensor result = program(context);
  synchronize(context);
  return first_of(result);
}

TEST(OnTheEmulatedDevice, UnawaitedOffloadFetchIsFound) {
  const auto program = [](DeviceContext& context) {
    const Tensor x = filled(1, context), out = Tensor::like(x);
    const auto policy = autograd::offload_policy(0);
    const auto saved = policy->save(x, context.compute());
    synchronize(context);
    Hold hold(context, Lane::copy);
    Tensor back;
    Event used;
    schedule::TaskGraph graph;
    graph.add({.lane = Lane::copy, .name = "F0"}, {}, [&](Stream& s) {
      back = saved->get(s);
      return Event{};
    });
    graph.add({.lane = Lane::compute, .name = "C0"}, {}, [&](Stream& s) {  // lacks the edge from F0
      kernels::kernels(context).pointwise.copy(s, out, back);
      used = s.record();
      return Event{};
    });
    schedule::execute(graph, context);
    used.wait();
    hold.let_go();
    return out;
  };
  EXPECT_EQ(on(DeviceKind::cpu, program), 1);
  EXPECT_TRUE(std::isnan(on(DeviceKind::emulated, program)));
}

TEST(OnTheEmulatedDevice, InPlaceOpWithAReaderOnAnotherLaneIsFound) {
  const auto program = [](DeviceContext& context) {
    const auto& k = kernels::kernels(context).pointwise;
    const Tensor x = filled(1, context), copy = Tensor::like(x);
    synchronize(context);
    Hold hold(context, Lane::inter);
    k.copy(context.stream(Lane::inter), copy, x);
    k.scale(context.compute(), x, 3);  // lacks a wait for the copy
    context.compute().synchronize();
    return copy;
  };
  EXPECT_EQ(on(DeviceKind::cpu, program), 1);
  EXPECT_EQ(on(DeviceKind::emulated, program), 3);
}

TEST(OnTheEmulatedDevice, TensorFreedWhileALaneReadsItIsFound) {
  DeviceContext context({.kind = DeviceKind::emulated});
  Tensor x = filled(1, context);
  const float seen_before = first_of(x);
  // The allocator has no record of this reader, which uses an address without a kernel launch.
  auto& inter = device::emulated::emulated_stream(context.stream(Lane::inter));
  const float* p = reinterpret_cast<const float*>(inter.heap().memory().device(reinterpret_cast<void*>(x.address())));
  float seen = 0;
  Hold hold(context, Lane::inter);
  inter.launch({}, [&] { seen = *static_cast<const volatile float*>(p); });
  x = {};
  const Tensor next = Tensor::empty({n}, Dtype::f32, context);
  kernels::kernels(context).pointwise.fill(context.compute(), next,
                                           7);  // waits until the freed block has been filled with NaN
  context.compute().synchronize();
  hold.let_go();
  inter.synchronize();
  EXPECT_EQ(seen_before, 1);
  EXPECT_NE(seen, 1);
}

TEST(OnTheEmulatedDeviceDeathTest, HostReadOfDeviceMemoryIsFound) {
  DeviceContext context({.kind = DeviceKind::emulated});
  const Tensor x = filled(1, context);
  EXPECT_THROW(x.data<float>(), std::logic_error);
  EXPECT_DEATH(static_cast<void>(*reinterpret_cast<const volatile float*>(x.address())), "");
}

TEST(OnTheEmulatedDevice, PageableCopyMistakenForAnAsynchronousCopyIsFound) {
  DeviceContext context({.kind = DeviceKind::emulated});
  const Tensor x = filled(1, context);
  synchronize(context);
  const auto pinned = context.host_buffer(x.bytes());
  std::vector<float> pageable(n);
  const auto copy_to = [&](void* to) {
    context.copy(context.stream(Lane::copy), to, reinterpret_cast<void*>(x.address()), x.bytes());
  };
  {
    Hold hold(context, Lane::copy);
    copy_to(pinned.get());  // returns although the lane is blocked
  }
  std::atomic<bool> let_go = false, returned = false, returned_early = false;
  Hold hold(context, Lane::copy);
  std::thread copier([&] {
    copy_to(pageable.data());
    returned_early = !let_go;
    returned = true;
  });
  for (int tries = 0; tries < 100 && !returned; ++tries) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  let_go = true;
  hold.let_go();
  copier.join();
  EXPECT_FALSE(returned_early);
  EXPECT_EQ(pageable.front(), 1);
}

}  // namespace
}  // namespace hexad::tests
