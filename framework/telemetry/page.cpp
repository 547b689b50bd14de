#include "framework/telemetry/page.h"

#include "framework/base/error.h"
#include "framework/base/median.h"
#include "framework/base/utf8.h"

namespace hexad::telemetry {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : base::valid_utf8(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default: {
        const bool control = static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' && c != '\r';
        out += control ? std::string_view("\xef\xbf\xbd") : std::string_view(&c, 1);
      }
    }
  }
  return out;
}

std::string filled(std::string_view page, const std::map<std::string_view, std::string>& parts) {
  std::string out;
  for (;;) {
    const size_t open = page.find("{{");
    out += page.substr(0, open);
    if (open == std::string_view::npos) return out;
    const size_t close = page.find("}}", open);
    base::require(close != std::string_view::npos, "[page] a page has no '}}' after '", page.substr(open, 40),
                  "'; expected {{NAME}}");
    const auto part = parts.find(page.substr(open + 2, close - open - 2));
    if (part == parts.end()) {
      std::string known;
      for (const auto& [name, text] : parts) known += base::cat(known.empty() ? "" : ", ", name);
      base::fail_invariant(
          base::cat("[page] a page has the part ", page.substr(open, close + 2 - open), "; expected one of: ", known));
    }
    out += part->second;
    page.remove_prefix(close + 2);
  }
}

double median(const std::vector<StepMetrics>& steps, double StepMetrics::*member) {
  std::vector<double> values;
  for (const auto& s : steps) values.push_back(s.*member);
  return base::median(std::move(values));
}

void require_charts(std::string_view charts, const std::string& output) {
  if (charts.empty())
    base::fail(base::ExitCode::usage, "cannot write ", output,
               ": this program was built without Chart.js; install it (Debian: libjs-chart.js) and build again");
  base::require(
      charts.find("</script") == std::string_view::npos,
      "[report] the chart library contains </script, which would end the library's <script> element; expected "
      "a build of Chart.js without this text");
}

}  // namespace hexad::telemetry
