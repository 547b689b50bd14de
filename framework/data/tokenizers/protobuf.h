// Fields of a protocol buffer message, read without its definition.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace hexad::data {

struct ProtobufField {
  uint64_t number = 0;
  uint64_t value = 0;           // of a field that is a whole number
  std::string_view bytes = {};  // of a field that is a text or a message
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
