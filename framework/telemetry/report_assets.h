// The text files of assets/. They are embedded at build time (see embed_text.cmake), because the program is a single
// file.
#pragma once

#include <string_view>

namespace hexad::telemetry {

extern const std::string_view report_page;        // assets/report.html; each {{name}} in it is replaced
extern const std::string_view report_style;       // assets/report.css
extern const std::string_view report_toolbar;     // assets/toolbar.html: chart settings, for both pages
extern const std::string_view report_script;      // assets/heatmap.js, charts.js and report.js
extern const std::string_view comparison_page;    // assets/comparison.html
extern const std::string_view comparison_script;  // assets/charts.js and comparison.js

}  // namespace hexad::telemetry
