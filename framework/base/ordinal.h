// Indices of enumerators, for arrays with one element for each enumerator.
#pragma once

#include <cstddef>
#include <type_traits>

namespace hexad::base {

/// Returns the index of `value` in its enumeration, whose enumerators are numbered from 0.
template <class E>
requires std::is_enum_v<E>
constexpr size_t ordinal(E value) { return static_cast<size_t>(value); }

}  // namespace hexad::base
