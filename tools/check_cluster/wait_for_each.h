// Waiting for several conditions at the same time.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace hexad::check_cluster {

/// Calls holds(i) repeatedly for each i < `count`, until condition i has held. Ends once all conditions have held, or
/// after `patience` seconds. A condition that does not hold at the first check is checked again even after `patience`
/// seconds. Checks of other conditions may have used up this time. Returns the seconds until each condition held; 0 if
/// it held at the first check, nullopt if it did not hold.
std::vector<std::optional<double>> wait_for_each(size_t count, double patience,
                                                 const std::function<bool(size_t)>& holds);

}  // namespace hexad::check_cluster
