#include "tools/plan/plan_picture.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/base/counted.h"
#include "framework/base/units.h"
#include "tools/plan/rank_picture.h"

namespace hexad::plan {
namespace {

using mesh::Axis;

// Lengths in pixels.
constexpr int margin = 20, gap = 12, line = 18, letter = 8, cell_height = RankPicture::cell_height;
constexpr int box_padding = 8, box_heading = 44, least_box = 190, page_width = 1180;
constexpr int bracket_depth = 6, traffic_height = 100, least_run = 76;

// Largest numbers of drawn items.
constexpr size_t max_equal_nodes = 8, max_kinds = 16, max_cells = 64, max_members = 12;
constexpr int max_columns = 8;

// Nodes with the same pipeline stages in the same positions.
struct NodeKind {
  int64_t first, count;
  std::vector<int> stages;  // stage of each rank of a node
};

class Picture {
 public:
  explicit Picture(const PicturedPlan& plan)
      : plan_(plan), cell_width_(12 + letter * static_cast<int>(std::to_string(plan.layout.world() - 1).size())) {}

  std::string draw() {
    words("start title", margin, y_ += line, plan_.title);
    words("start", margin, y_ += line + 4, plan_.layout.to_string());
    words("start small", margin, y_ += line,
          fmt::format("{} per node; the fast link connects {}", base::counted(plan_.ranks_per_node, "rank"),
                      base::counted(plan_.domain, "rank")));
    y_ += gap;
    draw_nodes();
    words("start title", margin, y_ += line + gap, "Bytes that a rank sends in a step, by group");
    if (plan_.traffic.empty()) words("start", margin, y_ += line + 4, "No rank sends anything.");
    y_ += gap;
    for (const GroupBytes& t : plan_.traffic) draw_traffic(t);
    draw_legend();
    return picture_.document(plan_.title, right_ + margin, y_ + margin);
  }

 private:
  int64_t node_of(int rank) const { return rank / plan_.ranks_per_node; }

  void words(std::string_view kind, int x, int y, std::string_view text) {
    picture_.text(kind, x, y, text);
    right_ = std::max(right_, x + letter * static_cast<int>(text.size()));
  }

  void draw_rank(int rank, int x, int y) {
    const auto at = [&](Axis axis) { return plan_.layout.coordinate(axis, rank); };
    picture_.rank(at(Axis::pp), rank,
                  fmt::format("node {}, stage {}, dp {}, cp {}, tp {}, ep {}", node_of(rank), at(Axis::pp),
                              at(Axis::dp), at(Axis::cp), at(Axis::tp), at(Axis::ep)),
                  {x, y, cell_width_, cell_height});
    right_ = std::max(right_, x + cell_width_);
  }

  // Returns the nodes to draw, in order: all, or the first of each kind.
  std::vector<NodeKind> node_kinds() const {
    const int world = plan_.layout.world();
    const int64_t nodes = node_of(world - 1) + 1;
    const bool all = nodes <= static_cast<int64_t>(max_equal_nodes);
    std::map<std::vector<int>, size_t> known;
    std::vector<NodeKind> kinds;
    for (int64_t node = 0; node < nodes; ++node) {
      NodeKind kind{.first = node, .count = 1, .stages = {}};
      for (int64_t r = node * plan_.ranks_per_node; r < std::min<int64_t>(world, (node + 1) * plan_.ranks_per_node);
           ++r)
        kind.stages.push_back(plan_.layout.coordinate(Axis::pp, static_cast<int>(r)));
      const auto [found, added] = known.try_emplace(kind.stages, kinds.size());
      if (all || added)
        kinds.push_back(std::move(kind));
      else
        ++kinds[found->second].count;
    }
    return kinds;
  }

  void draw_nodes() {
    const std::vector<NodeKind> kinds = node_kinds();
    const size_t drawn = std::min(kinds.size(), max_kinds);
    const auto columns = static_cast<int>(std::min<int64_t>(plan_.ranks_per_node, max_columns));
    const int width = std::max(least_box, columns * cell_width_ + 2 * box_padding);
    const int in_a_row = std::max(1, (page_width - margin) / (width + gap));
    const auto cells = static_cast<int>(std::min(max_cells, kinds.front().stages.size()));
    const bool cut = kinds.front().stages.size() > max_cells;
    const int height = box_heading + (cells + columns - 1) / columns * cell_height + box_padding + (cut ? line : 0);
    for (size_t i = 0; i < drawn; ++i) {
      const int column = static_cast<int>(i) % in_a_row;
      if (i > 0 && column == 0) y_ += height + gap;
      draw_node(kinds[i], {margin + column * (width + gap), y_, width, height}, columns);
    }
    y_ += height;
    int64_t others = 0;
    for (size_t i = drawn; i < kinds.size(); ++i) others += kinds[i].count;
    if (others > 0)
      words("start", margin, y_ += line + 4,
            fmt::format("and {} of {} that are not drawn", base::counted(others, "node"),
                        base::counted(std::ssize(kinds) - static_cast<int64_t>(drawn), "more kind")));
  }

