#include "tools/gpu/profile/profile_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tools/gpu/profile/kernel_names.h"

namespace hexad::gpu_profile {
namespace {

using Json = nlohmann::ordered_json;

class Report {
 public:
  explicit Report(const Profile& p) : p_(p), names_(short_names(p.operations)) {}

  std::string text() {
    head();
    kernels();
    copies();
    streams();
    longest_gaps();
    places();
    return std::move(out_);
  }
  std::string json() const;

 private:
  template <class... A>
  void line(fmt::format_string<A...> format, A&&... values) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<A>(values)...);
    out_ += '\n';
  }
  double a_step(int64_t sum) const { return static_cast<double>(sum) / static_cast<double>(p_.steps.size()); }
  double us_a_step(int64_t ns) const { return a_step(ns) * 1e-3; }
  double ms_a_step(int64_t ns) const { return a_step(ns) * 1e-6; }
  double percent(int64_t ns) const { return 100.0 * static_cast<double>(ns) / static_cast<double>(p_.window.length()); }
  int64_t busy() const { return p_.window.length() - p_.idle(); }
  int64_t summed() const {
    int64_t sum = 0;
    for (const Operation& o : p_.operations) sum += o.ns;
    return sum;
  }
  std::string name(std::string_view recorded) const {
    if (recorded.empty()) return "nothing";
    const auto found = names_.find(recorded);
    return found == names_.end() ? shortened(demangled(recorded)) : found->second;
  }
  std::string name(const Activity* a) const { return name(a ? a->name : std::string_view{}); }

  void head();
  void kernels();
  void copies();
  void streams();
  void longest_gaps();
  void places();

  const Profile& p_;
  std::map<std::string_view, std::string> names_;
  std::string out_;
};

void Report::head() {
  const auto [least, most] = std::minmax_element(
      p_.steps.begin(), p_.steps.end(), [](const StepTime& a, const StepTime& b) { return a.total < b.total; });
  const auto steps = static_cast<int64_t>(p_.steps.size());
  line("steps {} to {}: {:.3f} ms per step ({:.3f} to {:.3f})", p_.first_step, p_.first_step + steps - 1,
       ms_a_step(p_.window.length()), static_cast<double>(least->total) * 1e-6,
       static_cast<double>(most->total) * 1e-6);
  line("busy {:.3f} ms per step, idle {:.3f} ms ({:.2f} %) in {:.1f} gaps; sum of all activities {:.3f} ms",
       ms_a_step(busy()), ms_a_step(p_.idle()), percent(p_.idle()), a_step(static_cast<int64_t>(p_.gaps.size())),
       ms_a_step(summed()));
  line("share: part of a step's time; launches, copies, gaps and counts are means per step");
}

void Report::kernels() {
  line("\n{:>8} {:>12} {:>9} {:>10}  kernel", "share", "us a step", "launches", "us each");
  for (const Operation& o : p_.operations)
    if (o.kind == Kind::kernel)
      line("{:>6.2f} % {:>12.1f} {:>9.1f} {:>10.2f}  {}", percent(o.ns), us_a_step(o.ns), a_step(o.count),
           static_cast<double>(o.ns) * 1e-3 / static_cast<double>(o.count), name(o.name));
}

void Report::copies() {
  line("\n{:>8} {:>12} {:>9} {:>12} {:>8}  copy or fill", "share", "us a step", "copies", "MB a step", "GB/s");
  for (const Operation& o : p_.operations)
    if (o.kind != Kind::kernel)
      line("{:>6.2f} % {:>12.1f} {:>9.1f} {:>12.3f} {:>8.1f}  {}", percent(o.ns), us_a_step(o.ns), a_step(o.count),
           a_step(o.bytes) * 1e-6, static_cast<double>(o.bytes) / static_cast<double>(std::max<int64_t>(o.ns, 1)),
           name(o.name));
}

