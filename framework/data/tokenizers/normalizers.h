// Normalizers, which change a text before it is divided into pieces: Unicode normal forms, replacements, prefixes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "framework/data/tokenizers/json_field.h"

namespace hexad::data {

/// Changes a text in place. The text is valid UTF-8 before and after the call. Thread-safe.
using Normalizer = std::function<void(std::string& text)>;

/// Reads the normalizer of a tokenizer.json. A normalizer of type Sequence is returned as several normalizers. Throws
/// Error(data) that names the type if it is not supported.
std::vector<Normalizer> read_normalizers(const JsonField& json, int depth = 0);

/// Returns the normalizer of a Unicode normal form: "NFC", "NFD", "NFKC" or "NFKD".
Normalizer unicode_form(std::string_view name);

/// Replaces every occurrence of `from`, which must not be empty.
void replace_all(std::string& text, std::string_view from, std::string_view to);

}  // namespace hexad::data
