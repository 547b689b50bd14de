// Graphs of passes with one letter for each task, so that a whole graph fits in one line of a test. The letters are
// defined in docs/moe-layer.md.
#pragma once

#include <regex>
#include <string>

namespace hexad::tests {

/// Converts "inter: dispatch.a2a[0](dispatch.pack[0])" to "inter: S0(P0)".
inline std::string in_letters(std::string text) {
  const std::pair<const char*, const char*> letters[] = {{"dispatch\\.tokens", "B"},
                                                         {"dispatch\\.weights", "V"},
                                                         {"dispatch\\.pack", "P"},
                                                         {"dispatch\\.a2a_inside", "N"},
                                                         {"dispatch\\.a2a", "S"},
                                                         {"dispatch\\.all_gather", "G"},
                                                         {"dispatch\\.place", "D"},
                                                         {"inputs\\.pack", "P'"},
                                                         {"inputs\\.a2a_inside", "N'"},
                                                         {"inputs\\.a2a", "S'"},
                                                         {"inputs\\.all_gather", "G'"},
                                                         {"inputs\\.place", "D'"},
                                                         {"inputs\\.fetch", "F'"},
                                                         {"activations\\.fetch", "F"},
                                                         {"shared_experts", "H"},
                                                         {"experts", "C"},
                                                         {"inputs\\.offload", "O'"},
                                                         {"activations\\.offload", "O"},
                                                         {"weight_gradients", "W"},
                                                         {"combine\\.reorder", "U"},
                                                         {"combine\\.(reduce_scatter|all_reduce)", "A"},
                                                         {"combine\\.a2a_inside", "K"},
                                                         {"combine\\.a2a", "R"},
                                                         {"combine\\.unpack", "L"},
                                                         {"combine\\.all_gather", "X"},
                                                         {"combine\\.tokens", "T"},
                                                         {"combine\\.gather_weights", "Y"},
                                                         {"shares\\.all_gather", "Z"},
                                                         {"dispatch", "S"},  // steps of an issue order
                                                         {"combine", "R"}};
  for (const auto& [name, letter] : letters) {
    text = std::regex_replace(text, std::regex(std::string(name) + "\\[(\\d+)\\]"),
                              std::string(letter) + (std::string(name).find('(') == std::string::npos ? "$1" : "$2"));
    text = std::regex_replace(text, std::regex("\\b" + std::string(name) + "(?![\\[\\w.:])"), letter);
  }
  return text;
}

}  // namespace hexad::tests
