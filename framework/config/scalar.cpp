#include "framework/config/scalar.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <ranges>
#include <utility>

#include "framework/base/error.h"
#include "framework/config/number_readings.h"
#include "framework/config/words.h"

namespace hexad::config {
namespace {

std::string_view without_sign(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return text;
}

bool all_digits(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_digit); }

/// True for numbers such as "010", which means eight in YAML 1.1 but ten to most readers.
bool has_leading_zero(std::string_view digits) { return digits.size() > 1 && digits[0] == '0' && is_digit(digits[1]); }

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

bool names_nan_or_infinity(std::string_view text) {
  std::string word = lower_case(without_sign(text));
  if (word.starts_with('.')) word.erase(0, 1);
  return word == "nan" || word == "inf" || word == "infinity";
}

/// Parses all of `text` as a number. Returns false if it is not a number or exceeds the range of T.
template <class T>
bool parse(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && error == std::errc{} && end == text.data() + text.size();
}

/// Returns a hint such as "; write 1000 or 1.000" with the numbers that `text` may mean, each followed by `unit`.
/// Returns an empty text if `text` is not a number.
std::string number_hint(std::string_view text, std::string_view unit = "") {
  std::vector<std::string> readings = number_readings(text);
  for (std::string& reading : readings) reading += unit;
  return readings.empty() ? "" : fmt::format("; write {}", fmt::join(readings, " or "));
}

/// Returns a hint such as "; write 1000" if the first meaning of `text` is an integer whose value is known exactly.
/// Returns a hint such as "; 1.5 is not an integer" if `text` has a comma and the first meaning is a fraction.
/// Otherwise returns an empty text.
std::string integer_hint(std::string_view text) {
  const std::vector<std::string> readings = number_readings(text);
  if (readings.empty()) return "";
  const std::string& number = readings.front();
  const std::string_view digits = without_sign(number);
  uint64_t size = 0;
  if (all_digits(digits) && parse(digits, size))
    return fmt::format("; write {}{}", number.starts_with('-') && size > 0 ? "-" : "", size);
  double real = 0;
  if (!parse(std::string_view(number), real)) return "";
  if (real != std::floor(real))
    return text.find(',') == std::string_view::npos ? "" : fmt::format("; {} is not an integer", number);
  // Above 2^53, the double may differ from the written integer.
  if (std::fabs(real) < 9007199254740992.0) return fmt::format("; write {}", static_cast<int64_t>(real));
  return "";
}

/// A number and the word after it: 64 and "K" for "64K".
struct WithUnit {
  double number;
  std::string_view unit;
};

/// Splits a text without sign or comma into a number and the word after the number. Returns nullopt if the text does
/// not begin with a number, or if nothing follows the number.
std::optional<WithUnit> number_with_unit(std::string_view text) {
  const size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  WithUnit parts{.number = 0, .unit = text.substr(end)};
  parts.unit.remove_prefix(std::min(parts.unit.find_first_not_of(' '), parts.unit.size()));
  if (parts.unit.empty() || !parse(text.substr(0, end), parts.number)) return {};
  return parts;
}

/// Returns a hint for a number with the unit k, m, g, ki, mi or gi: "; write 65536 for 64 x 1024, or 64000" for "64K".
/// Returns an empty text for other texts, and if the first product is not an integer of at most 2^53.
std::string integer_unit_hint(std::string_view text) {
  const std::optional<WithUnit> parts = number_with_unit(text);
  if (!parts) return "";
  constexpr std::array<std::string_view, 3> prefixes{"k", "m", "g"};
  const std::string unit = lower_case(parts->unit);
  for (size_t i = 0; i < prefixes.size(); ++i) {
    if (unit != prefixes[i] && unit != base::cat(prefixes[i], "i")) continue;
    const double of_two = std::pow(1024.0, i + 1.0), of_ten = std::pow(1000.0, i + 1.0);
    const double binary = parts->number * of_two, decimal = parts->number * of_ten;
    if (binary != std::floor(binary) || binary > 9007199254740992.0) return "";
    return fmt::format("; write {:.0f} for {:g} x {:.0f}, or {:.0f}", binary, parts->number, of_two, decimal);
  }
  return "";
}

/// Returns a hint such as "; write 2e-05" for a number with a unit such as "20us"; an empty text for other texts.
std::string real_unit_hint(std::string_view text) {
  const std::optional<WithUnit> parts = number_with_unit(text);
  if (!parts) return "";
  constexpr std::array<std::pair<std::string_view, double>, 9> factors{{{"%", 1e-2},
                                                                        {"ns", 1e-9},
                                                                        {"us", 1e-6},
                                                                        {"ms", 1e-3},
                                                                        {"s", 1},
                                                                        {"K", 1e3},
                                                                        {"M", 1e6},
                                                                        {"G", 1e9},
                                                                        {"T", 1e12}}};
  std::string_view unit = parts->unit;
  for (const std::string_view of_bytes_or_flops : {"B/s", "B", "FLOP/s", "FLOPS"})
    if (unit.size() > of_bytes_or_flops.size() && unit.ends_with(of_bytes_or_flops)) {
      unit.remove_suffix(of_bytes_or_flops.size());
      break;
    }
  const auto factor = std::ranges::find(factors, unit, &std::pair<std::string_view, double>::first);
  return factor == factors.end() ? "" : fmt::format("; write {:.12g}", parts->number * factor->second);
}

std::string leading_zero(std::string_view text) {
  std::string_view digits = without_sign(text);
  while (has_leading_zero(digits)) digits.remove_prefix(1);
  return fmt::format("must not start with 0, which YAML reads as octal; write {}{}", text.starts_with('-') ? "-" : "",
                     digits);
}

std::string read_boolean(const Node& node, void* value, const Type& type) {
  if (!node.quoted && (node.text == "true" || node.text == "false")) {
    type.set(value, node.text == "true");
    return "";
  }
  const std::string word = lower_case(node.text);
  const auto is = [&](auto... words) { return ((word == words) || ...); };
  std::string_view meant;
  if (is("true", "yes", "on", "y", "1")) meant = "true";
  if (is("false", "no", "off", "n", "0")) meant = "false";
  return meant.empty() ? "must be true or false" : fmt::format("must be true or false; write {}", meant);
}

std::string read_integer(const Node& node, void* value, const Type& type) {
  const std::string& text = node.text;
  const std::string_view digits = without_sign(text);
  if (node.quoted) return all_digits(digits) ? "must be an integer; remove the quotes" : "must be an integer";
  if (names_nan_or_infinity(text)) return "must be a finite integer";
  if (!all_digits(digits)) return base::cat("must be an integer", integer_hint(text), integer_unit_hint(text));
  if (has_leading_zero(digits)) return leading_zero(text);
  uint64_t size = 0;
  const bool negative = text[0] == '-';
  const uint64_t lowest = type.low < 0 ? uint64_t{0} - static_cast<uint64_t>(type.low) : 0;
  const uint64_t most = negative ? lowest : type.high;
  if (!parse(digits, size) || size > most) return fmt::format("must be between {} and {}", type.low, type.high);
  type.set(value, negative ? uint64_t{0} - size : size);
  return "";
}

struct Unit {
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<Unit, 9> units{{{"B", 1},
                                     {"KB", 1000},
                                     {"MB", 1000 * 1000},
                                     {"GB", 1000 * 1000 * 1000},
                                     {"TB", int64_t{1000} * 1000 * 1000 * 1000},
                                     {"KiB", int64_t{1} << 10},
                                     {"MiB", int64_t{1} << 20},
                                     {"GiB", int64_t{1} << 30},
                                     {"TiB", int64_t{1} << 40}}};

constexpr std::string_view byte_size_expected =
    "must be a number of bytes, plain or with a unit: B, KB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers "
    "of 1024)";

// Returns the unit that `name` probably means, for example "GiB" for "gib" or "g"; empty if `name` means no unit.
std::string_view unit_meant(std::string_view name) {
  const std::string word = lower_case(name);
  for (const Unit& unit : units)
    if (lower_case(unit.name) == word) return unit.name;
  for (const Unit& unit : units)
    if (unit.name.size() == 3 && (word.size() == 1 || word.ends_with('i')) && word[0] == lower_case(unit.name)[0])
      return unit.name;
  return "";
}

struct Product {
  uint64_t whole;
  bool exact;  // true if the product is `whole` without a fraction
};

/// Returns 0.`decimals` * `factor`, by long multiplication from the last digit. `factor` must be below 2^60.
Product times(std::string_view decimals, uint64_t factor) {
  uint64_t carry = 0;  // always below `factor`
  bool exact = true;
  for (const char c : decimals | std::views::reverse) {
    carry += static_cast<uint64_t>(c - '0') * factor;
    exact = exact && carry % 10 == 0;
    carry /= 10;
  }
  return {carry, exact};
}

// Reads a size such as "1.5GB" exactly: the digits before and after the point are multiplied by the unit as integers.
std::string read_byte_size(const Node& node, void* value, const Type& type) {
  const std::string_view text = node.text;
  const size_t end = text.find_first_not_of("0123456789.,_");
  if (end == std::string_view::npos || end == 0 || std::string_view("eExX").find(text[end]) != std::string_view::npos) {
    std::string wrong = read_integer(node, value, type);
    return wrong == "must be an integer" ? std::string(byte_size_expected) : wrong;
  }
  const std::string_view digits = text.substr(0, end);
  std::string_view name = text.substr(end);
  name.remove_prefix(std::min(name.find_first_not_of(' '), name.size()));
  const auto unit = std::ranges::find(units, name, &Unit::name);
  const size_t point = digits.find('.');
  const bool has_point = point != std::string_view::npos;
  const std::string_view whole = digits.substr(0, point), part = has_point ? digits.substr(point + 1) : "";
  if (unit == units.end() || !all_digits(whole) || (has_point && !all_digits(part))) {
    const std::string_view meant = unit_meant(name);
    return std::string(byte_size_expected) + (meant.empty() ? "" : number_hint(digits, meant));
  }
  if (node.quoted) return "must be a number of bytes; remove the quotes";
  if (has_leading_zero(whole)) return leading_zero(digits) + std::string(unit->name);
  const auto factor = static_cast<uint64_t>(unit->bytes);
  const auto [more, exact] = times(part, factor);
  uint64_t bytes = 0;
  const bool fits = parse(whole, bytes) && !__builtin_mul_overflow(bytes, factor, &bytes) &&
                    !__builtin_add_overflow(bytes, more, &bytes) && bytes <= type.high && (exact || bytes < type.high);
  if (!fits) return fmt::format("must be between {} and {} bytes", std::max<int64_t>(type.low, 0), type.high);
  if (!exact)
    return fmt::format("must be a whole number of bytes; {} is between {} and {}", shown(text), bytes, bytes + 1);
  type.set(value, bytes);
  return "";
}

std::string byte_size_text(int64_t bytes) {
  const Unit* largest = nullptr;
  for (const Unit& unit : units)
    if (unit.name.size() == 3 && bytes >= unit.bytes && bytes % unit.bytes == 0) largest = &unit;
  return largest ? fmt::format("{}{}", bytes / largest->bytes, largest->name) : std::to_string(bytes);
}

std::string read_real(const Node& node, void* value) {
  const std::string& text = node.text;
  if (names_nan_or_infinity(text)) return "must be a finite number";
  double real = 0;
  std::string_view unsigned_text = without_sign(text);
  const bool starts_well = !unsigned_text.empty() && (is_digit(unsigned_text[0]) || unsigned_text[0] == '.');
  const std::string_view source = text.starts_with('+') ? unsigned_text : std::string_view(text);
  const auto [end, error] = std::from_chars(source.data(), source.data() + source.size(), real);
  if (!starts_well || error == std::errc::invalid_argument || end != source.data() + source.size())
    return base::cat("must be a number", number_hint(text), real_unit_hint(text));
  if (node.quoted) return "must be a number; remove the quotes";
  if (has_leading_zero(unsigned_text)) return leading_zero(text);
  if (error == std::errc::result_out_of_range) return "must fit in a double (about 1e-308 to 1e308)";
  *static_cast<double*>(value) = real;
  return "";
}

std::string read_enumeration(const Node& node, void* value, const Type& type) {
  std::vector<std::string_view> names;
  for (const EnumName& entry : type.names) {
    if (entry.name == node.text) {
      type.set(value, entry.bits);
      return "";
    }
    names.push_back(entry.name);
  }
  // The word most similar to "gpu" is "cpu", but "cuda" is meant.
  const bool gpu = lower_case(node.text) == "gpu" && std::ranges::find(names, "cuda") != names.end();
  const std::string_view meant = gpu ? "cuda" : closest(node.text, names);
  return fmt::format("must be one of {}{}", join(names), meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
}

// Returns the message of an internal error: the kind of `type` is not a scalar kind. `where` begins the message.
std::string not_a_scalar(std::string_view where, const Type& type) {
  return base::cat(where, " the kind of a type is ", static_cast<int>(type.kind), "; expected a scalar kind");
}

std::string expectation(const Type& type) {
  switch (type.kind) {
    case Kind::boolean:
      return "must be true or false";
    case Kind::integer:
      return "must be an integer";
    case Kind::byte_size:
      return std::string(byte_size_expected);
    case Kind::real:
      return "must be a number";
    case Kind::text:
      return "must be a text";
    case Kind::enumeration:
      break;
    default:
      base::fail_invariant(not_a_scalar("[config]", type));
  }
  std::vector<std::string_view> names;
  for (const EnumName& entry : type.names) names.push_back(entry.name);
  return "must be one of " + join(names);
}

/// True if `text` is so simple that all YAML readers, including read_scalar(), read it as a string without quotes.
bool is_plain_text(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '/'; };
  if (text.empty() || !letter(text[0])) return false;
  if (!std::ranges::all_of(text, [&](char c) { return letter(c) || is_digit(c) || c == '.' || c == '-'; }))
    return false;
  constexpr std::array<std::string_view, 14> words{"true", "false", "yes",  "no",   "on",  "off",      "y",
                                                   "n",    "null",  "none", "auto", "nan", "infinity", "inf"};
  return std::ranges::find(words, lower_case(text)) == words.end();
}

std::string quoted_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out + '"';
}

}  // namespace

