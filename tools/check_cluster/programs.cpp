#include "tools/check_cluster/programs.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "framework/base/error.h"
#include "tools/train/process/program_identity.h"
#include "tools/train/process/version.h"

namespace hexad::check_cluster {
namespace {

// The line "hexad VERSION DIGEST", followed by zeros.
using ProgramLine = std::array<int64_t, 16>;
constexpr std::string_view line_start = "hexad ";
constexpr size_t max_version = 80, max_digest = 32;  // lengths in characters
static_assert(line_start.size() + max_version + 1 + max_digest < sizeof(ProgramLine));

ProgramLine program_line(const Program& program) {
  const std::string text =
      base::cat(line_start, program.version.substr(0, max_version), ' ', program.digest.substr(0, max_digest));
  ProgramLine line{};
  std::memcpy(line.data(), text.data(), text.size());
  return line;
}

Program program_from(const int64_t* line) {
  std::string text(sizeof(ProgramLine), '\0');
  std::memcpy(text.data(), line, text.size());
  text.resize(std::min(text.find('\0'), text.size()));
  const size_t space = text.rfind(' ');
  if (!text.starts_with(line_start) || space < line_start.size()) return {.version = "an older version", .digest = {}};
  return {.version = text.substr(line_start.size(), space - line_start.size()), .digest = text.substr(space + 1)};
}

}  // namespace

Program own_program() { return {.version = std::string(train::version), .digest = train::digest_of_program()}; }

std::vector<Finding> compare_programs(const Program& mine, const comm::ProcessGroup& world, device::Device device) {
  const ProgramLine line = program_line(mine);
  const std::vector<int64_t> all = world.all_gather_values(line, device);
  std::vector<RankReport> ranks(world.size());
  for (int rank = 0; rank < world.size(); ++rank) {
    const Program program = program_from(all.data() + rank * line.size());
    ranks[rank].rank = rank;
    ranks[rank].facts.version = program.version, ranks[rank].facts.binary = program.digest;
  }
  std::vector<Finding> findings;
  judge_programs(findings, ranks);
  return findings;
}

}  // namespace hexad::check_cluster
