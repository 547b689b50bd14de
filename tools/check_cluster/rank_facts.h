// Facts about a rank's process: cores, memory, versions, GPU.
#pragma once

#include <string>

#include "tools/check_cluster/figures.h"

namespace hexad::check_cluster {

/// Returns the facts of this process. `host` is the name of its node, `place` the index of the rank on this node.
RankFacts collect_facts(const std::string& host, int place, int threads);

}  // namespace hexad::check_cluster
