// Timelines of a task graph as a picture for reports and documents: SVG text.
#pragma once

#include <string>
#include <string_view>

#include "framework/telemetry/trace_timeline.h"

namespace hexad::telemetry {

/// A row (row_name) for each lane that has tasks, in it what was measured above what was predicted, on one time axis;
/// colours tell the kinds of tasks, and communication is hatched while no computation runs beside it. Above them
/// `title`, both totals with their exposed communication, and the error of the prediction. Pointed at, a task shows its
/// name, kind, times and bytes. Either timeline may be null or empty. The text is a whole SVG document that needs no
/// other file, adapts to dark pages and paints its own background; its styles reach nothing else on a page it is put
/// in.
std::string timeline_svg(std::string_view title, const TimelinePair& timelines);

}  // namespace hexad::telemetry
