// Measures the costs of one rank in jobs of many ranks. The program does not start the other ranks.
// tools/bench/scale_growth.sh makes its table from the output.
//
//   scale_growth RANKS...
//
// Prints one line per number of ranks and activity, with fields separated by tabs: ranks, activity, messages, bytes of
// messages, bytes of memory, seconds.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "tools/bench/growth_rows.h"

int main(int count, char** words) {
  CLI::App app("Measures the costs of one rank in jobs of many ranks");
  std::vector<int> worlds;
  app.add_option("ranks", worlds, "numbers of ranks: powers of two of at least 64")->required();
  CLI11_PARSE(app, count, words);
  try {
    for (const int world : worlds)
      for (const auto& rows : {hexad::bench::growth_rows(world), hexad::bench::checkpoint_growth_rows(world)})
        for (const hexad::bench::GrowthRow& row : rows)
          fmt::print("{}\t{}\t{}\t{}\t{}\t{:.6f}\n", world, row.activity, row.messages, row.message_bytes,
                     row.memory_bytes, row.seconds);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "scale_growth: %s\n", e.what());
    return 1;
  }
  return 0;
}
