#include "tools/hexad/mesh_views.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/base/counted.h"
#include "tools/plan/rank_picture.h"

namespace hexad::app {
namespace {

using mesh::Axis;
using mesh::name_of;

// Sizes of the picture in pixels.
constexpr int cell_width = 38, cell_height = plan::RankPicture::cell_height, frame_gap = 8, row_gap = 8;
constexpr int margin = 20, row_label = 56, heading = 40, between = 48, title = 44, stage_label = 28, footer = 44;
constexpr int least_width = 600;

// Axes of one of the two tables. The table has a row for each coordinate along `row`. A row has a frame for each
// coordinate along `middle`. A frame has a cell for each coordinate along `inner`.
struct View {
  std::string_view name, title;
  Axis row, middle, inner;
};
constexpr View dense{"dense", "dense layers", Axis::dp, Axis::cp, Axis::tp};
constexpr View expert{"expert", "experts", Axis::edp, Axis::ep, Axis::etp};

class Picture {
 public:
  explicit Picture(const mesh::Layout& layout) : layout_(layout) {}

  std::string draw() {
    const int stages = layout_.size(Axis::pp);
    const int width = std::max(least_width, 2 * margin + table_width(dense) + between + table_width(expert));
    const int stage_height =
        (stages > 1 ? stage_label : 0) + heading + std::max(table_height(dense), table_height(expert));
    const int height = title + stages * (stage_height + row_gap) + footer;
    picture_.text("start title", margin, 28, layout_.to_string());
    int top = title;
    for (int stage = 0; stage < stages; ++stage) {
      int y = top;
      if (stages > 1) picture_.text("start", margin, (y += stage_label) - 8, fmt::format("pipeline stage {}", stage));
      table(dense, stage, margin, y);
      table(expert, stage, margin + table_width(dense) + between, y);
      top += stage_height + row_gap;
    }
    picture_.text("start small", margin, top + 14,
                  "Ranks of one colour share micro-batches (one dp row). Frames hold tp or etp neighbours.");
    picture_.text("start small", margin, top + 31,
                  "A row of the experts' view holds every expert once; edp rows hold copies.");
    return picture_.document(fmt::format("mesh of {}: {}", base::counted(layout_.world(), "rank"), layout_.to_string()),
                             width, height);
  }

 private:
  int frame_width(const View& v) const { return layout_.size(v.inner) * cell_width; }
  int table_width(const View& v) const {
    return row_label + layout_.size(v.middle) * (frame_width(v) + frame_gap) - frame_gap;
  }
  int table_height(const View& v) const { return layout_.size(v.row) * (cell_height + row_gap) - row_gap; }

  // These functions return the top of a row and the left edge of a frame, in pixels. The table's rows begin at (x, y).
  static int row_top(int y, int row) { return y + row * (cell_height + row_gap); }
  int frame_left(const View& v, int x, int middle) const { return x + middle * (frame_width(v) + frame_gap); }

  void table(const View& v, int stage, int left, int top) {
    picture_.open(v.name);
    const int x = left + row_label, y = top + heading;
    picture_.text("start", left, top + 14, v.title);
    for (int m = 0; m < layout_.size(v.middle); ++m)
      picture_.text("small", frame_left(v, x, m) + frame_width(v) / 2, top + 32,
                    fmt::format("{} {}", name_of(v.middle), m));
    for (int r = 0; r < layout_.size(v.row); ++r)
      picture_.text("end small", x - 10, row_top(y, r) + 20, fmt::format("{} {}", name_of(v.row), r));
    for (int rank = 0; rank < layout_.world(); ++rank)
      if (layout_.coordinate(Axis::pp, rank) == stage) cell(v, rank, x, y);
    for (int r = 0; r < layout_.size(v.row); ++r)
      for (int m = 0; m < layout_.size(v.middle); ++m)
        picture_.frame({frame_left(v, x, m), row_top(y, r), frame_width(v), cell_height});
    picture_.close();
  }

  void cell(const View& v, int rank, int x, int y) {
    const auto at = [&](Axis axis) { return layout_.coordinate(axis, rank); };
    const int left = frame_left(v, x, at(v.middle)) + at(v.inner) * cell_width, top = row_top(y, at(v.row));
    picture_.rank(at(Axis::dp), rank,
                  fmt::format("{} {}, {} {}, {} {}", name_of(v.row), at(v.row), name_of(v.middle), at(v.middle),
                              name_of(v.inner), at(v.inner)),
                  {left, top, cell_width, cell_height});
  }

  const mesh::Layout& layout_;
  plan::RankPicture picture_;
};

}  // namespace

std::string mesh_svg(const mesh::Layout& layout) { return Picture(layout).draw(); }

}  // namespace hexad::app
