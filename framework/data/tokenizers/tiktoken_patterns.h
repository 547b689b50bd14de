// Patterns and special tokens of known tiktoken vocabularies. The .tiktoken files do not contain them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hexad::data {

struct SpecialRange {
  std::string_view name;  // name; "{}" represents the number of the token, counted from first_number
  int32_t first_id;
  int32_t count = 1;
  int32_t first_number = 0;
};

struct TiktokenPattern {
  std::string_view name;
  int64_t ranks;  // number of tokens in the file; identifies the pattern of a file
  std::string_view regex;
  std::vector<SpecialRange> special = {};
  int32_t end_of_document = -1;
  int32_t beginning_of_document = -1;
  bool nfc = false;  // true: texts are converted to Unicode normal form NFC
};

/// Returns all patterns.
std::span<const TiktokenPattern> tiktoken_patterns();

}  // namespace hexad::data
