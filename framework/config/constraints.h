// Limits on the values of recipe keys. The fields() of a struct passes them after the doc text:
//
//     v("top_k", top_k, "number of experts per token", at_least(1), at_most(64));
//
// A limit on numbers applies to a number, to each number of a list, and to each y of a Curve. It applies to an optional
// number only if the number is set. A limit on sizes applies to a text or a list. NaN and infinities are always
// rejected, even without a limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "framework/base/error.h"

namespace hexad::config {

/// A limit on one key, as plain data. A long double represents every int64, uint64 and double exactly.
struct Constraint {
  enum class Kind : uint8_t {
    at_least,
    at_most,
    between,
    greater_than,
    less_than,
    divisible_by,
    power_of_two,
    probability,
    size_at_least,  // size_at_least and size_exactly limit the number of bytes of a string, or of elements of a list
    size_exactly,
  };

  Kind kind;
  long double a = 0;
  long double b = 0;

  /// True if the limit applies to the size of a string or list instead of to numbers.
  bool on_size() const { return kind == Kind::size_at_least || kind == Kind::size_exactly; }
  /// Narrows the range [low, high] to the integers that at_least, at_most, between, greater_than or less_than allows.
  /// Limits of other kinds have no effect.
  void narrow(int64_t& low, uint64_t& high) const;
  /// True if a number (or, if on_size(), a size) is legal.
  bool holds(long double value) const;
  /// Returns the text that follows "must" in messages, for example "be at least 1", "be divisible by 8" or "not be
  /// empty".
  std::string must() const;
  /// Returns the text for the column of legal values in the reference, for example ">= 1", "multiple of 8" or "not
  /// empty".
  std::string legal() const;
  /// Returns the nearest positive legal numbers of divisible_by or power_of_two, for example "56, 64". A multiple that
  /// exceeds int64_t is omitted. The result is empty in these cases:
  /// - The limit is of another kind.
  /// - The limit is power_of_two, and the next power may exceed int64_t.
  /// - The limit is divisible_by, and `value` exceeds int64_t.
  std::string nearest(long double value) const;
};

constexpr Constraint at_least(long double low) { return {Constraint::Kind::at_least, low}; }
constexpr Constraint at_most(long double high) { return {Constraint::Kind::at_most, high}; }
/// Limits a number to [low, high].
constexpr Constraint between(long double low, long double high) { return {Constraint::Kind::between, low, high}; }
constexpr Constraint greater_than(long double low) { return {Constraint::Kind::greater_than, low}; }
constexpr Constraint less_than(long double high) { return {Constraint::Kind::less_than, high}; }
constexpr Constraint positive() { return greater_than(0); }
/// Limits an integer to multiples of `divisor`, which must be at least 1.
constexpr Constraint divisible_by(int64_t divisor) {
  return {Constraint::Kind::divisible_by, static_cast<long double>(divisor)};
}
/// Limits a number to 1, 2, 4, ...
constexpr Constraint power_of_two() { return {Constraint::Kind::power_of_two}; }
/// Limits a number to [0, 1].
constexpr Constraint probability() { return {Constraint::Kind::probability, 0, 1}; }
/// Requires a string or a list to be non-empty.
constexpr Constraint non_empty() { return {Constraint::Kind::size_at_least, 1}; }
/// Requires `n` elements of a list, or `n` bytes of a string.
constexpr Constraint size_exactly(size_t n) { return {Constraint::Kind::size_exactly, static_cast<long double>(n)}; }

/// Marks an optional for which the program chooses a value if the optional is not set. An unset value is read and
/// written as `auto` with this mark, and as `none` without it. With or without the mark, an empty value and `null` are
/// also read as unset.
struct Automatic {};
inline constexpr Automatic automatic;

/// Marks a text (also in an optional) or the texts of a list as paths of files or folders. The reader replaces a
/// leading ~ or ~user by the home folder if a recipe writes the value.
struct FilePath {};
inline constexpr FilePath file_path;

/// Returns the multiples of `of` on both sides of `value`, for messages: nearest_multiples(63, 8) is "56, 64".
/// Multiples start at `of` itself, so nearest_multiples(3, 8) is "8". The result is `value` alone if `value` is itself
/// a multiple. A multiple that exceeds int64_t is omitted. `of` must be at least 1.
std::string nearest_multiples(int64_t value, int64_t of);

}  // namespace hexad::config
