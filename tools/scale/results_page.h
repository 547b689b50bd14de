// Page with the results of an experiment: tables and pictures in one file that needs no network and no scripts.
#pragma once

#include <string>

#include "tools/scale/results.h"

namespace hexad::scale {

/// Returns the HTML page. The page has a picture of the measured and predicted step times, and the table of points. The
/// exposed shares by class of traffic, the parts and losses of each step, and the table in Markdown follow.
std::string results_page(const Results& results);

/// Returns an SVG of the step times over the ranks. The x axis is the first axis with several values if all points have
/// the same number of ranks. Lines connect points whose other values are equal. Bars show the smallest and largest
/// median of a run. Dashed lines show the prediction. Returns an empty text if there are no rows.
std::string step_time_picture(const Results& results);

}  // namespace hexad::scale
