#include "framework/autograd/saved.h"

#include <unordered_map>

#include "framework/kernels/kernel_table.h"

namespace hexad::autograd {

using namespace base;
using namespace tensor;
namespace {

class KeptTensor final : public SavedTensor {
 public:
  explicit KeptTensor(Tensor t) : tensor_(std::move(t)) {}
  Tensor get(Stream&) override { return tensor_; }

 private:
  Tensor tensor_;
};

// True if `t` is in the memory category of intermediate results or of data exchanged with other ranks. Other saved
// tensors, such as parameters, keep their category.
bool is_intermediate(const Tensor& t) {
  const Category c = t.storage()->category();
  return c == Category::temporary || c == Category::communication;
}

void account_as_activation(const Tensor& t) {
  if (is_intermediate(t)) t.storage()->set_category(Category::activation);
}

class KeepPolicy final : public SavePolicy {
 public:
  std::shared_ptr<SavedTensor> save(const Tensor& t, Stream&) override {
    account_as_activation(t);
    return std::make_shared<KeptTensor>(t);
  }
};

class OffloadedTensor final : public SavedTensor {
 public:
  OffloadedTensor(const Tensor& t, Stream& stream) : offloaded_(Tensor::offloaded(t.shape(), t.dtype(), t.device())) {
    kernels::kernels(t.device()).pointwise.copy(stream, offloaded_, t);
  }
  Tensor get(Stream& stream) override {
    Tensor back = Tensor::like(offloaded_, Category::temporary);
    kernels::kernels(offloaded_.device()).pointwise.copy(stream, back, offloaded_);
    return back;
  }

 private:
  Tensor offloaded_;
};

class OffloadPolicy final : public SavePolicy {
 public:
  explicit OffloadPolicy(int64_t min_bytes) : min_bytes_(min_bytes) {}

  std::shared_ptr<SavedTensor> save(const Tensor& t, Stream& stream) override {
    if (t.bytes() < min_bytes_ || !is_intermediate(t)) {
      account_as_activation(t);
      return std::make_shared<KeptTensor>(t);
    }
    Known& known = known_[t.address()];
    if (auto saved = known.saved.lock(); saved && known.storage.lock() == t.storage() && known.shape == t.shape())
      return saved;
    auto saved = std::make_shared<OffloadedTensor>(t, stream);
    known = {t.storage(), saved, t.shape()};
    return saved;
  }

 private:
  struct Known {
    std::weak_ptr<Storage> storage;  // detects that the address was reused after the tensor was destroyed
    std::weak_ptr<SavedTensor> saved;
    Shape shape;
  };
  int64_t min_bytes_;
  std::unordered_map<std::uintptr_t, Known> known_;
};

}  // namespace

std::shared_ptr<SavedTensor> kept_as_it_is(const Tensor& t) { return std::make_shared<KeptTensor>(t); }
std::unique_ptr<SavePolicy> keep_policy() { return std::make_unique<KeepPolicy>(); }
std::unique_ptr<SavePolicy> offload_policy(int64_t min_bytes) { return std::make_unique<OffloadPolicy>(min_bytes); }

}  // namespace hexad::autograd
