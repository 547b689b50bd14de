#include "tools/verify/covering.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "framework/base/philox.h"

namespace hexad::verify {
namespace {

constexpr int drafts = 24;  // number of drafts for each run; more drafts find only slightly more pairs

// Assigns numbers to the features of variants. A feature is an axis longer than one, or a value of an option. Axes come
// first.
class Features {
 public:
  Features() {
    for (const Option& option : options()) {
      first_.push_back(count_);
      count_ += static_cast<int>(option.values.size());
    }
  }

  int count() const { return count_; }
  static bool is_axis(int feature) { return feature < mesh::axis_count; }
  int of(size_t option, int value) const { return first_[option] + value; }

  /// Returns the axes longer than one.
  static std::vector<int> of(const MeshSizes& mesh) {
    std::vector<int> out;
    for (int a = 0; a < mesh::axis_count; ++a)
      if (mesh[static_cast<Axis>(a)] > 1) out.push_back(a);
    return out;
  }
  std::vector<int> of(const Variant& v) const {
    std::vector<int> out = of(v.mesh);
    for (size_t i = 0; i < options().size(); ++i)
      if (options()[i].matters(v.mesh)) out.push_back(of(i, v.choice[i]));
    return out;
  }

  struct Choice {
    size_t option;
    int value;
  };
  Choice choice(int feature) const {
    size_t option = 0;
    while (option + 1 < first_.size() && first_[option + 1] <= feature) ++option;
    return {option, feature - first_[option]};
  }
  std::string name(int feature) const {
    if (is_axis(feature)) return std::string(mesh::name_of(static_cast<Axis>(feature))) + ">1";
    const auto [option, value] = choice(feature);
    return options()[option].name + "=" + options()[option].values[value];
  }

 private:
  std::vector<int> first_;
  int count_ = mesh::axis_count;
};

// A legal mesh, and the legal values of each option on this mesh. All other options have their plain values. An option
// without effect on the mesh has no values.
struct Allowed {
  MeshSizes mesh;
  std::vector<std::vector<int>> values;
};

class Cover {
 public:
  Cover(const Illegal& illegal, uint64_t seed)
      : illegal_(illegal),
        random_(seed, base::Purpose::shuffle, "verify"),
        states_(features_.count() * features_.count(), State::none),
        together_(states_.size(), Together::unknown) {}

  /// Collects the legal meshes and the pairs to cover. Also tests every pair of values that are not plain: determines
  /// whether the two values are legal together, on the first mesh that allows both values.
  void survey(const std::vector<MeshSizes>& meshes) {
    for (const MeshSizes& m : meshes) {
      const std::string reason = illegal_(Variant(m));
      if (!reason.empty()) {
        ++result_.refused[reason];
        continue;
      }
      ++result_.meshes;
      allowed_.push_back({m, allowed_values(m)});
      want_pairs_of(allowed_.back());
      learn_conflicts(allowed_.back());
    }
  }

  Covering run() {
    for (const Allowed& mesh : allowed_) take(best(mesh, {}).value_or(Variant(mesh.mesh)));
    for (int a = 0; a < features_.count(); ++a)
      for (int b = a + 1; b < features_.count(); ++b)
        if (state(a, b) == State::wanted) show(a, b);
    result_.pairs = std::count(states_.begin(), states_.end(), State::shown);
    return std::move(result_);
  }

 private:
  enum class State : uint8_t { none, wanted, shown, impossible };

  enum class Together : uint8_t { unknown, legal, illegal };

  size_t index(int a, int b) const { return std::min(a, b) * features_.count() + std::max(a, b); }
  State& state(int a, int b) { return states_[index(a, b)]; }

  // True if the two values are legal together on `mesh`, with plain values of all other options.
  bool legal_together(const MeshSizes& mesh, const std::vector<Features::Choice>& two) const {
    Variant v(mesh);
    for (const auto& [option, value] : two) v.choice[option] = value;
    return illegal_(v).empty();
  }

  void learn_conflicts(const Allowed& mesh) {
    for (size_t i = 0; i < options().size(); ++i)
      for (int a : mesh.values[i])
        for (size_t j = i + 1; j < options().size(); ++j)
          for (int b : mesh.values[j]) {
            Together& known = together_[index(features_.of(i, a), features_.of(j, b))];
            if (known != Together::unknown || a == 0 || b == 0) continue;
            known = legal_together(mesh.mesh, {{i, a}, {j, b}}) ? Together::legal : Together::illegal;
          }
  }
  bool conflicts(int feature, const std::vector<int>& others) const {
    return std::any_of(others.begin(), others.end(),
                       [&](int other) { return together_[index(feature, other)] == Together::illegal; });
  }

  std::vector<std::vector<int>> allowed_values(const MeshSizes& mesh) const {
    std::vector<std::vector<int>> values(options().size());
    for (size_t i = 0; i < options().size(); ++i) {
      if (!options()[i].matters(mesh)) continue;
      for (int v = 0; v < static_cast<int>(options()[i].values.size()); ++v) {
        Variant variant(mesh);
        variant.choice[i] = v;
        if (v == 0 || illegal_(variant).empty()) values[i].push_back(v);
      }
    }
    return values;
  }

