#include "framework/tensor/tensor.h"

#include <cstring>

namespace hexad::tensor {

namespace {

int64_t bytes_of(const Shape& shape, Dtype dtype) {
  int64_t bytes = 0;
  require(!__builtin_mul_overflow(shape.numel(), size_of(dtype), &bytes), "[tensor] more than 2^63 - 1 bytes in ",
          shape, " ", dtype, "; expected a smaller shape");
  return bytes;
}

}  // namespace

Storage::Storage(std::shared_ptr<device::Allocator> allocator, int64_t bytes, Category category)
    : allocator_(std::move(allocator)),
      bytes_(bytes),
      category_(category),
      on_host_(allocator_->on_host()),
      block_(allocator_->allocate(bytes, category)) {}

Storage::Storage(std::byte* borrowed, int64_t bytes)
    : bytes_(bytes), category_(Category::temporary), on_host_(true), block_(borrowed) {}

Storage::Storage(std::shared_ptr<std::byte> owner, int64_t bytes)
    : owner_(std::move(owner)),
      bytes_(bytes),
      category_(Category::communication),
      on_host_(true),
      block_(owner_.get()) {}

std::shared_ptr<Storage> Storage::borrow(std::byte* borrowed, int64_t bytes) {
  auto storage = std::make_shared<Storage>(borrowed, bytes);
  storage->on_host_ = false;
  storage->category_ = Category::communication;
  return storage;
}

Storage::~Storage() {
  if (allocator_) allocator_->deallocate(block_, bytes_, category_);
}

void Storage::set_category(Category category) {
  if (category == category_ || !block_ || !allocator_) return;
  allocator_->recategorise(bytes_, category_, category);
  category_ = category;
}

Tensor Tensor::empty(Shape shape, Dtype dtype, Device device, Category category) {
  Tensor t;
  t.shape_ = shape;
  t.strides_ = shape.row_major_strides();
  t.dtype_ = dtype;
  t.device_ = device;
  t.storage_ = std::make_shared<Storage>(device.context().allocator(), bytes_of(shape, dtype), category);
  return t;
}

Tensor Tensor::zeros(Shape shape, Dtype dtype, Device device, Category category) {
  Tensor t = empty(shape, dtype, device, category);
  t.fill_bytes(0, device.context().compute());
  return t;
}

Tensor Tensor::like(const Tensor& other, Category category) {
  return empty(other.shape_, other.dtype_, other.device_, category);
}

Tensor Tensor::offloaded(Shape shape, Dtype dtype, Device device) {
  Tensor t;
  t.shape_ = shape;
  t.strides_ = shape.row_major_strides();
  t.dtype_ = dtype;
  t.device_ = device;
  t.storage_ =
      std::make_shared<Storage>(device.context().offload_allocator(), bytes_of(shape, dtype), Category::offload);
  return t;
}

Tensor Tensor::pinned(Shape shape, Dtype dtype, Device device) {
  Tensor t;
  t.shape_ = shape;
  t.strides_ = shape.row_major_strides();
  t.dtype_ = dtype;
  t.device_ = device.host();
  const int64_t bytes = bytes_of(shape, dtype);
  t.storage_ = std::make_shared<Storage>(device.context().host_buffer(bytes), bytes);
  return t;
}

Tensor Tensor::borrowed_at(std::byte* storage_begin, Device device) const {
  Tensor t = *this;
  t.storage_ = std::make_shared<Storage>(storage_begin, storage_->bytes());
  t.device_ = device;
  return t;
}

void Tensor::upload(const void* from) const {
  require(contiguous(), "[tensor] upload to a strided tensor ", shape_, "; expected a contiguous tensor");
  if (bytes() == 0) return;
  if (storage_->on_host()) return void(std::memcpy(raw(), from, bytes()));
  device::DeviceContext& context = device_.context();
  context.copy(context.compute(), device_raw(), from, bytes());
}

void Tensor::download(void* to) const {
  require(contiguous(), "[tensor] download of a strided tensor ", shape_, "; expected a contiguous tensor");
  if (bytes() == 0) return;
  if (storage_->on_host()) return void(std::memcpy(to, raw(), bytes()));
  device::DeviceContext& context = device_.context();
  context.copy(context.compute(), to, device_raw(), bytes());
  context.compute().synchronize();
}

void Tensor::copy_from(const Tensor& other, Stream& stream) const {
  require(contiguous() && other.contiguous() && bytes() == other.bytes(), "[tensor] copy of ", other.shape(), " ",
          other.dtype(), " with strides ", other.strides_, " to ", shape_, " ", dtype_, " with strides ", strides_,
          "; expected contiguous tensors with equal numbers of bytes");
  if (bytes() == 0) return;
  const Tensor& on_device = storage_->on_host() ? other : *this;
  on_device.device_.context().copy(stream, device_raw(), other.device_raw(), bytes());
}

void Tensor::fill_bytes(uint8_t byte, Stream& stream) const {
  require(contiguous(), "[tensor] fill of a strided tensor ", shape_, "; expected a contiguous tensor");
  if (bytes() > 0) device_.context().fill(stream, device_raw(), byte, bytes());
}

bool Tensor::contiguous() const {
  if (numel() == 0) return true;
  int64_t step = 1;
  for (int d = rank() - 1; d >= 0; --d) {
    if (shape_[d] != 1 && strides_[d] != step) return false;
    step *= shape_[d];
  }
  return true;
}

Tensor Tensor::slice(int dim, int64_t begin, int64_t end) const {
  require(0 <= begin && begin <= end && end <= shape_[dim], "[tensor] slice [", begin, ", ", end, ") of dimension ",
          dim, " of shape ", shape_, " is out of range; expected 0 <= begin <= end <= ", shape_[dim]);
  Tensor t = *this;
  t.shape_[dim] = end - begin;
  if (t.numel() > 0) t.offset_ += begin * strides_[dim];  // an empty tensor may have no memory
  return t;
}

Tensor Tensor::reshape(Shape shape) const {
  const Shape asked = shape;
  int unknown = -1;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] != -1) continue;
    require(unknown < 0, "[tensor] reshape of ", shape_, " to ", asked,
            " with several unknown sizes (-1); expected at most one");
    unknown = d;
    shape[d] = 1;
  }
  if (unknown >= 0) {
    const int64_t known = shape.numel();
    require(known > 0 && numel() % known == 0, "[tensor] reshape of ", shape_, " to ", asked,
            "; expected sizes whose product divides the number of elements, ", numel());
    shape[unknown] = numel() / known;
  }
  require(shape.numel() == numel(), "[tensor] reshape of ", shape_, " to ", shape, "; expected ", numel(), " elements");
  require(contiguous(), "[tensor] reshape of a strided tensor ", shape_, "; expected a contiguous tensor");
  Tensor t = *this;
  t.shape_ = shape;
  t.strides_ = shape.row_major_strides();
  return t;
}

}  // namespace hexad::tensor
