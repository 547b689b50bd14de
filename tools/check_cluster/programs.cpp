#include "tools/check_cluster/programs.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include "framework/data/digest.h"
#include "tools/train/process/version.h"

namespace hexad::check_cluster {
namespace {

// The line "hexad VERSION DIGEST", followed by zeros.
using ProgramLine = std::array<int64_t, 16>;
constexpr std::string_view line_start = "hexad ";
constexpr size_t most_version = 80, most_digest = 32;  // in characters
static_assert(line_start.size() + most_version + 1 + most_digest < sizeof(ProgramLine));

ProgramLine program_line(const Program& program) {
  const std::string text =
      base::cat(line_start, program.version.substr(0, most_version), ' ', program.digest.substr(0, most_digest));
  ProgramLine line{};
  std::memcpy(line.data(), text.data(), text.size());
  return line;
}

Program program_from(const int64_t* line) {
  std::string text(sizeof(ProgramLine), '\0');
  std::memcpy(text.data(), line, text.size());
  text.resize(std::min(text.find('\0'), text.size()));
  const size_t space = text.rfind(' ');
  if (!text.starts_with(line_start) || space < line_start.size()) return {.version = "an older one", .digest = {}};
  return {.version = text.substr(line_start.size(), space - line_start.size()), .digest = text.substr(space + 1)};
}

}  // namespace

Program own_program() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  data::StreamingDigest digest;
  std::vector<char> piece(1 << 20);
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0)
    digest.add(piece.data(), file.gcount());
  return {.version = std::string(train::version), .digest = digest.value().to_string()};
}

std::vector<Finding> compare_programs(const Program& mine, const comm::ProcessGroup& world, device::Device device) {
  const ProgramLine line = program_line(mine);
  const std::vector<int64_t> all = world.all_gather_values(line, device);
  std::vector<RankReport> ranks(world.size());
  for (int rank = 0; rank < world.size(); ++rank) {
    const Program program = program_from(all.data() + static_cast<size_t>(rank) * line.size());
    ranks[rank].rank = rank;
    ranks[rank].facts.version = program.version, ranks[rank].facts.binary = program.digest;
  }
  std::vector<Finding> findings;
  judge_programs(findings, ranks);
  return findings;
}

}  // namespace hexad::check_cluster
