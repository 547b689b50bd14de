# Usage: cmake -DOUTPUT=report_assets.cpp -DASSETS=<folder> -DCHART_JS=<file or empty> -P embed_text.cmake
# Writes the text files of ASSETS and the file CHART_JS to OUTPUT, as raw string literals.
function(literal out)
  set(text "")
  foreach(file ${ARGN})
    file(READ ${file} part)
    string(APPEND text "${part}")
  endforeach()
  set(${out} "R\"hexad_asset(${text})hexad_asset\"" PARENT_SCOPE)
endfunction()

literal(page ${ASSETS}/report.html)
literal(style ${ASSETS}/report.css)
literal(toolbar ${ASSETS}/toolbar.html)
literal(script ${ASSETS}/heatmap.js ${ASSETS}/charts.js ${ASSETS}/report.js)
literal(comparison ${ASSETS}/comparison.html)
literal(comparison_script ${ASSETS}/charts.js ${ASSETS}/comparison.js)
if(CHART_JS)
  literal(library ${CHART_JS})
else()
  set(library "\"\"")
endif()

file(WRITE ${OUTPUT} "#include \"framework/telemetry/report_assets.h\"

#include \"framework/telemetry/report.h\"

namespace hexad::telemetry {

const std::string_view report_page = ${page};
const std::string_view report_style = ${style};
const std::string_view report_toolbar = ${toolbar};
const std::string_view report_script = ${script};
const std::string_view comparison_page = ${comparison};
const std::string_view comparison_script = ${comparison_script};
std::string_view chart_library() { return ${library}; }

}  // namespace hexad::telemetry
")
