// Common parts of pictures whose cells are ranks.
#pragma once

#include <string>
#include <string_view>

namespace hexad::plan {

/// SVG text of a picture with ranks as cells. Lengths are in pixels. The position of a box is its top left corner. The
/// position of a text is the left end, middle or right end of its base line. All words are escaped. The picture needs
/// no fonts or other files. It adapts to dark pages and paints its own background, so it is readable on any page.
class RankPicture {
 public:
  static constexpr int cell_height = 30;
  static constexpr int colours = 8;  // number of colours of cells

  struct Box {
    int x, y, width, height;
  };

  /// Opens a group of elements with the class `kind`. close() ends the group.
  void open(std::string_view kind);
  void close();
  /// Adds a text. `kind` is a list of classes: start or end (anchors; the default is the middle), title, small.
  void text(std::string_view kind, int x, int y, std::string_view words);
  /// Adds a frame without a fill.
  void frame(const Box& box);
  /// Adds a bracket from `left` to `right` that opens downwards. Its line is at `y`, and its ends are `depth` below the
  /// line.
  void bracket(int left, int right, int y, int depth);
  /// Adds a box with colour number `colour` modulo `colours`.
  void swatch(int colour, const Box& box);
  /// Adds the cell of a rank. Its tooltip shows the rank's number and `about`.
  void rank(int colour, int number, std::string_view about, const Box& box);

  /// Returns the whole document.
  std::string document(std::string_view title, int width, int height) const;

 private:
  std::string out_;
};

}  // namespace hexad::plan
