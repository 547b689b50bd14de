// Schedules of all kinds in many sizes, for tests of general properties.
#pragma once

#include <vector>

#include "parallel/pp/schedule.h"

namespace hexad::pp {

inline std::vector<PipelineKind> all_kinds() {
  std::vector<PipelineKind> kinds;
  for (const auto& [kind, name] : enum_names(PipelineKind{})) kinds.push_back(kind);
  return kinds;
}

/// Returns configurations of every kind. Kinds with a choice of virtual stages appear with one, two and three virtual
/// stages. Kinds that support pairs appear with and without pairs.
inline std::vector<PipelineConfig> all_configs() {
  std::vector<PipelineConfig> configs;
  for (const PipelineKind kind : all_kinds())
    for (int64_t virtual_stages = 1; virtual_stages <= (kind == PipelineKind::interleaved ? 3 : 1); ++virtual_stages)
      configs.push_back({.kind = kind, .virtual_stages = virtual_stages, .split = {}});
  for (const PipelineKind kind : {PipelineKind::one_f_one_b, PipelineKind::dualpipe_v})
    configs.push_back({.kind = kind, .split = {}, .overlap = Overlap::micro_batches});
  return configs;
}

template <class F>
void for_all_schedules(int max_ranks, int max_micro_batches, F&& f) {
  for (const PipelineConfig& config : all_configs())
    for (int ranks = 1; ranks <= max_ranks; ++ranks)
      for (int micro = 1; micro <= max_micro_batches; ++micro) f(make_schedule(config, ranks, micro));
}

}  // namespace hexad::pp
