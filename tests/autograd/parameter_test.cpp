#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "framework/autograd/parameter.h"
#include "tests/autograd/made_parameter.h"
#include "tests/support/compare.h"
#include "tests/support/lab.h"
#include "tests/support/stack.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
using namespace kernels;
namespace {

TEST(Parameter, IsAccountedByCategory) {
  Lab lab;
  const auto p = made(lab, "w");
  EXPECT_EQ(lab.used(Category::parameter), p->local().bytes());
  EXPECT_EQ(lab.used(Category::gradient), 0);
  p->gradient();
  EXPECT_EQ(lab.used(Category::gradient), p->local().bytes());
}

TEST(Parameter, MainGradientOfBf16IsF32) {
  Lab lab;
  EXPECT_EQ(made(lab, "w", Dtype::bf16)->gradient().dtype(), Dtype::f32);
  EXPECT_EQ(made(lab, "w", Dtype::f64)->gradient().dtype(), Dtype::f64);
}

TEST(Parameter, WritesReplaceOnceAndAddAfterwardsUntilCleared) {
  Lab lab;
  const auto p = made(lab, "w");
  EXPECT_FALSE(p->has_gradient());
  EXPECT_EQ(p->next_write(), Write::replace);
  EXPECT_TRUE(p->has_gradient());
  EXPECT_EQ(p->next_write(), Write::add);
  p->clear_gradient();
  EXPECT_EQ(p->next_write(), Write::replace);
}

TEST(Parameter, GradientToAddToStartsFromZero) {
  Lab lab;
  const auto p = made(lab, "w");
  fill_bytes(p->gradient(), 0xff);
  expect_zeros(p->gradient_to_add(lab.stream()));
  change<float>(p->gradient(), [](std::span<float> values) { values[0] = 3; });
  EXPECT_EQ(p->gradient_to_add(lab.stream()).to_vector<float>()[0], 3) << "the gradient is zeroed only once";
}

TEST(Parameter, BoundGradientUsesTheGivenMemory) {
  Lab lab;
  const auto p = made(lab, "w");
  const Tensor bucket = Tensor::zeros({1000}, Dtype::f32, lab.context);
  p->next_write();
  p->bind_gradient(bucket.slice(0, 100, 292).reshape({4, 6, 8}));
  EXPECT_FALSE(p->has_gradient()) << "the previous contents of the given memory are not a gradient";
  EXPECT_EQ(p->gradient().address(), bucket.address() + 100 * sizeof(float));
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Parameter, ErrorsNameTheParameter) {
  Lab lab;
  const auto p = made(lab, "w");
  EXPECT_EQ(message_of([&] {
              p->bind_gradient(Tensor::zeros({4, 6}, Dtype::f32, lab.context));
            }),
            "[parameter] w: gradient memory is [4, 6] f32; expected [4, 6, 8] f32");
  EXPECT_EQ(message_of([&] {
              p->bind_gradient(Tensor::zeros({4, 6, 8}, Dtype::bf16, lab.context));
            }),
            "[parameter] w: gradient memory is [4, 6, 8] bf16; expected [4, 6, 8] f32");
  EXPECT_EQ(message_of([&] {
              made(lab, "w", Dtype::f32, {{Axis::tp, 3, 4, 0}});
            }),
            "[parameter] w [4, 6, 8]: the placement has piece 0 of 4 of dimension 3; "
            "expected a piece in 0 .. 3 and a dimension in 0 .. 2");
  EXPECT_EQ(message_of([&] {
              made(lab, "w", Dtype::f32, {{Axis::tp, 1, 2, 2}});
            }),
            "[parameter] w [4, 6, 8]: the placement has piece 2 of 2 of dimension 1; "
            "expected a piece in 0 .. 1 and a dimension in 0 .. 2");
  EXPECT_EQ(message_of([&] {
              made(lab, "w", Dtype::f32, {{Axis::tp, -1, 2, 0}});
            }),
            "[parameter] w [4, 6, 8]: the placement has piece 0 of 2 of dimension -1; "
            "expected a piece in 0 .. 1 and a dimension in 0 .. 2");
  EXPECT_EQ(message_of([&] { made(lab, "w", Dtype::i32); }),
            "[initialize] does not support i32; supported: f32, bf16, f64");
}

// Data parallelism chooses the shares of parameters (see tests/dp).
TEST(Parameter, OwnsAllOfItsWeightsUnlessOwnsShareOnlyIsSet) {
  Lab lab;
  const auto p = made(lab, "w");
  EXPECT_EQ(p->owned(), (FlatRange{0, 192}));
  EXPECT_FALSE(p->sharded());
  p->shard({.share = {100, 120}});
  EXPECT_EQ(p->share(), (FlatRange{100, 120}));
  EXPECT_EQ(p->owned(), (FlatRange{0, 192}));
  p->shard({.share = {100, 120}, .owns_share_only = true});
  EXPECT_EQ(p->owned(), (FlatRange{100, 120}));
  EXPECT_EQ(p->owned_weights().address(), p->local().address() + 100 * sizeof(float));
  EXPECT_EQ(p->owned_gradient(lab.stream()).address(), p->gradient().address() + 100 * sizeof(float));
  EXPECT_EQ(message_of([&] {
              p->shard({.share = {100, 193}});
            }),
            "[parameter] w [4, 6, 8]: the sharded elements are [100, 193); expected a range in [0, 192]");
}

// Storage that binds weights to `memory`. `holders` expires when the last holder releases the weights.
class Gatherer final : public WeightStorage {
 public:
  explicit Gatherer(Tensor weights, device::Event event = {}) : memory(std::move(weights)), arrived(std::move(event)) {}
  GatheredWeights gather_weights(Parameter& p, Stream&) override {
    p.bind_weights(memory);
    auto stay = holders.lock();
    if (!stay) holders = stay = std::make_shared<char>();
    return {stay, arrived};
  }
  bool weights_are_resident(const Parameter&) const override { return false; }