  void draw_node(const NodeKind& kind, const RankPicture::Box& box, int columns) {
    picture_.open("node");
    picture_.frame(box);
    right_ = std::max(right_, box.x + box.width);
    const int x = box.x + box_padding;
    words("start", x, box.y + line,
          fmt::format("node {}{}", kind.first, kind.count > 1 ? fmt::format(", x {} nodes", kind.count) : ""));
    const std::set<int> stages(kind.stages.begin(), kind.stages.end());
    words("start small", x, box.y + 2 * line,
          stages.size() > 3 ? fmt::format("{} stages", stages.size())
                            : fmt::format("{} {}", base::plural(std::ssize(stages), "stage"), fmt::join(stages, ", ")));
    const size_t cells = std::min(max_cells, kind.stages.size());
    const auto first = static_cast<int>(kind.first * plan_.ranks_per_node);
    for (int i = 0; i < static_cast<int>(cells); ++i)
      draw_rank(first + i, x + i % columns * cell_width_, box.y + box_heading + i / columns * cell_height);
    if (cells < kind.stages.size())
      words("start small", x, box.y + box.height - box_padding,
            "and " + base::counted(std::ssize(kind.stages) - static_cast<int64_t>(cells), "more rank"));
    picture_.close();
  }

  // Returns the links that carry the bytes: "inside the fast link", "over the network" or "25% of them over the
  // network".
  static std::string link_of(const GroupBytes& t) {
    const double share = t.network / t.sent;
    if (share == 0) return "inside the fast link";
    return share > 0.995 ? "over the network" : fmt::format("{:.2g}% of them over the network", 100 * share);
  }

  void draw_traffic(const GroupBytes& t) {
    picture_.open("traffic");
    const std::string_view of_class = name_of(t.traffic);
    words("start", margin, y_ + line,
          fmt::format("{}{}: {}, {}", t.name, t.name == of_class ? "" : fmt::format(" (class {})", of_class),
                      base::human_bytes(t.sent), link_of(t)));
    // Draws the ranks of one node next to each other, above the node's name.
    const int top = y_ + line + gap + bracket_depth, size = static_cast<int>(t.ranks.size());
    const int drawn = std::min(size, static_cast<int>(max_members));
    int x = margin, end = margin;
    for (int i = 0; i < drawn; ++i) {
      const bool begins = i == 0 || node_of(t.ranks[i]) != node_of(t.ranks[i - 1]);
      if (begins) {
        words("start small", x, top + cell_height + line - 2, fmt::format("node {}", node_of(t.ranks[i])));
        end = x + least_run;
      }
      draw_rank(t.ranks[i], x, top);
      x += cell_width_;
      if (i + 1 < drawn && node_of(t.ranks[i + 1]) != node_of(t.ranks[i])) x = std::max(x + gap, end);
    }
    picture_.bracket(margin + cell_width_ / 2, x - cell_width_ / 2, top - bracket_depth - 2, bracket_depth);
    if (drawn < size) words("start", x + gap, top + 20, "and " + base::counted(size - drawn, "more rank"));
    picture_.close();
    y_ += traffic_height;
  }

  void draw_legend() {
    const int stages = plan_.layout.size(Axis::pp), shown = std::min(stages, RankPicture::colours);
    int x = margin;
    y_ += gap;
    for (int s = 0; s < shown; ++s, x += 90) {
      picture_.swatch(s, {x, y_, 14, 12});
      words("start small", x + 19, y_ + 11, fmt::format("stage {}", s));
    }
    if (shown < stages) words("start small", x, y_ + 11, fmt::format("colours repeat after {} stages", shown));
    y_ += line;
    for (const std::string_view text :
         {"Cells are ranks, boxes are nodes. A bracket spans the first group of its kind, in the group's order.",
          "Bytes: sent by a rank in the simulated step, averaged over pipeline stages."})
      words("start small", margin, y_ += line, text);
  }

  const PicturedPlan& plan_;
  const int cell_width_;
  RankPicture picture_;
  int y_ = margin, right_ = 0;  // bottom and right edge of the drawing
};

}  // namespace

std::string plan_picture(const PicturedPlan& plan) { return Picture(plan).draw(); }

}  // namespace hexad::plan
