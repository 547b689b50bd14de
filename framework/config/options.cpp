#include "framework/config/options.h"

#include <charconv>

#include "framework/base/error.h"
#include "framework/config/words.h"

namespace hexad::config {

Options::Options(std::string key, std::string owner, const std::vector<NumberOption>& given)
    : key_(std::move(key)), owner_(std::move(owner)) {
  for (const NumberOption& o : given) given_.push_back({o.name, base::cat(o.value), o.value, true});
}

Options::Options(std::string key, std::string owner, const std::vector<TextOption>& given)
    : key_(std::move(key)), owner_(std::move(owner)) {
  for (const TextOption& o : given) {
    Given g{o.name, o.value, 0, false};
    const auto [end, error] = std::from_chars(o.value.data(), o.value.data() + o.value.size(), g.number);
    g.is_number = error == std::errc() && end == o.value.data() + o.value.size() && !o.value.empty();
    given_.push_back(g);
  }
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
    base::fail(base::ExitCode::usage, key_, ": ", name, " of ", owner_, " is '", shown(g->text),
               "', expected a number");
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
