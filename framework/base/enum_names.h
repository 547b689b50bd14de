// Names of enumerators. An enumeration E lists them in a function enum_names(E), in the namespace of E.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "framework/base/error.h"

namespace hexad::base {

/// Returns the name of `value` in the list of its enumeration. Throws std::logic_error if the list does not contain it.
template <class E>
requires std::is_enum_v<E>
constexpr std::string_view enum_name(E value) {
  for (const auto& [known, name] : enum_names(value))
    if (known == value) return name;
  fail_invariant(cat("enum_names() has no name for the enumerator ", static_cast<int64_t>(value),
                     "; expected an enumerator in the list"));
}

/// Returns the enumerator of E with the name `wanted`; nullopt if the list does not contain this name.
template <class E>
requires std::is_enum_v<E>
constexpr std::optional<E> enum_named(std::string_view wanted) {
  for (const auto& [value, name] : enum_names(E{}))
    if (name == wanted) return value;
  return std::nullopt;
}

}  // namespace hexad::base
