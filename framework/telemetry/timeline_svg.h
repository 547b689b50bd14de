// Pictures of task-graph timelines for reports and documents, as SVG.
#pragma once

#include <string>
#include <string_view>

#include "framework/telemetry/trace_timeline.h"

namespace hexad::telemetry {

/// Returns a picture of both timelines. Tasks with the same row_name() are in one row, with measured tasks above
/// predicted tasks, on a common time axis. Colours show the kinds of tasks. Communication is hatched where the compute
/// lane is idle. Above the rows are `title` and the total of each timeline with its exposed communication. The error of
/// the prediction follows if both timelines have tasks. A task under the pointer shows its name, kind, times and costs.
/// Either timeline may be null or empty.
///
/// The picture is a complete SVG document. It needs no other file, adapts to dark pages, and has its own background.
/// Its styles do not affect other elements of a page.
std::string timeline_svg(std::string_view title, const TimelinePair& timelines);

}  // namespace hexad::telemetry
