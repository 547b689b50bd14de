// Classes of traffic in reports: their order, colours and meaning.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace hexad::telemetry {

/// Returns the classes in the order that all reports use. Unknown classes come last.
std::vector<std::string> in_traffic_order(const std::set<std::string>& classes);

/// Returns an HTML list of the classes, with the chart colour of each class and a description of its data; empty if
/// there are no classes. The scripts of the pages use the same colours (trafficColour in charts.js).
std::string traffic_legend(const std::set<std::string>& classes);

}  // namespace hexad::telemetry
