#include "tools/check_cluster/folder_file.h"

#include "framework/base/error.h"

namespace hexad::check_cluster {
namespace {

constexpr size_t least_file_bytes = 1 << 20;

std::string line_of(int rank, int version) { return base::cat("rank ", rank, ", version ", version, '\n'); }

size_t lines_of(const std::string& line) { return (least_file_bytes + line.size() - 1) / line.size(); }

}  // namespace

std::string contents_of(int rank, int version) {
  const std::string line = line_of(rank, version);
  std::string text;
  for (size_t i = 0, lines = lines_of(line); i < lines; ++i) text += line;
  return text;
}

bool is_contents_of(std::string_view text, int rank, int version) {
  const std::string line = line_of(rank, version);
  if (text.size() != lines_of(line) * line.size()) return false;
  for (; !text.empty(); text.remove_prefix(line.size()))
    if (!text.starts_with(line)) return false;
  return true;
}

}  // namespace hexad::check_cluster
