#include "tools/check_cluster/check.h"

#include "framework/device/context.h"
#include "parallel/comm/text_collectives.h"
#include "tools/check_cluster/figures_json.h"
#include "tools/check_cluster/measurements.h"

namespace hexad::check_cluster {

std::vector<RankReport> measure_cluster(const comm::ProcessGroup& world, const CheckOptions& options) {
  device::DeviceContext context;
  RankReport report;
  report.rank = world.rank();
  report.node = world.node_of_rank().at(world.rank());
  report.facts = collect_facts(options.host, options.place, options.threads);
  measure_clocks(report, world, context);
  measure_rates(report, world, context, 0.15 * options.seconds);
  if (options.card)
    measure_card_rate(report, world, context, {.kind = device::DeviceKind::cuda, .place = options.place});
  // If the GPU has just computed products, its clock rate and temperature here are still those under load.
  if (!report.facts.card.empty()) report.facts.card_state = read_card_state(report.facts.card_id);
  measure_links(report, world, context, 0.5 * options.seconds);
  measure_collectives(report, world, context, 0.35 * options.seconds);
  if (!options.folder.empty()) check_folder(report, world, context, options.folder, options.patience);
  const std::string text = to_json(report);
  std::vector<RankReport> reports;
  comm::gather_bytes({text.begin(), text.end()}, world, context, [&](int, const std::vector<uint8_t>& bytes) {
    reports.push_back(report_from_json({bytes.begin(), bytes.end()}));
  });
  return reports;
}

}  // namespace hexad::check_cluster
