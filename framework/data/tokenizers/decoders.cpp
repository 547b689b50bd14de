#include "framework/data/tokenizers/decoders.h"

#include "framework/data/tokenizers/byte_level.h"
#include "framework/data/tokenizers/metaspace.h"
#include "framework/data/tokenizers/normalizers.h"

namespace hexad::data {
namespace {

constexpr int64_t longest_strip = 64;

void read_strip(const JsonField& json, DecoderRules& rules) {
  const std::string content = json["content"].text();
  const int64_t start = json["start"].integer(0, longest_strip);
  if (const int64_t stop = json["stop"].integer(0, longest_strip); stop != 0)
    json["stop"].fail_unsupported(" is ", stop, ", expected 0");
  for (int64_t i = 0; i < start; ++i) rules.prefix += content;
}

}  // namespace

std::string DecoderRules::bytes_of(const std::string& name) const {
  if (byte_level) {
    if (auto bytes = bytes_of_symbols(name)) return *bytes;
    return name;
  }
  if (byte_fallback && name.size() == 6 && name.starts_with("<0x"))
    for (int b = 0; b < 256; ++b)
      if (fallback_name(static_cast<unsigned char>(b)) == name) return std::string(1, static_cast<char>(b));
  std::string bytes = name;
  for (const auto& [from, to] : replacements) replace_all(bytes, from, to);
  return bytes;
}

void read_decoder(const JsonField& json, DecoderRules& rules, int depth) {
  const std::string type = json["type"].text();
  json.require_depth(depth);
  if (type == "Sequence") {
    const JsonField list = json["decoders"];
    for (size_t i = 0; i < list.size(); ++i) read_decoder(list.at(i), rules, depth + 1);
  } else if (type == "ByteLevel") {
    rules.byte_level = true;
  } else if (type == "ByteFallback") {
    rules.byte_fallback = true;
  } else if (type == "Metaspace") {
    const std::string replacement = json.text("replacement", metaspace);
    if (replacement.empty()) json["replacement"].fail(" is empty, expected one character");
    rules.replacements.emplace_back(replacement, " ");
    const std::string scheme = json.text("prepend_scheme", json.flag("add_prefix_space", true) ? "always" : "never");
    if (scheme != "never") rules.prefix.assign(1, ' ');
  } else if (type == "Replace") {
    const JsonField pattern = json["pattern"];
    if (const auto regex = pattern.find("Regex"))
      regex->fail_unsupported(" is a regular expression, expected a pattern of type String");
    const JsonField from = pattern["String"];
    if (from.text().empty()) from.fail(" is empty, expected at least one character");
    rules.replacements.emplace_back(from.text(), json["content"].text());
  } else if (type == "Strip") {
    read_strip(json, rules);
  } else if (type != "Fuse") {
    json.fail_unsupported(
        " is of type '", type,
        "', expected ByteLevel, ByteFallback, Metaspace, Replace with a String, Strip, Fuse or Sequence");
  }
}

}  // namespace hexad::data
