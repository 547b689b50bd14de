// Parity cases, at least one for every entry of the KernelTable.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "framework/kernels/entries.h"
#include "tests/kernels/trial.h"

namespace hexad::tests {

using kernels::KernelTable;
using kernels::reference_table;

struct Case {
  std::string name;
  size_t entry;  // index of the function pointer in the table
  std::function<void(const KernelTable&, Trial&)> body;
  std::vector<Dtype> dtypes{Dtype::f32, Dtype::bf16, Dtype::f64};  // dtypes of trials

  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

/// Returns the index of an entry in KernelTable, which contains only function pointers.
template <class Families, class Family, class Entry>
size_t entry(Family Families::*family, Entry Family::*member) {
  const KernelTable& t = reference_table;
  return static_cast<size_t>(reinterpret_cast<const std::byte*>(&(t.*family.*member)) -
                             reinterpret_cast<const std::byte*>(&t)) /
         sizeof(void (*)());
}

/// Returns one line for each entry of the table that has no function; empty if every entry has a function.
std::string holes_of(const KernelTable& table);

std::vector<Case> product_cases();
std::vector<Case> norm_cases();
std::vector<Case> activation_cases();
std::vector<Case> attention_cases();
std::vector<Case> delta_cases();
std::vector<Case> routing_cases();
std::vector<Case> router_loss_cases();
std::vector<Case> slot_cases();
std::vector<Case> wire_cases();
std::vector<Case> loss_cases();
std::vector<Case> pointwise_cases();
std::vector<Case> optimizer_cases();
std::vector<Case> all_cases();

/// Returns each case with each of its dtypes.
std::vector<std::tuple<Case, Dtype>> in_their_dtypes(const std::vector<Case>& cases);

/// Returns `rows` indices: 2 `rows` - 1, 2 `rows` - 3, ..., 1. These are rows of a tensor with 2 `rows` + 1 rows.
std::vector<int64_t> every_second_row_backwards(int64_t rows);

/// Returns the sizes of trials that compare two tables. They include one token, no token and one feature.
const std::vector<Size>& sizes();

}  // namespace hexad::tests
