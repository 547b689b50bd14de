// Options that a recipe gives to something chosen by name (a registered layer, router, optimizer or data source): a
// list of names and values, of which the chosen thing asks for its own.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "framework/config/constraints.h"

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

/// Remembers, in all its copies, what was asked for: the rest is a slip of the pen in the recipe. Options are asked for
/// while the thing is made.
class Options {
 public:
  /// `key` is the recipe's ("model.mlp_options"); `owner` who asks ("the layer bottleneck"). Throws Error(usage) for a
  /// name that is given twice.
  Options(std::string key, std::string owner, const std::vector<NumberOption>& given);
  Options(std::string key, std::string owner, const std::vector<TextOption>& given);

  /// The value that the recipe gives, or `fallback`. Throws Error(usage) for a text that is no finite number.
  double number(const std::string& name, double fallback) const;
  std::string text(const std::string& name, const std::string& fallback) const;
  /// Throws Error(usage) for the first option that nobody has asked for, with those that somebody has.
  void require_all_asked() const;

 private:
  struct Given {
    std::string name, text;
    double number;
    bool is_number;
  };
  void give(Given g);
  const Given* find(const std::string& name) const;

  std::string key_, owner_;
  std::vector<Given> given_;
  std::shared_ptr<std::set<std::string>> asked_ = std::make_shared<std::set<std::string>>();
};

}  // namespace hexad::config
