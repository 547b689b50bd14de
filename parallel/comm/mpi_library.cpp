#include "parallel/comm/mpi_library.h"

#include <mpi.h>

#include <algorithm>
#include <array>

#include "framework/base/error.h"

namespace hexad::comm {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// Returns the first number of `text`, up to a comma or white space; empty if there is none. A number begins with a
// digit, at the beginning of `text` or after a space, tab, colon or 'v'.
std::string_view first_number(std::string_view text) {
  for (size_t begin = 0; begin < text.size(); ++begin) {
    const bool starts_word = begin == 0 || contains(" \t:v", text.substr(begin - 1, 1));
    if (starts_word && text[begin] >= '0' && text[begin] <= '9')
      return text.substr(begin, text.find_first_of(", \t\n", begin) - begin);
  }
  return {};
}

MpiFamily family_of(std::string_view text) {
  if (text.starts_with("Open MPI")) return MpiFamily::open_mpi;
  for (const char* name : {"MPICH", "Intel(R) MPI", "MVAPICH"})
    if (contains(text, name)) return MpiFamily::mpich;
  return MpiFamily::other;
}

}  // namespace

MpiLibrary mpi_library_of(std::string_view text) {
  const MpiFamily family = family_of(text);
  const std::string_view line = text.substr(0, text.find('\n')), number = first_number(line);
  if (family == MpiFamily::open_mpi) return {.family = family, .name = base::cat("Open MPI ", number)};
  if (line.starts_with("MPICH Version")) return {.family = family, .name = base::cat("MPICH ", number)};
  return {.family = family, .name = std::string(line.substr(0, line.find(',')))};
}

MpiLibrary mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);  // MPI permits this call before MPI_Init
  return mpi_library_of(std::string_view(text.data(), static_cast<size_t>(length)));
}

}  // namespace hexad::comm
