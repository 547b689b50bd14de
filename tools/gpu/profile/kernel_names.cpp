#include "tools/gpu/profile/kernel_names.h"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>

namespace hexad::gpu_profile {
namespace {

bool of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

void erase_all(std::string& text, std::string_view part) {
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos;) text.erase(at, part.size());
}

/// Removes the parameters: everything from the first '(' outside angle brackets.
std::string_view without_parameters(std::string_view name) {
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (name[i] == '(' && depth == 0) return name.substr(0, i);
  }
  return name;
}

/// Removes scopes: "a::b::c<d::e>" -> "c<e>", "(a::E)1" -> "1", "c<d >" -> "c<d>".
std::string without_scopes(std::string_view name) {
  std::string out;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name.substr(i, 2) == "::") {
      while (!out.empty() && of_word(out.back())) out.pop_back();
      ++i;
    } else if (name.substr(i, 2) == " >") {
      continue;
    } else if (name[i] == ')' && i + 1 < name.size() && (of_word(name[i + 1]) || name[i + 1] == '-')) {
      const size_t open = out.rfind('(');
      out.erase(open == std::string::npos ? out.size() : open);
    } else {
      out += name[i];
    }
  }
  return out;
}

bool digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// Returns the number of characters to skip after the first character of `text`, because their digits are not the
/// length of an identifier:
/// - In a back reference, such as S1A_: all of its characters.
/// - In a literal, such as Li128E: the type and the digits.
///
/// Returns 0 for other texts.
size_t without_length(std::string_view text) {
  size_t n = 1;
  if (text[0] == 'S') {
    while (n < text.size() && (digit(text[n]) || std::isupper(static_cast<unsigned char>(text[n])))) ++n;
    return n < text.size() && text[n] == '_' ? n : 0;
  }
  if (text[0] != 'L' || text.size() < 2 || !std::islower(static_cast<unsigned char>(text[1]))) return 0;
  for (n = 2; n < text.size() && digit(text[n]);) ++n;
  return n - 1;
}

/// Returns the identifiers of a mangled name that the demangler rejects, such as many names of CUTLASS. The function's
/// name comes first. The capitalized identifiers of its template arguments follow in angle brackets.
std::string identifiers(std::string_view mangled) {
  std::string function, types;
  bool arguments = false;
  for (size_t i = 2; i < mangled.size();) {
    const char c = mangled[i];
    if (!digit(c)) {
      arguments |= c == 'I' && !function.empty();
      i += 1 + without_length(mangled.substr(i));
      continue;
    }
    const bool behind_type = mangled[i - 1] == 'E' || mangled[i - 1] == '_';
    size_t length = 0;
    for (; i < mangled.size() && digit(mangled[i]); ++i)
      length = std::min(length * 10 + static_cast<size_t>(mangled[i] - '0'), mangled.size());
    if (behind_type && i < mangled.size() && mangled[i] == 'E') continue;  // skips the value of an enumerator: E1E
    const std::string_view word = mangled.substr(i, length);
    if (!arguments) {
      function = word;
    } else if (!word.empty() && std::isupper(static_cast<unsigned char>(word[0]))) {
      types += (types.empty() ? "" : " ") + std::string(word);
    }
    i += length;
  }
  return types.empty() ? function : function + "<" + types + ">";
}

}  // namespace

std::string demangled(std::string_view name) {
  if (!name.starts_with("_Z"))
    return std::string(name);  // other names are not mangled; the demangler would turn "f" into the type float
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(std::string(name).c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? std::string(text.get()) : identifiers(name);
}

std::string shortened(std::string_view demangled, size_t width) {
  std::string name(demangled);
  erase_all(name, "(anonymous namespace)::");
  if (name.starts_with("void ")) name.erase(0, 5);
  name = without_scopes(without_parameters(name));
  if (name.size() > width) name = name.substr(0, width - 3) + "...";
  return name;
}

std::map<std::string_view, std::string> short_names(std::span<const Operation> operations) {
  std::map<std::string_view, std::string> out;
  std::map<std::string, int> used;
  for (const Operation& o : operations) {
    if (out.contains(o.name)) continue;
    std::string& name = out[o.name];
    name = o.kind == Kind::kernel ? shortened(demangled(o.name)) : std::string(o.name);
    if (const int count = ++used[name]; count > 1) name += " #" + std::to_string(count);
  }
  return out;
}

}  // namespace hexad::gpu_profile
