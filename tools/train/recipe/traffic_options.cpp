#include "tools/train/recipe/traffic_options.h"

#include "framework/base/ordinal.h"
#include "framework/kernels/kernel_table.h"
#include "parallel/mesh/layout.h"
#include "tools/train/process/crash_report.h"
#include "tools/train/process/say.h"
#include "tools/train/recipe/schedule_check.h"

namespace hexad::train {
namespace {

#ifdef NDEBUG
constexpr bool debug_build = false;
#else
constexpr bool debug_build = true;
#endif

// True if all-to-alls of experts are in flight while matrix products compute on all multiprocessors.
bool has_all_to_alls_beside_products(const Recipe& r, const mesh::Layout& layout) {
  using base::Axis;
  if (r.model.moe.experts == 0 || layout.size(Axis::ep) * layout.size(Axis::etp) == 1) return false;
  const bool in_pass = r.schedule.moe.compute_share == 1 && !computes_alone(r.schedule.moe);
  return in_pass || r.schedule.pipeline.overlap == pp::Overlap::micro_batches;
}

// Returns the path of tensors between ranks. Threads on several GPUs use NCCL only if the recipe requests NCCL, because
// NCCL may hang. In a process with all GPUs, a CUDA call of rank A may wait for the GPU of rank B, whose NCCL kernel
// waits for rank A.
comm::DeviceCollectives collectives_of(const DistributedConfig& config, const comm::ProcessGroup& world) {
  using enum comm::DeviceCollectives;
  return config.device_collectives == automatic && world.in_one_process() ? host : config.device_collectives;
}

}  // namespace

comm::Priorities priorities_of(const DistributedConfig& config) {
  if (config.priority.empty()) return comm::Priorities::by_arrival();
  comm::Priorities p;
  p.of_class.fill(static_cast<int>(config.priority.size()) + 1);
  p.of_class[base::ordinal(comm::TrafficClass::control)] = 0;
  int place = 1;
  for (comm::TrafficClass c : config.priority) p.of_class[base::ordinal(c)] = place++;
  return p;
}

std::vector<comm::TrafficBeside> traffic_beside_products(const Recipe& recipe, int world) {
  using base::Axis;
  constexpr int64_t few_micro_batches = 4;
  const mesh::Layout layout(recipe.parallel.sizes(), world);
  const int64_t zero = recipe.parallel.zero, stages = layout.size(Axis::pp), data_ranks = layout.size(Axis::dp);
  std::vector<comm::TrafficBeside> beside;
  if (stages > 1)
    beside.push_back({.traffic = comm::TrafficClass::pp, .messages = true, .operations = stages == 2 ? 2 : 4});
  const bool summed = data_ranks * layout.size(Axis::cp) > 1 || layout.size(Axis::edp) > 1;
  const int64_t micro_batches = recipe.batch.global / (recipe.batch.micro * data_ranks);
  if (summed && (zero >= 2 || micro_batches <= few_micro_batches))
    beside.push_back({.traffic = comm::TrafficClass::dp, .operations = zero == 3 ? 2 : 1});
  if (const int ranks = layout.size(Axis::tp); ranks > 1) {
    const bool messages = recipe.parallel.sp;
    beside.push_back(
        {.traffic = comm::TrafficClass::tp, .messages = messages, .operations = messages ? 2 * (ranks - 1) : 1});
  }
  if (has_all_to_alls_beside_products(recipe, layout)) beside.push_back({.traffic = comm::TrafficClass::ep});
  return beside;
}

comm::DeviceGroupOptions device_group_options(const Recipe& recipe, const comm::ProcessGroup& world,
                                              device::DeviceContext& context) {
  const DistributedConfig& config = recipe.distributed;
  comm::DeviceGroupOptions options{.collectives = collectives_of(config, world),
                                   .priorities = priorities_of(config),
                                   .watchdog_seconds = config.watchdog_seconds,
                                   .register_buffers = config.register_buffers};
  for (size_t i = 0; i < config.network_classes.size(); ++i)
    options.network_class[base::ordinal(config.priority[i])] = static_cast<int>(config.network_classes[i]);
  if (!config.reserve_multiprocessors) options.beside_products = traffic_beside_products(recipe, world.size());
  if (recipe.train.deterministic) options.sum_of = kernels::kernels(context).pointwise.sum_of.get();
  options.warn = [](const std::string& text) { say("warning: " + text); };
  options.on_failure = [&world](const base::Error& e) {
    report_end(e.what());
    say(e.what());
    world.abort_job(e.code());
  };
  return options;
}

comm::Guards guards_of(const DistributedConfig& config) {
  return {.watchdog_seconds = config.watchdog_seconds,
          .check_collectives = config.check_collectives.value_or(debug_build)};
}

void order_traffic(comm::World& world, const DistributedConfig& config) {
  world.set_limits({.round_bytes = config.piece_bytes,
                    .window_bytes = config.window_bytes,
                    .low_window_bytes = config.low_window_bytes});
  world.prioritize(priorities_of(config));
}

}  // namespace hexad::train
