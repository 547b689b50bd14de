#include "parallel/comm/mpi_library.h"

#include <gtest/gtest.h>

namespace hexad::comm {
namespace {

struct Described {
  const char* text;
  MpiFamily family;
  const char* name;
};

TEST(MpiLibraries, AreRecognisedByTheirDescriptions) {
  const Described libraries[] = {
      {"Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4, May 26, 2022", MpiFamily::open_mpi,
       "Open MPI 4.1.4"},
      {"Open MPI v5.0.11, package: Open MPI distribution, ident: 5.0.11", MpiFamily::open_mpi, "Open MPI 5.0.11"},
      {"MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7 12:34:45 CDT 2022\nMPICH Device:\tch4:ucx\n",
       MpiFamily::mpich, "MPICH 4.0.2"},
      {"Intel(R) MPI Library 2021.9 for Linux* OS\n", MpiFamily::mpich, "Intel(R) MPI Library 2021.9 for Linux* OS"},
      {"MPI VERSION    : CRAY MPICH version 8.1.25 (ANL base 3.4a2)\n", MpiFamily::mpich,
       "MPI VERSION    : CRAY MPICH version 8.1.25 (ANL base 3.4a2)"},
      {"Some MPI 1.0", MpiFamily::other, "Some MPI 1.0"},
  };
  for (const Described& described : libraries) {
    const MpiLibrary library = mpi_library_of(described.text);
    EXPECT_EQ(library.family, described.family) << described.text;
    EXPECT_EQ(library.name, described.name);
  }
}

TEST(MpiLibraries, ProgramsLibraryIsKnownWithoutMpiInit) {
  const MpiLibrary library = mpi_library();
  EXPECT_NE(library.family, MpiFamily::other) << library.name;
  EXPECT_NE(library.name.find('.'), std::string::npos) << library.name;
}

}  // namespace
}  // namespace hexad::comm
