// MPI library that this program uses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hexad::comm {

/// Families of MPI libraries. Their launchers, and the environment variables that the launchers set, differ.
///   - open_mpi: Open MPI
///   - mpich: MPICH and the libraries derived from it, such as Intel MPI
///   - other: all other libraries
enum class MpiFamily : uint8_t { open_mpi, mpich, other };

struct MpiLibrary {
  MpiFamily family = MpiFamily::other;
  std::string name{};  // with the version, such as "MPICH 4.0.2"
};

/// Returns the library for which MPI_Get_library_version returns `text`.
MpiLibrary mpi_library_of(std::string_view text);
/// Returns the library that this program uses. Does not initialise MPI.
MpiLibrary mpi_library();

}  // namespace hexad::comm
