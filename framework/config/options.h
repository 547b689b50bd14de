// Options that a recipe gives to a registered layer, router, optimizer or data source, as a list of names and values.
// The registered object declares the names that it reads.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "framework/config/constraints.h"
#include "framework/config/problems.h"

namespace hexad::config {

struct NumberOption {
  std::string name;
  double value = 0;

  template <class V>
  void fields(V& v) {
    v("name", name, "name of the option", non_empty());
    v("value", value, "value of the option");
  }
};

struct TextOption {
  std::string name, value;

  template <class V>
  void fields(V& v) {
    v("name", name, "name of the option", non_empty());
    v("value", value, "value of the option, a text or a number");
  }
};

/// Names of the options that a registered object reads. A recipe with any other option is rejected.
using OptionNames = std::vector<std::string>;

/// Recipe key that contains the options ("model.mlp_options"), and the object that declares them ("the layer
/// bottleneck").
struct OptionsOwner {
  std::string key, name;
};

/// Adds a problem for each option of `given` whose name repeats an earlier name or is not in `declared`. `given` is the
/// value of the key `owner.key`.
void check_options(const OptionsOwner& owner, const OptionNames& declared, const std::vector<NumberOption>& given,
                   Problems& problems);
void check_options(const OptionsOwner& owner, const OptionNames& declared, const std::vector<TextOption>& given,
                   Problems& problems);

/// Values that a recipe gives to the declared options.
class Options {
 public:
  /// Checks the names of the options. Throws Error(usage) with the first problem that check_options() would report.
  Options(OptionsOwner owner, OptionNames declared, const std::vector<NumberOption>& given);
  Options(OptionsOwner owner, OptionNames declared, const std::vector<TextOption>& given);

  /// Returns the value in the recipe, or `fallback` if there is none. Throws std::logic_error if the owner has not
  /// declared the name. In addition, number() throws Error(usage) if the value in the recipe is not a finite number.
  double number(const std::string& name, double fallback) const;
  std::string text(const std::string& name, const std::string& fallback) const;

 private:
  struct Given {
    std::string name, text;
    double number;
    bool is_number;
  };
  void require_legal() const;
  const Given* find(const std::string& name) const;

  OptionsOwner owner_;
  OptionNames declared_;
  std::vector<Given> given_;
};

}  // namespace hexad::config
