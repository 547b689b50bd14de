// The text files of assets/, embedded when the program is built (see embed_text.cmake), so that it stays one file.
#pragma once

#include <string_view>

namespace hexad::telemetry {

extern const std::string_view report_page;    // assets/report.html, with {{parts}} to fill in
extern const std::string_view report_style;   // assets/report.css
extern const std::string_view report_script;  // assets/report.js and assets/heatmap.js

}  // namespace hexad::telemetry
