#include "framework/config/constraints.h"

#include <fmt/format.h>

#include <cmath>

namespace hexad::config {
namespace {

constexpr long double largest_integer = 9223372036854775807.0L;

/// Returns the text of a bound: integers below 1e15 without a fraction, other numbers as the shortest text of the
/// double.
std::string number(long double x) {
  if (x == std::floor(x) && std::fabs(x) < 1e15L) return fmt::format("{}", static_cast<int64_t>(x));
  return fmt::format("{}", static_cast<double>(x));
}

bool is_power_of_two(long double x) {
  int exponent = 0;
  return x >= 1 && std::frexp(x, &exponent) == 0.5L;
}

std::string nearest_powers(long double value) {
  if (!(value > 1)) return "1";
  if (value >= largest_integer / 2) return "";
  const int64_t below = int64_t{1} << std::ilogb(value);
  return fmt::format("{}, {}", below, below * 2);
}

// Returns the message of the internal error for a value that is not an enumerator of Constraint::Kind.
std::string not_a_kind(Constraint::Kind kind) {
  return base::cat("[Constraint] the kind is ", static_cast<int>(kind), "; expected a Constraint::Kind");
}

}  // namespace

bool Constraint::holds(long double value) const {
  switch (kind) {
    case Kind::at_least:
      return value >= a;
    case Kind::at_most:
      return value <= a;
    case Kind::between:
    case Kind::probability:
      return value >= a && value <= b;
    case Kind::greater_than:
      return value > a;
    case Kind::less_than:
      return value < a;
    case Kind::divisible_by:
      return std::fmod(value, a) == 0;
    case Kind::power_of_two:
      return is_power_of_two(value);
    case Kind::size_at_least:
      return value >= a;
    case Kind::size_exactly:
      return value == a;
  }
  base::fail_invariant(not_a_kind(kind));
}

void Constraint::narrow(int64_t& low, uint64_t& high) const {
  const auto from = [&](long double x) {
    if (x > static_cast<long double>(low)) low = x < largest_integer ? static_cast<int64_t>(std::ceil(x)) : INT64_MAX;
  };
  const auto to = [&](long double x) {
    if (x < static_cast<long double>(high)) high = x > 0 ? static_cast<uint64_t>(std::floor(x)) : 0;
  };
  if (kind == Kind::at_least || kind == Kind::between) from(a);
  if (kind == Kind::greater_than) from(std::floor(a) + 1);
  if (kind == Kind::at_most) to(a);
  if (kind == Kind::between) to(b);
  if (kind == Kind::less_than) to(std::ceil(a) - 1);
}

std::string Constraint::must() const {
  switch (kind) {
    case Kind::at_least:
      return "be at least " + number(a);
    case Kind::at_most:
      return "be at most " + number(a);
    case Kind::between:
      return fmt::format("be between {} and {}", number(a), number(b));
    case Kind::probability:
      return "be a probability (0 to 1)";
    case Kind::greater_than:
      return "be greater than " + number(a);
    case Kind::less_than:
      return "be less than " + number(a);
    case Kind::divisible_by:
      return "be divisible by " + number(a);
    case Kind::power_of_two:
      return "be a power of two";
    case Kind::size_at_least:
      return a == 1 ? "not be empty" : "have a size of at least " + number(a);
    case Kind::size_exactly:
      return fmt::format("have a size of {}", number(a));
  }
  base::fail_invariant(not_a_kind(kind));
}

std::string Constraint::legal() const {
  switch (kind) {
    case Kind::at_least:
      return ">= " + number(a);
    case Kind::at_most:
      return "<= " + number(a);
    case Kind::between:
      return fmt::format("{} to {}", number(a), number(b));
    case Kind::probability:
      return "0 to 1";
    case Kind::greater_than:
      return "> " + number(a);
    case Kind::less_than:
      return "< " + number(a);
    case Kind::divisible_by:
      return "multiple of " + number(a);
    case Kind::power_of_two:
      return "power of two";
    case Kind::size_at_least:
      return a == 1 ? "not empty" : "size >= " + number(a);
    case Kind::size_exactly:
      return "size " + number(a);
  }
  base::fail_invariant(not_a_kind(kind));
}

std::string Constraint::nearest(long double value) const {
  if (kind == Kind::power_of_two) return nearest_powers(value);
  if (kind == Kind::divisible_by && std::fabs(value) < largest_integer)
    return nearest_multiples(static_cast<int64_t>(value), static_cast<int64_t>(a));
  return "";
}

std::string nearest_multiples(int64_t value, int64_t of) {
  base::require(of >= 1, "[nearest_multiples] divisor is ", of, "; expected at least 1");
  if (value <= of) return std::to_string(of);
  const int64_t below = value / of * of;
  // The next multiple may exceed int64.
  if (below == value || below > INT64_MAX - of) return std::to_string(below);
  return fmt::format("{}, {}", below, below + of);
}

}  // namespace hexad::config
