// Index of an enumerator, for arrays with one element per enumerator.
#pragma once

#include <cstddef>
#include <type_traits>

namespace hexad::base {

/// Returns the index of `value` among its enumerators, which count from 0.
template <class E>
requires std::is_enum_v<E>
constexpr size_t ordinal(E value) { return static_cast<size_t>(value); }

}  // namespace hexad::base
