// Backends that a test program covers: the CPU's table and the reference, or those of a device (tests/gpu).
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "framework/kernels/kernel_table.h"

namespace hexad::tests {

/// A table and the kind of device that it works on.
struct Backend {
  std::string name;
  const kernels::KernelTable* table;
  device::DeviceKind kind;

  friend std::ostream& operator<<(std::ostream& out, const Backend& b) { return out << b.name; }
};

std::vector<Backend> backends_under_test();

}  // namespace hexad::tests
