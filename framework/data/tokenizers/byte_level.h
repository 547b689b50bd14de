// The byte alphabet of byte-level vocabularies (GPT-2), in which each byte is written as one printable character.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hexad::data {

/// Returns the bytes that `token` represents; nullopt if it contains a character outside the alphabet.
std::optional<std::string> bytes_of_symbols(std::string_view token);

/// Returns the name of the token for one byte in a vocabulary with byte fallback, for example "<0x0A>".
std::string fallback_name(unsigned char byte);

}  // namespace hexad::data