  const Tensor memory;
  const device::Event arrived;
  std::weak_ptr<const void> holders;
};

TEST(Parameter, GatheredWeightsAreReadableOnlyWhileInUse) {
  Lab lab;
  const auto p = made(lab, "w");
  const Tensor memory = copy_of(p->local());
  EXPECT_TRUE(p->weights_are_resident());
  Gatherer gatherer(memory);
  p->gather_weights_by(gatherer);
  EXPECT_FALSE(p->weights_are_resident());
  p->release_weights();
  EXPECT_EQ(message_of([&] { p->local(); }),
            "[parameter] w: its weights are not in memory, because they are not held; call hold() first");
  EXPECT_EQ(p->use(lab.stream()).address(), memory.address());
  EXPECT_EQ(p->local().address(), memory.address());
  EXPECT_EQ(message_of([&] { p->bind_weights(memory.slice(0, 0, 1)); }),
            "[parameter] w: weight memory is [1, 6, 8] f32; expected [4, 6, 8] f32");
}

TEST(Parameter, WeightsStayWhileAHolderRemains) {
  Lab lab;
  const auto p = made(lab, "w");
  const Tensor memory = copy_of(p->local());
  Gatherer gatherer(memory);
  p->gather_weights_by(gatherer);
  p->use(lab.stream());
  EXPECT_TRUE(gatherer.holders.expired()) << "after use(), the weights have no holder";
  auto held = std::make_unique<HeldWeight>(p->hold(lab.stream()));
  const HeldWeight again = p->hold(lab.stream());
  held.reset();
  EXPECT_FALSE(gatherer.holders.expired());
  EXPECT_EQ(again.on(lab.stream()).address(), memory.address());
  EXPECT_EQ(message_of([&] { HeldWeight().on(lab.stream()); }),
            "[parameter] weights are read before Parameter::hold(); expected hold() first");
}

// hold() does not wait for weights in flight. Only the stream that reads the weights waits.
TEST(Parameter, HoldingWeightsDoesNotWait) {
  Lab lab;
  const auto p = made(lab, "w");
  const auto arrived = device::Event::make_state();
  Gatherer gatherer(copy_of(p->local()), device::Event(arrived));
  p->gather_weights_by(gatherer);
  const HeldWeight held = p->hold(lab.stream());
  const auto reader = device::make_worker_stream("reader");
  held.on(*reader);
  EXPECT_FALSE(reader->record().done());
  device::complete(arrived);
  reader->synchronize();
}

// Storage that keeps the gradients of `all` in the rows of `memory`. If a micro-batch contributes only once to a
// gradient, the contribution is written to `single`.
class SharedGradients final : public GradientStorage {
 public:
  SharedGradients(std::vector<Parameter*> all, const Tensor& memory, const Tensor& single)
      : all_(std::move(all)), memory_(memory), single_(single) {
    for (Parameter* p : all_) p->store_gradient_in(this);
  }
  void allocate_gradient(Parameter&) override {
    ++allocations;
    for (size_t i = 0; i < all_.size(); ++i)
      all_[i]->bind_gradient(memory_.slice(0, static_cast<int64_t>(i), static_cast<int64_t>(i) + 1).reshape({4, 6, 8}));
  }
  GradientTarget only_contribution(Parameter&) override { return {single_, Write::replace}; }

