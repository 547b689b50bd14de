// Programs of the ranks, compared before anything is measured.
#pragma once

#include <string>
#include <vector>

#include "parallel/comm/process_group.h"
#include "tools/check_cluster/findings.h"

namespace hexad::check_cluster {

/// Program of a rank.
struct Program {
  std::string version{};  // version of hexad
  std::string digest{};   // digest of the program's file
};

/// Returns the program of this process. Reads its file.
Program own_program();

/// Returns a finding if the ranks have different programs; otherwise an empty list. The result is the same on all
/// ranks.
///
/// Must be the first collective of a check. Each rank contributes exactly 128 bytes, whatever its version. Programs of
/// different versions can therefore be compared even if their later messages differ. Older programs, which do not have
/// this function, begin with a collective of the same kind and size. The different contents of that collective identify
/// these programs. Collective.
std::vector<Finding> compare_programs(const Program& mine, const comm::ProcessGroup& world, device::Device device);

}  // namespace hexad::check_cluster
