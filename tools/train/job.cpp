#include "tools/train/job.h"

#include "tools/train/agreement.h"
#include "tools/train/cores.h"
#include "tools/train/run_directory.h"
#include "tools/train/say.h"
#include "tools/train/traffic_options.h"

namespace hexad::train {
namespace {

#ifdef NDEBUG
constexpr bool debug_build = false;
#else
constexpr bool debug_build = true;
#endif

}  // namespace

Recipe load_for_ranks(comm::World& world, const std::string& path, const std::vector<std::string>& overrides,
                      const layers::Registry& registry) {
  const int64_t cores = find_cores(world).of_rank;
  const Recipe recipe = load_on_all_ranks(world, [&] {
    Recipe r = load_recipe(config::load(path, overrides), registry, world.size(), [&](const std::string& text) {
      if (world.rank() == 0) say(text);
    });
    complete(r, cores);
    return r;
  });
  world.set_guards(guards_of(recipe.distributed));
  order_traffic(world, recipe.distributed);
  return recipe;
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
