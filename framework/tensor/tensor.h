// Tensor: a handle to shared storage. The handle is cheap to copy. The class has no arithmetic and no autograd.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "framework/base/dtype.h"
#include "framework/base/shape.h"
#include "framework/device/context.h"
#include "framework/tensor/tensor_names.h"
#include "framework/tensor/view.h"

namespace hexad::tensor {

/// A block of memory and its category. Slices and reshapes of a tensor share its Storage.
class Storage {
 public:
  Storage(std::shared_ptr<device::Allocator> allocator, int64_t bytes, Category category);
  /// Wraps host memory without owning it. The memory must outlive this storage.
  Storage(std::byte* borrowed, int64_t bytes);
  /// Wraps host memory and shares its ownership through `owner`.
  Storage(std::shared_ptr<std::byte> owner, int64_t bytes);
  /// Wraps memory of a device without owning it. The memory must outlive this storage.
  static std::shared_ptr<Storage> borrow(std::byte* borrowed, int64_t bytes);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  int64_t bytes() const { return bytes_; }
  /// True if the host may access the memory. May be called even after the context is destroyed.
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
  /// Makes an undefined tensor: it has no storage, and defined() returns false.
  Tensor() = default;
  /// Returns an uninitialised, row-major tensor.
  static Tensor empty(Shape shape, Dtype dtype, Device device, Category category = Category::temporary);
  static Tensor zeros(Shape shape, Dtype dtype, Device device, Category category = Category::temporary);
  /// Returns an uninitialised tensor with the shape, dtype and device of `other`.
  static Tensor like(const Tensor& other, Category category = Category::temporary);
  /// Returns an uninitialised tensor in the offload memory of `device`.
  static Tensor offloaded(Shape shape, Dtype dtype, Device device);
  /// Returns an uninitialised tensor on `device.host()`, in memory that `device` reads and writes directly
  /// (DeviceContext::host_buffer). A copy between this tensor and `device` is asynchronous.
  static Tensor pinned(Shape shape, Dtype dtype, Device device);
  /// Returns a tensor with the shape, strides and offset of this tensor, in the memory that begins at `storage_begin`.
  /// This memory must outlive the result. The result counts as being on `device`: like(result) allocates memory on
  /// `device`.
  Tensor borrowed_at(std::byte* storage_begin, Device device) const;
  /// Returns a tensor that contains `values` in row-major order. The number of values must be shape.numel(). The values
  /// are copied by upload().
  template <class T>
  static Tensor from(std::span<const T> values, Shape shape, Device device, Category category = Category::temporary);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  const Shape& strides() const { return strides_; }  // distances in elements
  int rank() const { return shape_.rank(); }
  int64_t dim(int d) const { return shape_[d]; }
  int64_t numel() const { return shape_.numel(); }
  int64_t bytes() const { return numel() * size_of(dtype_); }
  Dtype dtype() const { return dtype_; }
  Device device() const { return device_; }
  bool contiguous() const;
  /// True if neither another tensor nor a pending event shares the storage. The storage may then be overwritten in
  /// place. On a device, the overwriting stream must first wait for operations of other streams on this storage.
  bool sole_owner() const { return storage_.use_count() == 1; }
  const std::shared_ptr<Storage>& storage() const { return storage_; }

  /// Returns the part of the tensor with indices [begin, end) in dimension `dim`. The result shares the storage. Throws
  /// std::logic_error unless 0 <= begin <= end <= size of the dimension.
  Tensor slice(int dim, int64_t begin, int64_t end) const;
  /// Returns the same elements with another shape. The tensor must be contiguous. One size may be -1, and is then
  /// computed from the other sizes. Throws std::logic_error if the tensor is strided or the numbers of elements differ.
  Tensor reshape(Shape shape) const;

  /// Returns the address of the first element for access by the host. Throws std::logic_error if the host may not
  /// access the memory or if T is not the tensor's dtype.
  template <class T>
  T* data() const {
    require(dtype_of<T> == dtype_, "[tensor] access to ", shape_, " as ", dtype_of<T>, "; expected its dtype, ",
            dtype_);
    return reinterpret_cast<T*>(raw());
  }
  void* raw() const {
    if (!storage_->on_host()) [[unlikely]]
      fail_invariant(cat("[tensor] the host cannot access device memory: ", shape_, " ", dtype_,
                         "; expected a tensor in host memory"));
    return device_raw();
  }
  /// Returns the address of the first element as a number. Use it only to compare addresses.
  std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(device_raw()); }
  /// Returns a view for access by the host. Throws std::logic_error like data(), or if the rank is not Rank.
  template <class T, int Rank>
  View<T, Rank> view() const;
  /// Returns a host copy of the elements of a contiguous tensor in row-major order, made by download(). Use it only for
  /// tests and small results. Other reads need read_to_host() or copy_to_host(), which name and count them.
  template <class T>
  std::vector<T> to_vector() const;

  /// upload() copies host memory to all bytes of a contiguous tensor, and download() copies them to host memory. The
  /// copy is immediate if the host may access the tensor's memory; otherwise, it is in the order of the compute stream.
  /// The source of upload() may be reused on return. On a meta device, the source may be null; the values are then
  /// unknown. download() blocks until the copy is complete.
  void upload(const void* from) const;
  void download(void* to) const;
  /// Copies all bytes of `other`, a contiguous tensor with as many bytes as this tensor. Each tensor may be on the host
  /// or on the device. The copy is in the order of `stream`, a stream of the device.
  void copy_from(const Tensor& other, Stream& stream) const;
  /// Sets every byte of a contiguous tensor to `byte`, in the order of `stream`.
  void fill_bytes(uint8_t byte, Stream& stream) const;

 private:
  friend class DeviceAccess;
  void* device_raw() const { return storage_->begin() + offset_ * size_of(dtype_); }

  std::shared_ptr<Storage> storage_;
  Shape shape_, strides_;
  int64_t offset_ = 0;  // offset of the first element in the storage, in elements
  Dtype dtype_ = Dtype::f32;
  Device device_;
};

template <class T, int Rank>
View<T, Rank> Tensor::view() const {
  require(rank() == Rank, "[tensor] view of ", shape_, " with rank ", Rank, "; expected its rank, ", rank());
  View<T, Rank> v{data<T>(), {}, {}};
  for (int d = 0; d < Rank; ++d) {
    v.size[d] = shape_[d];
    v.stride[d] = strides_[d];
  }
  return v;
}

template <class T>
Tensor Tensor::from(std::span<const T> values, Shape shape, Device device, Category category) {
  require(static_cast<int64_t>(values.size()) == shape.numel(), "[tensor] the number of values for ", shape, " is ",
          values.size(), "; expected ", shape.numel());
  Tensor t = empty(shape, dtype_of<T>, device, category);
  t.upload(values.data());
  return t;
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  require(dtype_of<T> == dtype_, "[tensor] access to ", shape_, " as ", dtype_of<T>, "; expected its dtype, ", dtype_);
  require(contiguous(), "[tensor] to_vector of a strided tensor ", shape_, "; expected a contiguous tensor");
  std::vector<T> values(numel());
  download(values.data());
  return values;
}

}  // namespace hexad::tensor
