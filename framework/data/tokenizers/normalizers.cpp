#include "framework/data/tokenizers/normalizers.h"

#include <array>
#include <cstdint>
#include <memory>

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include "framework/data/tokenizers/code_point.h"
#include "framework/data/tokenizers/regex.h"

namespace hexad::data {

using namespace base;
namespace {

void append_character(std::string& text, uint32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
    return;
  }
  const int tail = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  constexpr std::array<uint32_t, 4> lead{0, 0xc0, 0xe0, 0xf0};
  text += static_cast<char>(lead[tail] | c >> (6 * tail));
  for (int k = tail - 1; k >= 0; --k) text += static_cast<char>(0x80 | (c >> (6 * k) & 63));
}

// Replaces each character: calls f(character, out), which must append the replacement to `out`.
template <class F>
void map_characters(std::string& text, F&& f) {
  std::string mapped;
  mapped.reserve(text.size());
  for (std::string_view rest = text; !rest.empty();) {
    const CodePoint c = code_point_at(rest);
    f(c.value, mapped);
    rest.remove_prefix(c.bytes);
  }
  text = std::move(mapped);
}

Normalizer lowercase() {
  return [](std::string& text) {
    map_characters(text, [](uint32_t c, std::string& out) {
      append_character(out, static_cast<uint32_t>(u_tolower(static_cast<UChar32>(c))));
      if (c == 0x130) append_character(out, 0x307);  // the only character whose lower case consists of two characters
    });
  };
}

Normalizer strip_accents() {
  return [](std::string& text) {
    map_characters(text, [](uint32_t c, std::string& out) {
      if ((U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_M_MASK) == 0) append_character(out, c);
    });
  };
}

Normalizer strip(bool left, bool right) {
  return [left, right](std::string& text) {
    std::string_view rest = left ? without_leading_space(text) : std::string_view(text);
    while (right && !rest.empty() && is_white_space(last_code_point(rest)))
      rest.remove_suffix(last_code_point(rest).bytes);
    text = std::string(rest);
  };
}

Normalizer replace(const JsonField& json) {
  const JsonField pattern = json["pattern"];
  const std::string content = json["content"].text();
  if (const auto literal = pattern.find("String")) {
    const std::string from = literal->text();
    if (from.empty()) literal->fail(" is empty, expected at least one character");
    return [from, content](std::string& text) { replace_all(text, from, content); };
  }
  const JsonField expression = pattern["Regex"];
  const auto regex = std::make_shared<const Regex>(expression.text(), expression.place(), RegexDialect::oniguruma);
  return [regex, content](std::string& text) {
    std::string replaced;
    size_t done = 0;
    regex->for_each_match(text, [&](size_t begin, size_t end) {
      replaced.append(text, done, begin - done).append(content);
      done = end;
    });
    replaced.append(text, done);
    text = std::move(replaced);
  };
}

}  // namespace

Normalizer unicode_form(std::string_view name) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* form = name == "NFC"    ? icu::Normalizer2::getNFCInstance(error)
                                 : name == "NFD"  ? icu::Normalizer2::getNFDInstance(error)
                                 : name == "NFKC" ? icu::Normalizer2::getNFKCInstance(error)
                                                  : icu::Normalizer2::getNFKDInstance(error);
  if (U_FAILURE(error))
    fail(ExitCode::resource, "ICU has no data for ", name, ": ", u_errorName(error),
         "; expected an ICU library with its data");
  return [form](std::string& text) {
    if (std::ssize(text) > INT32_MAX)
      fail(ExitCode::resource, "Unicode normalization cannot read a text of ", text.size(), " bytes, expected at most ",
           INT32_MAX);
    UErrorCode status = U_ZERO_ERROR;
    const icu::StringPiece piece(text.data(), static_cast<int32_t>(text.size()));
    if (form->isNormalizedUTF8(piece, status) && U_SUCCESS(status)) return;
    status = U_ZERO_ERROR;
    std::string normal;
    icu::StringByteSink<std::string> sink(&normal, static_cast<int32_t>(text.size()));
    form->normalizeUTF8(0, piece, sink, nullptr, status);
    if (U_FAILURE(status))
      fail(ExitCode::resource, "Unicode normalization of a text of ", text.size(),
           " bytes failed: ", u_errorName(status), "; expected enough memory, and text in UTF-8");
    text = std::move(normal);
  };
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  size_t at = text.find(from);
  if (at == text.npos) return;
  std::string replaced;
  replaced.reserve(text.size() + text.size() / 4);
  size_t done = 0;
  for (; at != text.npos; at = text.find(from, done)) {
    replaced.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  text = std::move(replaced.append(text, done));
}

std::vector<Normalizer> read_normalizers(const JsonField& json, int depth) {
  const std::string type = json["type"].text();
  json.require_depth(depth);
  std::vector<Normalizer> all;
  if (type == "Sequence") {
    const JsonField list = json["normalizers"];
    for (size_t i = 0; i < list.size(); ++i)
      for (Normalizer& normalizer : read_normalizers(list.at(i), depth + 1)) all.push_back(std::move(normalizer));
  } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    all.push_back(unicode_form(type));
  } else if (type == "Lowercase") {
    all.push_back(lowercase());
  } else if (type == "StripAccents") {
    all.push_back(strip_accents());
  } else if (type == "Strip") {
    all.push_back(strip(json.flag("strip_left", true), json.flag("strip_right", true)));
  } else if (type == "Prepend") {
    all.push_back([prefix = json["prepend"].text()](std::string& text) {
      if (!text.empty()) text.insert(0, prefix);
    });
  } else if (type == "Replace") {
    all.push_back(replace(json));
  } else {
    json.fail_unsupported(
        " is of type '", type,
        "', expected NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, Replace or Sequence");
  }
  return all;
}

}  // namespace hexad::data
