// Classes of communication in reports: their order, colours and meaning.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace hexad::telemetry {

/// Returns the classes in the order of all reports. Unknown classes come last.
std::vector<std::string> in_traffic_order(const std::set<std::string>& classes);

/// Returns an HTML list that gives each class its colour in the charts and says what it sends; empty for no class. The
/// scripts of the pages use the same colours (trafficColour in charts.js).
std::string traffic_legend(const std::set<std::string>& classes);

}  // namespace hexad::telemetry
