#include "tests/kernels/cases.h"

namespace hexad::tests {

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (auto family : {product_cases, norm_cases, activation_cases, attention_cases, delta_cases, routing_cases,
                      router_loss_cases, slot_cases, wire_cases, loss_cases, pointwise_cases, optimizer_cases})
    for (Case& c : family()) all.push_back(std::move(c));
  return all;
}

std::vector<std::tuple<Case, Dtype>> in_their_dtypes(const std::vector<Case>& cases) {
  std::vector<std::tuple<Case, Dtype>> all;
  for (const Case& c : cases)
    for (const Dtype dtype : c.dtypes) all.emplace_back(c, dtype);
  return all;
}

std::string holes_of(const KernelTable& table) {
  std::string holes;
  kernels::for_each_entry([&]<auto Family, auto Entry>(const kernels::EntryName& name) {
    if (!(table.*Family.*Entry)) holes += base::cat(name, " has no kernel\n");
  });
  return holes;
}

std::vector<int64_t> every_second_row_backwards(int64_t rows) {
  std::vector<int64_t> index;
  for (int64_t r = 0; r < rows; ++r) index.push_back(2 * (rows - r) - 1);
  return index;
}

const std::vector<Size>& sizes() {
  static const std::vector<Size> all{{1, 1}, {1, 7}, {7, 1}, {0, 7}, {7, 65}, {67, 127}, {5, 512}};
  return all;
}

}  // namespace hexad::tests
