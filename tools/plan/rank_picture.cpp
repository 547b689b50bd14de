#include "tools/plan/rank_picture.h"

#include <fmt/format.h>

#include "framework/telemetry/page.h"

namespace hexad::plan {
namespace {

using telemetry::escaped;

constexpr std::string_view style = R"(<style>
  text { font: 13px sans-serif; fill: #24292f; text-anchor: middle; }
  .start { text-anchor: start; } .end { text-anchor: end; }
  .title { font-size: 15px; font-weight: bold; } .small { font-size: 12px; fill: #57606a; }
  .page { fill: #ffffff; } .frame { fill: none; stroke: #24292f; stroke-width: 1.5; }
  .rank text { fill: #1b1f24; }
  .c0 rect { fill: #9ecbf0; } .c1 rect { fill: #f6c177; } .c2 rect { fill: #9fdcb4; } .c3 rect { fill: #f0a8c0; }
  .c4 rect { fill: #cdb8f2; } .c5 rect { fill: #e8dc7a; } .c6 rect { fill: #8fd8d8; } .c7 rect { fill: #d3c1ae; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .small { fill: #9aa4ae; } .page { fill: #0d1117; } .frame { stroke: #c9d1d9; }
  }
</style>
)";

std::string place(const RankPicture::Box& box) {
  return fmt::format("x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", box.x, box.y, box.width, box.height);
}

}  // namespace

void RankPicture::open(std::string_view kind) { out_ += fmt::format("<g class=\"{}\">\n", kind); }
void RankPicture::close() { out_ += "</g>\n"; }

void RankPicture::text(std::string_view kind, int x, int y, std::string_view words) {
  out_ += fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>\n", kind, x, y, escaped(words));
}

void RankPicture::frame(const Box& box) { out_ += fmt::format("<rect class=\"frame\" {} rx=\"4\"/>\n", place(box)); }

void RankPicture::bracket(int left, int right, int y, int depth) {
  out_ += fmt::format("<path class=\"frame\" d=\"M{0} {3} V{2} H{1} V{3}\"/>\n", left, right, y, y + depth);
}

void RankPicture::swatch(int colour, const Box& box) {
  out_ += fmt::format("<g class=\"c{}\"><rect {}/></g>\n", colour % colours, place(box));
}

void RankPicture::rank(int colour, int number, std::string_view about, const Box& box) {
  out_ +=
      fmt::format("<g class=\"rank c{}\"><title>rank {}: {}</title><rect {}/><text x=\"{}\" y=\"{}\">{}</text></g>\n",
                  colour % colours, number, escaped(about), place(box), box.x + box.width / 2, box.y + 20, number);
}

std::string RankPicture::document(std::string_view title, int width, int height) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\">\n"
      "<title>{2}</title>\n{3}<rect class=\"page\" width=\"{0}\" height=\"{1}\" rx=\"6\"/>\n{4}</svg>\n",
      width, height, escaped(title), style, out_);
}

}  // namespace hexad::plan
