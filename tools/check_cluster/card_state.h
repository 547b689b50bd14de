// State of a GPU, from NVIDIA's management library (NVML), which belongs to the driver.
#pragma once

#include <string>

#include "tools/check_cluster/figures.h"

namespace hexad::check_cluster {

/// Returns the state of the GPU with the identifier `id` (RankFacts::card_id). Values are unknown if NVML cannot be
/// loaded, does not find the GPU, or does not report these values. `library` is the file name of NVML.
CardState read_card_state(const std::string& id, const std::string& library = "libnvidia-ml.so.1");

}  // namespace hexad::check_cluster
