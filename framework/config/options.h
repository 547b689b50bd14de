// Options that a recipe gives to something chosen by name (a registered layer, router, optimizer or data source): a
// list of names and values. The chosen thing declares the names that it reads.
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

/// Names of the options that a registered thing reads. A recipe that gives another option is refused.
using OptionNames = std::vector<std::string>;

/// The recipe's key of the options ("model.mlp_options"), and the thing that declares them ("the layer bottleneck").
struct OptionsOwner {
  std::string key, name;
};

/// Adds a problem for each option of `given` that is given twice or is not among the `declared` ones. `given` was read
/// from owner.key.
void check_options(const OptionsOwner& owner, const OptionNames& declared, const std::vector<NumberOption>& given,
                   Problems& problems);
void check_options(const OptionsOwner& owner, const OptionNames& declared, const std::vector<TextOption>& given,
                   Problems& problems);

/// Values of the declared options that a recipe gives. Immutable.
class Options {
 public:
  /// Throws Error(usage) for what check_options() would report first.
  Options(OptionsOwner owner, OptionNames declared, const std::vector<NumberOption>& given);
  Options(OptionsOwner owner, OptionNames declared, const std::vector<TextOption>& given);

  /// The value that the recipe gives, or `fallback`. Throws Error(usage) for a text that is no finite number, and
  /// std::logic_error for a name that the owner does not declare.
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