  void want_pairs_of(const Allowed& mesh) {
    for (size_t i = 0; i < options().size(); ++i)
      for (int a : mesh.values[i]) {
        for (int axis : Features::of(mesh.mesh)) state(axis, features_.of(i, a)) = State::wanted;
        for (size_t j = i + 1; j < options().size(); ++j)
          for (int b : mesh.values[j]) state(features_.of(i, a), features_.of(j, b)) = State::wanted;
      }
  }

  int gain(int feature, const std::vector<int>& others) {
    return static_cast<int>(std::count_if(others.begin(), others.end(), [&](int other) {
      return !(Features::is_axis(feature) && Features::is_axis(other)) && state(feature, other) == State::wanted;
    }));
  }

  int gain(const Variant& v) {
    const std::vector<int> all = features_.of(v);
    int twice = 0;
    for (int f : all) twice += gain(f, all);
    return twice / 2;
  }

  uint32_t draw() { return random_.bits(drawn_++); }

  // Drafts a variant with the values in `fixed`. Sets the other options in a random order. Each option gets the value
  // that forms the most missing pairs with the features already chosen (AETG; Cohen et al. 1997). Skips values that are
  // known to conflict with these features.
  Variant draft(const Allowed& mesh, const std::vector<Features::Choice>& fixed) {
    Variant v(mesh.mesh);
    std::vector<int> chosen = Features::of(mesh.mesh);
    std::vector<size_t> order;
    for (size_t i = 0; i < options().size(); ++i) {
      const auto is_fixed = [&](const Features::Choice& c) { return c.option == i; };
      if (std::none_of(fixed.begin(), fixed.end(), is_fixed) && !mesh.values[i].empty()) order.push_back(i);
    }
    for (const auto& [option, value] : fixed) {
      v.choice[option] = value;
      chosen.push_back(features_.of(option, value));
    }
    for (size_t n = order.size(); n > 1; --n) std::swap(order[n - 1], order[draw() % n]);
    for (size_t option : order) {
      std::pair<int, uint32_t> most{-1, 0};
      for (int value : mesh.values[option]) {
        if (value != 0 && conflicts(features_.of(option, value), chosen)) continue;
        const std::pair<int, uint32_t> here{gain(features_.of(option, value), chosen), draw()};
        if (here > most) most = here, v.choice[option] = value;
      }
      chosen.push_back(features_.of(option, v.choice[option]));
    }
    return v;
  }

  /// Returns the legal draft that covers the most missing pairs; nullopt if all drafts are illegal.
  std::optional<Variant> best(const Allowed& mesh, const std::vector<Features::Choice>& fixed) {
    std::vector<std::pair<int, Variant>> all;
    for (int i = 0; i < drafts; ++i) {
      Variant v = draft(mesh, fixed);
      const int shows = gain(v);
      all.emplace_back(shows, std::move(v));
    }
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (size_t i = 0; i < all.size(); ++i)
      if (i == 0 || !(all[i].second == all[i - 1].second))
        if (illegal_(all[i].second).empty()) return all[i].second;
    return {};
  }

  void take(const Variant& v) {
    const std::vector<int> all = features_.of(v);
    for (size_t i = 0; i < all.size(); ++i)
      for (size_t j = i + 1; j < all.size(); ++j)
        if (!Features::is_axis(all[j])) state(all[i], all[j]) = State::shown;
    result_.runs.push_back(v);
  }

  // Adds a run for the pair of features a and b, on the mesh where the run covers the most missing pairs. Records the
  // pair as impossible if no legal run with this pair is found.
  void show(int a, int b) {
    std::vector<Features::Choice> fixed;
    for (int f : {a, b})
      if (!Features::is_axis(f)) fixed.push_back(features_.choice(f));
    std::optional<Variant> most;
    for (const Allowed& mesh : allowed_) {
      if (Features::is_axis(a) && mesh.mesh[static_cast<Axis>(a)] == 1) continue;
      const bool allows = std::all_of(fixed.begin(), fixed.end(), [&](const Features::Choice& c) {
        return std::count(mesh.values[c.option].begin(), mesh.values[c.option].end(), c.value) > 0;
      });
      if (!allows || !legal_together(mesh.mesh, fixed)) continue;
      const auto found = best(mesh, fixed);
      if (found && (!most || gain(*found) > gain(*most))) most = found;
    }
    if (most) return take(*most);
    state(a, b) = State::impossible;
    result_.impossible.push_back(features_.name(b) + " with " + features_.name(a));
  }

  const Illegal& illegal_;
  base::Philox random_;
  uint64_t drawn_ = 0;
  Features features_;
  std::vector<State> states_;
  std::vector<Together> together_;
  std::vector<Allowed> allowed_;
  Covering result_;
};

}  // namespace

Covering cover(const std::vector<MeshSizes>& meshes, const Illegal& illegal, uint64_t seed) {
  Cover cover(illegal, seed);
  cover.survey(meshes);
  return cover.run();
}

}  // namespace hexad::verify
