#include "framework/config/options.h"

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"
#include "framework/base/parsed_number.h"
#include "framework/config/words.h"

namespace hexad::config {

using base::cat;

namespace {

// Returns the problem with the name of option `index`; empty if there is none.
template <class Given>
std::string wrong_name(const OptionsOwner& owner, const OptionNames& declared, const std::vector<Given>& given,
                       size_t index) {
  const std::string& name = given[index].name;
  const auto same = std::ranges::find(given, name, &Given::name) - given.begin();
  if (same != static_cast<std::ptrdiff_t>(index))
    return cat("is given twice, also by ", owner.key, ".", same, "; remove one of them");
  if (std::ranges::find(declared, name) != declared.end()) return "";
  return cat("is not an option of ", owner.name, "; ",
             declared.empty() ? "it has none" : "it has: " + nearest_first(name, declared));
}

template <class Given>
void check_names(const OptionsOwner& owner, const OptionNames& declared, const std::vector<Given>& given,
                 Problems& problems) {
  for (size_t i = 0; i < given.size(); ++i)
    if (const std::string wrong = wrong_name(owner, declared, given, i); !wrong.empty())
      problems.add(cat(owner.key, ".", i, ".name"), wrong);
}

}  // namespace

void check_options(const OptionsOwner& owner, const OptionNames& declared, const std::vector<NumberOption>& given,
                   Problems& problems) {
  check_names(owner, declared, given, problems);
}

void check_options(const OptionsOwner& owner, const OptionNames& declared, const std::vector<TextOption>& given,
                   Problems& problems) {
  check_names(owner, declared, given, problems);
}

Options::Options(OptionsOwner owner, OptionNames declared, const std::vector<NumberOption>& given)
    : owner_(std::move(owner)), declared_(std::move(declared)) {
  for (const NumberOption& o : given) given_.push_back({o.name, cat(o.value), o.value, std::isfinite(o.value)});
  require_legal();
}

Options::Options(OptionsOwner owner, OptionNames declared, const std::vector<TextOption>& given)
    : owner_(std::move(owner)), declared_(std::move(declared)) {
  for (const TextOption& o : given) {
    const auto value = base::parsed_number<double>(o.value);
    given_.push_back({o.name, o.value, value.value_or(0), value && std::isfinite(*value)});
  }
  require_legal();
}

void Options::require_legal() const {
  for (size_t i = 0; i < given_.size(); ++i)
    if (const std::string wrong = wrong_name(owner_, declared_, given_, i); !wrong.empty())
      base::fail(base::ExitCode::usage, owner_.key, ".", i, ".name (", shown(given_[i].name), ") ", wrong);
}

const Options::Given* Options::find(const std::string& name) const {
  base::require(std::ranges::find(declared_, name) != declared_.end(), "[options] ", owner_.name, " reads the option ",
                name, "; expected an option that it declares");
  const auto given = std::ranges::find(given_, name, &Given::name);
  return given == given_.end() ? nullptr : &*given;
}

double Options::number(const std::string& name, double fallback) const {
  const Given* g = find(name);
  if (!g) return fallback;
  if (!g->is_number)
    base::fail(base::ExitCode::usage, owner_.key, ".", g - given_.data(), ".value (", shown(g->text),
               ") must be a finite number, because the option ", name, " of ", owner_.name, " is a number");
  return g->number;
}

std::string Options::text(const std::string& name, const std::string& fallback) const {
  const Given* g = find(name);
  return g ? g->text : fallback;
}

}  // namespace hexad::config
