// Reader of the fields of a protocol buffer message, without a .proto definition.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace hexad::data {

struct ProtobufField {
  uint64_t number = 0;
  uint64_t value = 0;           // value of an integer field
  std::string_view bytes = {};  // contents of any other field: a string, a message or a number of fixed size
};

class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view message) : rest_(message) {}

  /// Returns the next field; nullopt at the end of the message, or at the first damaged field.
  std::optional<ProtobufField> next();

 private:
  std::optional<uint64_t> varint();
  std::optional<std::string_view> take(uint64_t bytes);

  std::string_view rest_;
};

}  // namespace hexad::data
