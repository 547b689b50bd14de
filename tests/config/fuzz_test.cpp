// Damaged recipes are read or refused, but never cause a crash. The debug preset runs these tests under the address
// sanitizer.
#include <gtest/gtest.h>

#include "framework/base/philox.h"
#include "tests/config/example_recipe.h"

namespace example {

using namespace hexad::config;

namespace {

using hexad::base::Philox;
using hexad::base::Purpose;

const std::string valid = R"(# a comment
name: "quick start"
model:
  hidden: 64
  layers: 3
  dropout: 1e-1
  tied: true
  moe: {experts: 8, score: sigmoid, capacity_factor: 1.25}
note: |
  two
  lines
etp: auto
betas: [0.8, .9]
sources:
  - path: a.bin
  - {path: 'b.bin', weight: 2}
)";

/// Reads `text`. If the text is accepted, writing and reading the recipe must not change the recipe. If the text is
/// refused, the error must be an Error(usage) whose message begins with the name of the file.
void survive(const std::string& text, uint64_t seed) {
  try {
    const Recipe recipe = read_text(text);
    EXPECT_EQ(read_text(write(recipe)), recipe) << "seed " << seed << "\n" << text;
  } catch (const hexad::base::Error& e) {
    EXPECT_EQ(e.code(), hexad::base::ExitCode::usage);
    EXPECT_TRUE(std::string_view(e.what()).starts_with("r.yaml")) << "seed " << seed << "\n" << e.what();
  }
}

TEST(DamagedRecipe, UndamagedRecipeIsLegal) { EXPECT_EQ(read_text(valid).sources.size(), 2u); }

TEST(DamagedRecipe, IsReadOrRefusedWhenTruncatedAnywhere) {
  for (size_t n = 0; n < valid.size(); ++n) survive(valid.substr(0, n), n);
}

TEST(DamagedRecipe, IsReadOrRefusedWithOneFlippedBitAnywhere) {
  for (size_t bit = 0; bit < valid.size() * 8; ++bit) {
    std::string text = valid;
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
    survive(text, bit);
  }
}

TEST(DamagedRecipe, IsReadOrRefusedWithSpecialCharactersAndCopiedPieces) {
  const std::string_view special = "[]{},:-?&*!|>'\"%@`#\n\t ~<=.0";
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const Philox random(seed, Purpose::synthetic, "damaged recipe");
    std::string text = valid;
    for (uint64_t i = 0; i < 1 + random.below(0, 8); ++i) {
      const size_t at = random.below(4 * i + 1, text.size());
      switch (random.below(4 * i + 2, 3)) {
        case 0:
          text[at] = special[random.below(4 * i + 3, special.size())];
          break;
        case 1:
          text.insert(at, 1, special[random.below(4 * i + 3, special.size())]);
          break;
        default:
          text.insert(at, text.substr(random.below(4 * i + 3, text.size()), random.below(4 * i + 4, 40)));
      }
    }
    survive(text, seed);
  }
}

}  // namespace
}  // namespace example