void Report::streams() {
  if (p_.streams.size() < 2) return;
  line("\n{:>8} {:>12} {:>12} {:>9} {:>8}  longest operation", "busy", "us a step", "us alone", "count", "stream");
  for (const StreamTime& s : p_.streams)
    line("{:>6.2f} % {:>12.1f} {:>12.1f} {:>9.1f} {:>8}  {}", percent(s.busy), us_a_step(s.busy), us_a_step(s.alone),
         a_step(s.count), s.stream, name(s.longest));
}

void Report::longest_gaps() {
  line("\n{:>10} {:>6} {:>10}  longest gaps, from the end of the first activity | to the start of the second", "us",
       "step", "at ms");
  for (size_t i = 0; i < std::min<size_t>(p_.gaps.size(), 10); ++i) {
    const Gap& g = p_.gaps[i];
    line("{:>10.1f} {:>6} {:>10.3f}  {} | {}", static_cast<double>(g.time.length()) * 1e-3, p_.step_of(g),
         static_cast<double>(p_.ns_into_step(g)) * 1e-6, name(g.before), name(g.after));
  }
}

void Report::places() {
  line("\n{:>8} {:>12} {:>9}  gaps by place, from the end of the first activity | to the start of the second", "share",
       "us a step", "gaps");
  for (size_t i = 0; i < std::min<size_t>(p_.places.size(), 20); ++i) {
    const Place& p = p_.places[i];
    line("{:>6.2f} % {:>12.1f} {:>9.1f}  {} | {}", percent(p.ns), us_a_step(p.ns), a_step(p.count), name(p.before),
         name(p.after));
  }
}

std::string Report::json() const {
  const auto us = [](int64_t ns) { return static_cast<double>(ns) * 1e-3; };
  Json out{{"first_step", p_.first_step},      {"step_us", us_a_step(p_.window.length())},
           {"busy_us", us_a_step(busy())},     {"idle_us", us_a_step(p_.idle())},
           {"summed_us", us_a_step(summed())}, {"gaps_a_step", a_step(static_cast<int64_t>(p_.gaps.size()))}};
  for (const char* list : {"steps", "kernels", "copies", "streams", "gaps", "places"}) out[list] = Json::array();
  for (const StepTime& s : p_.steps) out["steps"].push_back({{"us", us(s.total)}, {"idle_us", us(s.idle)}});
  for (const Operation& o : p_.operations) {
    const bool kernel = o.kind == Kind::kernel;
    Json entry{{"name", name(o.name)}, {"us", us_a_step(o.ns)}, {"count", a_step(o.count)}};
    if (kernel) entry["mangled"] = o.name;
    if (!kernel) entry["bytes"] = a_step(o.bytes);
    out[kernel ? "kernels" : "copies"].push_back(std::move(entry));
  }
  for (const StreamTime& s : p_.streams)
    out["streams"].push_back({{"stream", s.stream},
                              {"us", us_a_step(s.busy)},
                              {"alone_us", us_a_step(s.alone)},
                              {"count", a_step(s.count)},
                              {"longest", name(s.longest)}});
  for (size_t i = 0; i < std::min<size_t>(p_.gaps.size(), 100); ++i) {
    const Gap& g = p_.gaps[i];
    out["gaps"].push_back({{"us", us(g.time.length())},
                           {"step", p_.step_of(g)},
                           {"at_us", us(p_.ns_into_step(g))},
                           {"before", name(g.before)},
                           {"after", name(g.after)}});
  }
  for (size_t i = 0; i < std::min<size_t>(p_.places.size(), 100); ++i) {
    const Place& p = p_.places[i];
    out["places"].push_back(
        {{"us", us_a_step(p.ns)}, {"count", a_step(p.count)}, {"before", name(p.before)}, {"after", name(p.after)}});
  }
  return out.dump(1) + "\n";
}

}  // namespace

std::string to_text(const Profile& profile) { return Report(profile).text(); }
std::string to_json(const Profile& profile) { return Report(profile).json(); }

}  // namespace hexad::gpu_profile
