// Tensor: a cheap value handle on shared storage. No maths and no autograd in it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "framework/base/dtype.h"
#include "framework/base/shape.h"
#include "framework/device/context.h"
#include "framework/tensor/view.h"

namespace hexad::tensor {

using base::cat;
using base::Dtype;
using base::dtype_of;
using base::fail_invariant;
using base::require;
using base::Shape;
using base::size_of;

using device::Category;
using device::Device;
using device::Stream;

/// One block of memory with its account. Shared by all tensors that look at it.
class Storage {
 public:
  Storage(std::shared_ptr<device::Allocator> allocator, int64_t bytes, Category category);
  /// Memory of somebody else, which outlives this and is the host's to read and write.
  Storage(std::byte* borrowed, int64_t bytes);
  /// Host memory that `owner` holds.
  Storage(std::shared_ptr<std::byte> owner, int64_t bytes);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  int64_t bytes() const { return bytes_; }
  /// Whether the host may read and write it. Known also when the context is gone.
  bool on_host() const { return on_host_; }
  Category category() const { return category_; }
  void set_category(Category category);

 private:
  friend class DeviceAccess;
  friend class Tensor;
  std::byte* begin() const { return static_cast<std::byte*>(block_); }

  std::shared_ptr<device::Allocator> allocator_;
  std::shared_ptr<std::byte> owner_;
  int64_t bytes_;
  Category category_;
  bool on_host_;
  void* block_;
};

class Tensor {
 public:
  /// No storage; defined() is false.
  Tensor() = default;
  /// Uninitialised, row-major.
  static Tensor empty(Shape shape, Dtype dtype, Device device, Category category = Category::temporary);
  static Tensor zeros(Shape shape, Dtype dtype, Device device, Category category = Category::temporary);
  /// Uninitialised, with the shape, dtype and device of `other`.
  static Tensor like(const Tensor& other, Category category = Category::temporary);
  /// In file-backed offload memory of `device`.
  static Tensor offloaded(Shape shape, Dtype dtype, Device device);
  /// On the host of `device`, in memory to which that copies by itself (DeviceContext::host_buffer).
  static Tensor pinned(Shape shape, Dtype dtype, Device device);
  /// The elements of this tensor as they lie in a storage that begins at `storage_begin`, which outlives the result. Of
  /// `device` are temporaries that are made like it.
  Tensor borrowed_at(std::byte* storage_begin, Device device) const;
  /// A copy of host values; sizes must agree. In the order of the device's compute stream.
  template <class T>
  static Tensor from(std::span<const T> values, Shape shape, Device device, Category category = Category::temporary);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  const Shape& strides() const { return strides_; }  // in elements
  int rank() const { return shape_.rank(); }
  int64_t dim(int d) const { return shape_[d]; }
  int64_t numel() const { return shape_.numel(); }
  int64_t bytes() const { return numel() * size_of(dtype_); }
  Dtype dtype() const { return dtype_; }
  Device device() const { return device_; }
  bool contiguous() const;
  /// True when nobody else looks at the storage, so that it may be overwritten in place.
  bool sole_owner() const { return storage_.use_count() == 1; }
  const std::shared_ptr<Storage>& storage() const { return storage_; }

  /// Rows [begin, end) of dimension `dim`; shares storage, so chunking is free.
  Tensor slice(int dim, int64_t begin, int64_t end) const;
  /// Another shape of the same elements; needs contiguous(). One size may be -1.
  Tensor reshape(Shape shape) const;

  /// First element, for the host: throws std::logic_error where it may not read the memory. Checks the dtype.
  template <class T>
  T* data() const {
    require(dtype_of<T> == dtype_, "[tensor] data of ", dtype_, " read as ", dtype_of<T>);
    return reinterpret_cast<T*>(raw());
  }
  void* raw() const {
    if (!storage_->on_host()) [[unlikely]]
      fail_invariant(cat("[tensor] the host touches memory of the device: ", shape_, " ", dtype_));
    return device_raw();
  }
  /// Where the first element is, as a number: tells what lies at the same place, and is of no other use.
  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(device_raw()); }
  /// Checks dtype and rank. For the host.
  template <class T, int Rank>
  View<T, Rank> view() const;
  /// Host copy of the elements in row-major order, for tests and small results; waits for the compute stream. Elsewhere
  /// the host reads by read_to_host, which has a name.
  template <class T>
  std::vector<T> to_vector() const;

  /// All bytes of a contiguous tensor from host memory, which may be used again on return, and to it, where the caller
  /// waits; in the order of the compute stream.
  void upload(const void* from) const;
  void download(void* to) const;
  /// All bytes of a contiguous tensor from another one of as many, on either side of the host's border, in the order of
  /// the device's `stream`.
  void copy_from(const Tensor& other, Stream& stream) const;
  /// Every byte of a contiguous tensor, in the order of `stream`.
  void fill_bytes(uint8_t byte, Stream& stream) const;

 private:
  friend class DeviceAccess;
  void* device_raw() const { return storage_->begin() + offset_ * size_of(dtype_); }

  std::shared_ptr<Storage> storage_;
  Shape shape_, strides_;
  int64_t offset_ = 0;  // elements
  Dtype dtype_ = Dtype::f32;
  Device device_;
};

template <class T, int Rank>
View<T, Rank> Tensor::view() const {
  require(rank() == Rank, "[tensor] ", shape_, " viewed with rank ", Rank);
  View<T, Rank> v{data<T>(), {}, {}};
  for (int d = 0; d < Rank; ++d) {
    v.size[d] = shape_[d];
    v.stride[d] = strides_[d];
  }
  return v;
}

template <class T>
Tensor Tensor::from(std::span<const T> values, Shape shape, Device device, Category category) {
  require(static_cast<int64_t>(values.size()) == shape.numel(), "[tensor] ", values.size(), " values for ", shape);
  Tensor t = empty(shape, dtype_of<T>, device, category);
  t.upload(values.data());
  return t;
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  require(dtype_of<T> == dtype_, "[tensor] data of ", dtype_, " read as ", dtype_of<T>);
  require(contiguous(), "[tensor] to_vector of a strided ", shape_);
  std::vector<T> values(numel());
  download(values.data());
  return values;
}

}  // namespace hexad::tensor
