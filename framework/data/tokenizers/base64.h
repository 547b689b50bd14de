// Base64 (RFC 4648) with padding.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hexad::data {

std::string to_base64(std::string_view bytes);

/// Returns the bytes that `text` encodes, or nullopt if `text` is not base64.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace hexad::data
