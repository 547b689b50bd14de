#include "framework/data/tokenizers/protobuf.h"

namespace hexad::data {
namespace {

// Wire types of the encoding. Groups (3 and 4) are obsolete and not supported.
enum WireType : uint64_t { varint_type = 0, eight_bytes = 1, with_length = 2, four_bytes = 5 };

}  // namespace

std::optional<uint64_t> ProtobufReader::varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::optional<std::string_view> ProtobufReader::take(uint64_t bytes) {
  if (bytes > rest_.size()) return std::nullopt;
  const std::string_view taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

std::optional<ProtobufField> ProtobufReader::next() {
  const auto tag = varint();
  if (!tag) return std::nullopt;
  ProtobufField field{.number = *tag >> 3};
  std::optional<std::string_view> bytes = std::string_view();
  switch (*tag & 7) {
    case varint_type: {
      const auto value = varint();
      if (!value) return std::nullopt;
      field.value = *value;
      break;
    }
    case eight_bytes:
      bytes = take(8);
      break;
    case four_bytes:
      bytes = take(4);
      break;
    case with_length: {
      const auto length = varint();
      if (!length) return std::nullopt;
      bytes = take(*length);
      break;
    }
    default:
      return std::nullopt;
  }
  if (!bytes) return std::nullopt;
  field.bytes = *bytes;
  return field;
}

}  // namespace hexad::data