  int allocations = 0;

 private:
  std::vector<Parameter*> all_;
  Tensor memory_, single_;
};

TEST(Parameter, StorageBindsGradientsAtFirstUse) {
  Lab lab;
  const auto a = made(lab, "a"), b = made(lab, "b");
  const Tensor memory = Tensor::zeros({2, 192}, Dtype::f32, lab.context),
               single = Tensor::zeros({4, 6, 8}, Dtype::f32, lab.context);
  SharedGradients storage({a.get(), b.get()}, memory, single);
  EXPECT_EQ(storage.allocations, 0);
  EXPECT_EQ(b->gradient().address(), memory.address() + 192 * sizeof(float));
  EXPECT_EQ(a->gradient().address(), memory.address());
  EXPECT_EQ(storage.allocations, 1);
  EXPECT_EQ(a->next_gradient_target(2).memory.address(), memory.address());
  EXPECT_EQ(a->next_gradient_target(1).memory.address(), single.address())
      << "the only contribution of a micro-batch is written to `single`";
  a->release_gradient();
  a->gradient();
  EXPECT_EQ(storage.allocations, 2);
  a->release_gradient();
  a->store_gradient_in(nullptr);
  EXPECT_NE(a->gradient().address(), memory.address()) << "without a storage, the gradient has its own memory";
  EXPECT_EQ(storage.allocations, 2);
}

TEST(Parameter, AllocatesItsGradientWithoutAStorage) {
  Lab lab;
  const auto p = made(lab, "w");
  const auto [memory, write] = p->next_gradient_target();
  EXPECT_EQ(memory.address(), p->gradient().address());
  EXPECT_EQ(write, Write::replace);
  EXPECT_EQ(p->next_gradient_target().write, Write::add);
}

TEST(Parameter, ThrowsIfTheStorageBindsNoGradient) {
  class Forgetful final : public GradientStorage {
   public:
    void allocate_gradient(Parameter&) override {}
    GradientTarget only_contribution(Parameter& p) override { return {p.gradient(), p.next_write()}; }
  };
  Lab lab;
  const auto p = made(lab, "w");
  Forgetful storage;
  p->store_gradient_in(&storage);
  EXPECT_EQ(message_of([&] { p->next_gradient_target(); }),
            "[parameter] w: its gradient has no memory after GradientStorage::allocate_gradient(); expected this "
            "function to call bind_gradient()");
}

TEST(ParameterSet, KeepsTheOrderOfCreationAndRefusesDuplicateNames) {
  Lab lab;
  ParameterSet set(lab.context);
  set.add(spec("b", {1}));
  set.add(spec("a", {1}));
  std::vector<std::string> names;
  for (const auto& p : set) names.push_back(p->name());
  EXPECT_EQ(names, (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(&set.find("a"), (*(set.begin() + 1)).get());
  EXPECT_EQ(message_of([&] { set.add(spec("a", {1})); }),
            "[parameters] two parameters are named a; expected unique names");
  EXPECT_EQ(message_of([&] { set.find("c"); }), "[parameters] no parameter is named c; expected a name in the set");
}

}  // namespace
}  // namespace hexad::tests
