#include "parallel/mesh/axes.h"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "framework/base/ordinal.h"

namespace hexad::mesh {
namespace {

using base::cat;

std::string joined(std::span<const Axis> axes) {
  std::string text;
  for (const Axis axis : axes) text += cat(text.empty() ? "" : "-", name_of(axis));
  return text;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('-', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::optional<Axis> axis_named(std::string_view word) {
  for (const Axis axis : AxisOrder::usual)
    if (name_of(axis) == word) return axis;
  return {};
}

bool contains(std::span<const Axis> axes, Axis axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

// Returns `word` in quotes if it is short and consists of letters, digits and underscores. Otherwise, returns a
// description, because the word may not be safe to print.
std::string shown(std::string_view word) {
  const bool plain = !word.empty() && word.size() <= 12 && std::ranges::all_of(word, [](char c) {
    return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') || c == '_';
  });
  return plain ? cat("'", word, "'") : word.empty() ? "without a name" : "of another name";
}

// Reads the words of an order and collects the errors in the order.
class OrderReader {
 public:
  explicit OrderReader(std::string_view text) {
    for (const std::string_view word : words_of(text)) {
      const std::optional<Axis> axis = axis_named(word);
      if (axis && !contains(axes_, *axis)) {
        axes_.push_back(*axis);
        slots_.push_back(*axis);
      } else {
        slots_.emplace_back();  // a missing axis may be inserted here
        note(axis ? cat("names ", word, " twice") : cat("has an axis ", shown(word)));
      }
    }
    for (const Axis axis : AxisOrder::usual)
      if (!contains(axes_, axis)) note(cat("lacks ", name_of(axis)));
  }

  const std::string& wrong() const { return wrong_; }
  const std::vector<Axis>& axes() const { return axes_; }

  /// Returns a legal order. Missing axes replace wrong words. A missing axis is inserted after its predecessor in the
  /// usual order if there are no wrong words left.
  std::vector<Axis> nearest() const {
    std::vector<std::optional<Axis>> slots = slots_;
    for (const Axis axis : AxisOrder::usual) {
      if (contains(axes_, axis)) continue;
      const auto free = std::find(slots.begin(), slots.end(), std::nullopt);
      if (free != slots.end())
        *free = axis;
      else
        slots.insert(after_predecessor(slots, axis), axis);
    }
    std::vector<Axis> order;
    for (const std::optional<Axis>& slot : slots)
      if (slot) order.push_back(*slot);
    return order;
  }

 private:
  using Slots = std::vector<std::optional<Axis>>;

  static Slots::const_iterator after_predecessor(const Slots& slots, Axis axis) {
    const auto self = std::find(AxisOrder::usual.begin(), AxisOrder::usual.end(), axis);
    if (self == AxisOrder::usual.begin()) return slots.begin();
    return std::find(slots.begin(), slots.end(), std::optional(*(self - 1))) + 1;
  }

  void note(const std::string& what) { wrong_ += (wrong_.empty() ? "" : ", ") + what; }

  std::vector<Axis> axes_;
  Slots slots_;
  std::string wrong_;
};

}  // namespace

std::string_view name_of(Axis axis) {
  constexpr std::string_view names[] = {"pp", "dp", "cp", "tp", "edp", "ep", "etp"};
  return names[base::ordinal(axis)];
}

AxisOrder::AxisOrder(std::string_view text) {
  const OrderReader reader(text);
  if (!reader.wrong().empty())
    throw IllegalLayout(
        "parallel.order", std::string(text),
        cat(reader.wrong(), "; expected tp, cp, ep, dp and pp once each, joined by '-'; the nearest legal order is ",
            joined(reader.nearest())));
  std::copy(reader.axes().begin(), reader.axes().end(), axes_.begin());
}

size_t AxisOrder::place_of(Axis axis) const { return std::find(axes_.begin(), axes_.end(), axis) - axes_.begin(); }

AxisOrder AxisOrder::with(Axis axis, size_t place) const {
  std::vector<Axis> rest;
  std::copy_if(axes_.begin(), axes_.end(), std::back_inserter(rest), [&](Axis a) { return a != axis; });
  rest.insert(rest.begin() + static_cast<std::ptrdiff_t>(place), axis);
  Axes axes{};
  std::copy(rest.begin(), rest.end(), axes.begin());
  return AxisOrder(axes);
}

std::string AxisOrder::to_string() const { return joined(axes_); }

}  // namespace hexad::mesh
