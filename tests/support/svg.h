// Checks of SVG pictures.
#pragma once

#include <regex>
#include <string>
#include <vector>

namespace hexad::tests {

/// Returns the number of occurrences of `what` in the text. Occurrences do not overlap.
inline int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

/// Returns a description of the XML's first flaw, or an empty text. Flaws are tags that do not nest or are not closed,
/// text after the root, a bare & or <, and control characters.
inline std::string flaw(const std::string& xml) {
  static const std::regex tag(R"(^<(/?)([A-Za-z]+)((?:\s+[A-Za-z0-9:-]+="[^"<&]*")*)\s*(/?)>)");
  static const std::regex entity("^&(amp|lt|gt|quot);");
  std::vector<std::string> open;
  for (size_t at = 0; at < xml.size();) {
    std::smatch m;
    const std::string rest = xml.substr(at, 2000);
    if (xml[at] == '<') {
      if (!std::regex_search(rest, m, tag)) return "not a tag: " + rest.substr(0, 60);
      if (m[1].length() > 0) {
        if (open.empty() || open.back() != m[2])
          return "closes a tag that is not the innermost open one: " + m[2].str();
        open.pop_back();
      } else if (m[4].length() == 0) {
        open.push_back(m[2]);
      }
      at += m.length();
      if (open.empty()) return xml.substr(at) == "\n" ? "" : "text after the root";
      continue;
    }
    if (xml[at] == '&' && !std::regex_search(rest, m, entity)) return "bare &: " + rest.substr(0, 60);
    if (static_cast<unsigned char>(xml[at]) < 0x20 && xml[at] != '\n') return "a control character";
    ++at;
  }
  return "not closed: " + (open.empty() ? "everything" : open.back());
}

}  // namespace hexad::tests