std::string read_scalar(const Node& node, void* value, const Type& type) {
  if (type.kind == Kind::text && node.kind == Node::Kind::null)
    // On the command line, the text needs two pairs of quotes, because a shell removes one pair.
    return base::cat("must be a text; write ", node.at.on_command_line() ? "'\"\"'" : "\"\"", " for an empty text");
  if (node.kind != Node::Kind::scalar) return expectation(type);
  switch (type.kind) {
    case Kind::boolean:
      return read_boolean(node, value, type);
    case Kind::integer:
      return read_integer(node, value, type);
    case Kind::byte_size:
      return read_byte_size(node, value, type);
    case Kind::real:
      return read_real(node, value);
    case Kind::enumeration:
      return read_enumeration(node, value, type);
    case Kind::text:
      *static_cast<std::string*>(value) = node.text;
      return "";
    default:
      base::fail_invariant(not_a_scalar("[read_scalar]", type));
  }
}

std::string scalar_text(const void* value, const Type& type) {
  switch (type.kind) {
    case Kind::boolean:
      return type.get(value) != 0 ? "true" : "false";
    case Kind::integer:
      return type.is_signed() ? std::to_string(static_cast<int64_t>(type.get(value))) : std::to_string(type.get(value));
    case Kind::byte_size:
      return byte_size_text(static_cast<int64_t>(type.get(value)));
    case Kind::real: {
      const double real = *static_cast<const double*>(value);
      base::require(std::isfinite(real), "[scalar_text] a number to write is ", real, "; expected a finite number");
      return fmt::format("{}", real);
    }
    case Kind::enumeration: {
      const uint64_t bits = type.get(value);
      const auto entry = std::ranges::find(type.names, bits, &EnumName::bits);
      if (entry == type.names.end()) {
        std::string known;
        for (const EnumName& e : type.names) known += base::cat(known.empty() ? "" : ", ", e.bits, " (", e.name, ")");
        base::fail_invariant(base::cat("[config] enum value ", bits, " has no name in enum_names(); expected ", known));
      }
      return std::string(entry->name);
    }
    case Kind::text: {
      const std::string& text = *static_cast<const std::string*>(value);
      return is_plain_text(text) ? text : quoted_text(text);
    }
    default:
      base::fail_invariant(not_a_scalar("[scalar_text]", type));
  }
}

long double magnitude(const void* value, const Type& type) {
  switch (type.kind) {
    case Kind::integer:
    case Kind::byte_size:
      return type.is_signed() ? static_cast<long double>(static_cast<int64_t>(type.get(value)))
                              : static_cast<long double>(type.get(value));
    case Kind::real:
      return *static_cast<const double*>(value);
    case Kind::text:
      return static_cast<long double>(static_cast<const std::string*>(value)->size());
    case Kind::curve:
      return static_cast<const Curve*>(value)->points.front().y;
    default:
      return 0;
  }
}

std::string written_text(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return "nothing";
    case Node::Kind::list:
      return "a list";
    case Node::Kind::map:
      return "a section";
    case Node::Kind::scalar:
      break;
  }
  return node.quoted ? shown(fmt::format("\"{}\"", node.text)) : shown(node.text);
}

}  // namespace hexad::config
