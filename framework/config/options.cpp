#include "framework/config/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "framework/base/error.h"
#include "framework/config/words.h"

namespace hexad::config {

Options::Options(std::string key, std::string owner, const std::vector<NumberOption>& given)
    : key_(std::move(key)), owner_(std::move(owner)) {
  for (const NumberOption& o : given) give({o.name, base::cat(o.value), o.value, std::isfinite(o.value)});
}

Options::Options(std::string key, std::string owner, const std::vector<TextOption>& given)
    : key_(std::move(key)), owner_(std::move(owner)) {
  for (const TextOption& o : given) {
    Given g{o.name, o.value, 0, false};
    const auto [end, error] = std::from_chars(o.value.data(), o.value.data() + o.value.size(), g.number);
    g.is_number = error == std::errc() && end == o.value.data() + o.value.size() && std::isfinite(g.number);
    give(std::move(g));
  }
}

void Options::give(Given g) {
  const auto same = std::ranges::find(given_, g.name, &Given::name);
  if (same != given_.end())
    base::fail(base::ExitCode::usage, key_, ".", given_.size(), ".name (", shown(g.name), ") is given twice, also by ",
               key_, ".", same - given_.begin(), "; leave one of them out");
  given_.push_back(std::move(g));
}

const Options::Given* Options::find(const std::string& name) const {
  asked_->insert(name);
  for (const Given& g : given_)
    if (g.name == name) return &g;
  return nullptr;
}

double Options::number(const std::string& name, double fallback) const {
  const Given* g = find(name);
  if (!g) return fallback;
  if (!g->is_number)
    base::fail(base::ExitCode::usage, key_, ".", g - given_.data(), ".value (", shown(g->text), ") must be a finite ",
               "number: it is the option ", name, " of ", owner_);
  return g->number;
}

std::string Options::text(const std::string& name, const std::string& fallback) const {
  const Given* g = find(name);
  return g ? g->text : fallback;
}

void Options::require_all_asked() const {
  for (size_t i = 0; i < given_.size(); ++i) {
    const std::string& name = given_[i].name;
    if (asked_->contains(name)) continue;
    base::fail(base::ExitCode::usage, key_, ".", i, ".name (", shown(name), ") is no option of ", owner_, "; ",
               asked_->empty() ? "it has none" : "it has: " + nearest_first(name, {asked_->begin(), asked_->end()}));
  }
}

}  // namespace hexad::config
