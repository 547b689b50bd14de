// Tensors that an op saves for its backward pass, and policies that decide where they are kept.
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

/// One saved tensor. With every policy, get() returns a tensor that is bitwise identical to the saved tensor.
class SavedTensor {
 public:
  virtual ~SavedTensor() = default;
  virtual Tensor get(Stream& stream) = 0;
};

/// A tensor that get() recomputes from the tensors saved by its op and then caches until release(). For example, the
/// output of a norm is cheap to recompute, so the matrix products that read it need not save it.
class RecomputedTensor final : public SavedTensor {
 public:
  explicit RecomputedTensor(std::function<Tensor(Stream&)> again) : again_(std::move(again)) {}
  Tensor get(Stream& stream) override {
    if (!cached_.defined()) cached_ = again_(stream);
    return cached_;
  }
  /// Drops the cached tensor. The next get() recomputes it.
  void release() { cached_ = {}; }

 private:
  std::function<Tensor(Stream&)> again_;
  Tensor cached_;
};

/// Returns a saved tensor that keeps `t` where it is, in its memory category.
std::shared_ptr<SavedTensor> kept_as_it_is(const Tensor& t);

/// Decides where saved tensors are kept.
class SavePolicy {
 public:
  virtual ~SavePolicy() = default;
  virtual std::shared_ptr<SavedTensor> save(const Tensor& t, Stream& stream) = 0;
};

/// Returns a policy that keeps tensors where they are. Intermediate results (categories `temporary` and
/// `communication`) get the memory category `activation`.
std::unique_ptr<SavePolicy> keep_policy();
/// Returns a policy that copies intermediate results of at least `min_bytes` bytes to the device's offload memory when
/// they are saved. The policy copies them back when backward reads them. A tensor that several ops save is offloaded
/// once. Other tensors are kept as by keep_policy().
std::unique_ptr<SavePolicy> offload_policy(int64_t min_bytes);

/// The saved tensors of an op, as they are passed to its pullback.
class Saved {
 public:
  Saved() = default;
  Saved(std::vector<std::shared_ptr<SavedTensor>> slots, Stream& stream) : slots_(std::move(slots)), stream_(&stream) {}

  /// Returns all saved tensors, in the order of save(): `auto [x, w] = s.get<2>();`. Throws std::logic_error if the op
  /// did not save N tensors.
  template <size_t N>
  std::array<Tensor, N> get() const {
    require(N == slots_.size(), "[tape] the number of saved tensors that an op reads is ", N, "; expected ",
            slots_.size(), ", the number that the op saved");
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

/// Lists the tensors that an op saves, in the order in which Saved::get() returns them. Undefined tensors are allowed.
template <class... Tensors>
std::vector<Tensor> save(const Tensors&... tensors) {
  return {tensors...};
}

}  // namespace hexad::autograd
