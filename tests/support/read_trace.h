// Reader of trace files (JSON compressed with gzip).
#pragma once

#include <zlib.h>

#include <nlohmann/json.hpp>
#include <string>

namespace hexad::tests {

inline nlohmann::json read_trace(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  std::string text, part(1 << 16, '\0');
  for (int n; (n = gzread(file, part.data(), static_cast<unsigned>(part.size()))) > 0;) text.append(part, 0, n);
  gzclose(file);
  return nlohmann::json::parse(text);
}

}  // namespace hexad::tests
