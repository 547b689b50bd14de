// Message between the ranks of `hexad verify`: numbers, shapes and texts in this machine's formats. All ranks of a job
// have the same formats.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "framework/base/error.h"
#include "tools/verify/verify_names.h"

namespace hexad::verify {

/// Appends values to a message.
class MessageWriter {
 public:
  template <class T>
  void value(const T& v) {
    static_assert(std::is_trivially_copyable_v<T>);
    raw(&v, sizeof v);
  }
  void shape(const Shape& s) {
    value(s.rank());
    for (int64_t n : s) value(n);
  }
  void text(const std::string& t) { value(t.size()), raw(t.data(), t.size()); }
  void raw(const void* from, size_t bytes) { message_.append(static_cast<const char*>(from), bytes); }
  /// Returns the message. The writer is empty afterwards.
  std::string take() { return std::exchange(message_, {}); }

 private:
  std::string message_;
};

/// Reads the values that a MessageWriter wrote, in the same order. Each function throws std::logic_error that names
/// `what` and `rank` if the message is too short.
class MessageReader {
 public:
  /// Makes a reader of `message`, which `rank` has sent. Keeps references to `what` and `message`.
  MessageReader(const char* what, const std::string& message, size_t rank)
      : what_(what), message_(message), rank_(rank) {}

  bool done() const { return at_ == message_.size(); }
  template <class T>
  T value() {
    static_assert(std::is_trivially_copyable_v<T>);
    T v;
    std::memcpy(&v, raw(sizeof v), sizeof v);
    return v;
  }
  Shape shape() {
    std::vector<int64_t> sizes(value<int>());
    for (int64_t& n : sizes) n = value<int64_t>();
    return Shape(sizes);
  }
  std::string text() {
    const auto length = value<size_t>();
    return {raw(length), length};
  }
  /// Returns the next `bytes` bytes. They are valid as long as the message.
  const char* raw(size_t bytes) {
    base::require(bytes <= message_.size() - at_, "[", what_, "] the message of rank ", rank_, " has ", message_.size(),
                  " bytes; expected at least ", at_ + bytes);
    return message_.data() + std::exchange(at_, at_ + bytes);
  }

 private:
  const char* what_;
  const std::string& message_;
  size_t rank_;
  size_t at_ = 0;
};

}  // namespace hexad::verify
