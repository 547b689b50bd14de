// Small corpus of two files, and the options that prepare it.
#pragma once

#include <string>

#include "framework/data/prepare.h"
#include "tests/data/data_folder.h"

namespace hexad::data {

inline std::string paragraph(int i) {
  std::string text;
  for (int k = 0; k < 12; ++k)
    text += base::cat("sentence ", k, " of paragraph ", i, " speaks of ", i * k % 17, " things. ");
  return text + "\n\n";
}

inline std::string book(int begin, int end) {
  std::string text;
  for (int i = begin; i < end; ++i) text += paragraph(i);
  return text;
}

struct TextCorpus {
  ScratchFolder folder;
  PrepareOptions options;

  TextCorpus() {
    folder.write("text/a.txt", book(0, 100));
    folder.write("text/b.txt", book(100, 200));
    options = {.inputs = {folder / "text"}, .output = folder / "out", .vocab_size = 400, .split = {}, .heldout = 0.1};
    options.split.longest_bytes = 2000;
  }
};

}  // namespace hexad::data
