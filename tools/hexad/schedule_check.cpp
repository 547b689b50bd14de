#include "tools/hexad/schedule_check.h"

#include <algorithm>

#include "framework/config/words.h"

namespace hexad::app {
namespace {

using base::cat;
using config::Problems;
using moe::Cut;
using moe::Duplicates;
using moe::Overlap;

void check_duplicates(const Recipe& r, Problems& problems) {
  const moe::MoeSchedule& s = r.schedule.moe;
  const int64_t tp = r.parallel.tp, etp = r.parallel.etp.value_or(tp);
  if (r.parallel.sp && tp > 1 &&
      (s.duplicates == Duplicates::replicated || s.duplicates == Duplicates::pause_after_gate))
    problems.add("schedule.moe.duplicates",
                 "needs tokens that tp ranks hold alike, but parallel.sp divides them before the layer; legal with it: "
                 "baseline, drop, pause_before_gate");
  else if (s.duplicates == Duplicates::replicated && tp % etp != 0)
    problems.add("schedule.moe.duplicates", cat("needs the etp ranks (", etp, ") among the tp ranks (", tp,
                                                ") that hold the same tokens: parallel.etp must divide parallel.tp"));
}

void check_spread(const moe::MoeSchedule& s, Problems& problems) {
  if (!s.spread) return;
  const bool held = *s.spread == ep::Spread::held;
  if (held && s.divides())
    problems.add(
        "schedule.moe.spread",
        "held means that every etp rank is sent all rows by its own peers, which only duplicates: baseline and "
        "replicated do; legal here: auto, gather, direct");
  if (!held && !s.divides())
    problems.add(
        "schedule.moe.spread",
        "must be auto or held for duplicates: baseline and replicated, which send every etp rank its own copy");
}

void check_parts(const Recipe& r, Problems& problems) {
  const moe::MoeSchedule& s = r.schedule.moe;
  if (s.parts > 1 && !s.overlaps())
    return problems.add("schedule.moe.parts",
                        "has nothing to divide: set schedule.moe.cut or schedule.moe.overlap, or parts: 1");
  if (s.parts == 1 && s.overlaps())
    return problems.add("schedule.moe.parts",
                        cat("must be at least 2 for ", s.is_cut() ? "schedule.moe.cut" : "schedule.moe.overlap",
                            ": of one part nothing overlaps"));
  const int64_t ep = r.parallel.ep;
  const bool phases = s.cut == Cut::nodes || (!s.is_cut() && s.duplicates == Duplicates::pause_after_gate);
  if (phases && s.parts > ep)
    problems.add("schedule.moe.parts", cat("must be at most parallel.ep (", ep,
                                           ") where the all-to-all is divided by "
                                           "peers (cut: nodes, or the phases of pause_after_gate)"));
  if (s.cut == Cut::experts && r.model.moe.experts % ep == 0 && s.parts > r.model.moe.experts / ep)
    problems.add("schedule.moe.parts", cat("must be at most the experts of a rank (", r.model.moe.experts, " / ", ep,
                                           " = ", r.model.moe.experts / ep, ") for cut: experts"));
}

void check_restore(const Recipe& r, Problems& problems) {
  const moe::MoeSchedule& s = r.schedule.moe;
  if (s.restore == moe::Restore::keep) return;
  const auto refuse = [&](std::string_view why) {
    problems.add("schedule.moe.restore", cat("works chunk by chunk: ", why, "; or restore: keep"));
  };
  if (s.cut == Cut::nodes || s.cut == Cut::experts) refuse("schedule.moe.cut must be none or tokens");
  if (s.overlap != Overlap::sequential) refuse("schedule.moe.overlap must be sequential");
  if (s.duplicates != Duplicates::pause_before_gate) refuse("schedule.moe.duplicates must be pause_before_gate");
}

}  // namespace

void check_moe_schedule(const Recipe& r, Problems& problems) {
  if (r.model.moe.experts == 0) return;
  const moe::MoeSchedule& s = r.schedule.moe;
  if (problems.good({"schedule.moe.duplicates", "parallel.tp", "parallel.etp", "parallel.sp"}))
    check_duplicates(r, problems);
  if (problems.good({"schedule.moe.duplicates", "schedule.moe.spread"})) check_spread(s, problems);
  if (problems.good({"schedule.moe", "model.moe.experts", "parallel.ep"})) check_parts(r, problems);
  if (problems.good({"schedule.moe"})) check_restore(r, problems);
}

void check_moe_order(const Recipe& r, const layers::Registry& registry, Problems& problems) {
  const moe::MoeSchedule& s = r.schedule.moe;
  const moe::TripOrder* order = registry.moe_order(s.order);
  if (!order) {
    std::vector<std::string> names = registry.moe_order_names();
    std::ranges::stable_sort(names, {}, [&](const std::string& n) { return config::edit_distance(s.order, n); });
    const std::vector<std::string_view> views(names.begin(), names.end());
    return problems.add("schedule.moe.order", "is no registered order; there are: " + config::join(views));
  }
  if (r.model.moe.experts == 0 || !problems.good({"schedule.moe"})) return;
  if (s.order != moe::alternating_order().name && !s.is_cut())
    return problems.add("schedule.moe.order", "has no parts to order: set schedule.moe.cut, or order: alternating");
  if (!s.is_cut()) return;
  const auto chunks = static_cast<size_t>(s.parts);
  const std::string why = why_illegal(order->steps(chunks), chunks, s.restore != moe::Restore::keep);
  if (!why.empty()) problems.add("schedule.moe.order", cat("is illegal for ", chunks, " chunks: ", why));
}

}  // namespace hexad::app
