// Copy of a matrix that ends at a protected page: an access past the end of the copy crashes the test.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "framework/tensor/tensor.h"

namespace hexad::tests {

class Fenced {
 public:
  /// Copies a matrix, whose rows are `strides()[0]` elements apart. The copy ends where the protected page begins.
  explicit Fenced(const tensor::Tensor& t)
      : bytes_(((t.dim(0) - 1) * t.strides()[0] + t.dim(1)) * base::size_of(t.dtype())),
        inner_((bytes_ + page_ - 1) / page_ * page_),
        all_(mmap(nullptr, inner_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    base::require(all_ != MAP_FAILED, "[Fenced] mmap of ", inner_ + 2 * page_, " bytes failed");
    mprotect(static_cast<std::byte*>(all_) + page_, inner_, PROT_READ | PROT_WRITE);
    std::memcpy(data(), t.raw(), bytes_);
  }
  ~Fenced() { munmap(all_, inner_ + 2 * page_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

  void* data() const { return static_cast<std::byte*>(all_) + page_ + inner_ - bytes_; }

 private:
  const int64_t page_ = sysconf(_SC_PAGESIZE);
  int64_t bytes_, inner_;
  void* all_;
};

}  // namespace hexad::tests
