// Tensors an op keeps for its backward, and the policies that decide how they are kept.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "framework/tensor/tensor.h"

namespace hexad::autograd {

using base::require;
using device::Stream;
using tensor::Tensor;

/// One saved tensor. However it is kept, get() returns the very bits that were saved.
class SavedTensor {
 public:
  virtual ~SavedTensor() = default;
  virtual Tensor get(Stream& stream) = 0;
};

/// Computes a tensor again from what its op saved, at most once until release(): the output of a norm is cheap to
/// recompute and need not be kept for the products that read it.
class RecomputedTensor final : public SavedTensor {
 public:
  explicit RecomputedTensor(std::function<Tensor(Stream&)> again) : again_(std::move(again)) {}
  Tensor get(Stream& stream) override {
    if (!cached_.defined()) cached_ = again_(stream);
    return cached_;
  }
  /// Forgets the cached tensor; it would be computed once more if asked for.
  void release() { cached_ = {}; }

 private:
  std::function<Tensor(Stream&)> again_;
  Tensor cached_;
};

/// Decides how saved tensors are kept.
class SavePolicy {
 public:
  virtual ~SavePolicy() = default;
  virtual std::shared_ptr<SavedTensor> save(const Tensor& t, Stream& stream) = 0;
};

/// In memory, accounted as activation.
std::unique_ptr<SavePolicy> keep_policy();
/// In the device's offload memory, from the moment of saving until backward asks. A tensor that several ops save is
/// moved once. Tensors smaller than `min_bytes` are kept.
std::unique_ptr<SavePolicy> offload_policy(int64_t min_bytes);

/// A pullback's view of the tensors that its op listed.
class Saved {
 public:
  Saved() = default;
  Saved(std::vector<std::shared_ptr<SavedTensor>> slots, Stream& stream) : slots_(std::move(slots)), stream_(&stream) {}

  /// All of them: `auto [x, w] = s.get<2>();`
  template <size_t N>
  std::array<Tensor, N> get() const {
    require(N == slots_.size(), "[tape] ", slots_.size(), " tensors were saved but ", N, " are read");
    std::array<Tensor, N> out;
    for (size_t i = 0; i < N; ++i) out[i] = slots_[i] ? slots_[i]->get(*stream_) : Tensor{};
    return out;
  }

  std::vector<Tensor> all() const {
    std::vector<Tensor> out;
    for (const auto& slot : slots_) out.push_back(slot ? slot->get(*stream_) : Tensor{});
    return out;
  }

 private:
  std::vector<std::shared_ptr<SavedTensor>> slots_;
  Stream* stream_ = nullptr;
};

/// The list of an op's saved tensors, in the order in which get() returns them. Undefined tensors are allowed.
template <class... Tensors>
std::vector<Tensor> save(const Tensors&... tensors) {
  return {tensors...};
}

}  // namespace hexad::autograd
