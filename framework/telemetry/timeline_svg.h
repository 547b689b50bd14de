// Timelines of a task graph as a picture for reports and documents: SVG text.
#pragma once

#include <string>
#include <string_view>

#include "framework/telemetry/trace_timeline.h"

namespace hexad::telemetry {

/// Returns a picture of both timelines. Each lane with tasks has a row (row_name()), with the measured tasks above the
/// predicted ones, on one time axis. Colours show the kinds of tasks. Communication without simultaneous computation is
/// hatched. Above the rows are `title`, both totals with their exposed communication, and the error of the prediction.
/// A task under the pointer shows its name, kind, times and bytes. Either timeline may be null or empty.
/// The text is a complete SVG document. It needs no other file, adapts to dark pages and paints its own background. Its
/// styles do not affect other elements of a page.
std::string timeline_svg(std::string_view title, const TimelinePair& timelines);

}  // namespace hexad::telemetry
