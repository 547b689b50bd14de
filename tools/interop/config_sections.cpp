#include "tools/interop/config_sections.h"

#include <algorithm>

#include "framework/base/error.h"

namespace hexad::interop {

using namespace base;

namespace {

/// Returns the section of a key of a flat config; empty if the key has none.
std::string_view section_of(std::string_view key, const Family& family) {
  for (const std::string_view section : family.sections)
    if (key.size() > section.size() && key.starts_with(section) && key[section.size()] == '.') return section;
  return {};
}

template <class J>
J flat(const J& config, const Family& family, const std::string& where) {
  J result = J::object();
  for (const auto& [key, value] : config.items()) {
    const bool is_section = std::ranges::find(family.sections, key) != family.sections.end();
    if (!is_section) {
      result[key] = value;
      continue;
    }
    if (value.is_null()) continue;
    if (!value.is_object())
      fail(ExitCode::data, where, ": ", key, " is ", value.dump().substr(0, 80), ", expected an object");
    for (const auto& [name, inner] : value.items()) result[cat(key, ".", name)] = inner;
  }
  return result;
}

}  // namespace

Json without_sections(const Json& config, const Family& family, const std::string& where) {
  return flat(config, family, where);
}

OrderedJson without_sections(const OrderedJson& config, const Family& family, const std::string& where) {
  return flat(config, family, where);
}

OrderedJson with_sections(const OrderedJson& config, const Family& family) {
  OrderedJson result = OrderedJson::object();
  for (const auto& [key, value] : config.items()) {
    const std::string_view section = section_of(key, family);
    if (section.empty())
      result[key] = value;
    else
      result[std::string(section)][key.substr(section.size() + 1)] = value;
  }
  return result;
}

std::string_view key_in_section(std::string_view key, const Family& family) {
  const std::string_view section = section_of(key, family);
  return section.empty() ? key : key.substr(section.size() + 1);
}

}  // namespace hexad::interop
