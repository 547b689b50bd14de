#include "tests/kernels/cases.h"

namespace hexad::tests {

using namespace base;
using namespace kernels;
namespace {

using K = const KernelTable&;

Tensor row_weights_of(Trial& r, int64_t rows, int64_t row_weights) {
  return row_weights ? r.normal({rows, row_weights}, r.acc()) : Tensor();
}

// Packs rows. Tests compare all bytes of the rows: values or codes, scale, row weights and padding.
void pack(K k, Trial& r, WireFormat format) {
  const auto [t, d] = r.size;
  for (int64_t row_weights : {0, 1, 2, 3})
    for (Layout layout : {Layout::contiguous, Layout::strided_rows}) {
      const int64_t row = wire_row_bytes(format, r.dtype, d, row_weights);
      k.wire.pack(r.stream, r.output({t, row}, Dtype::u8), r.normal({t, d}, layout), {},
                  row_weights_of(r, t, row_weights), format);
      k.wire.pack(r.stream, r.output({3 * t, row}, Dtype::u8), r.normal({t, d}, layout),
                  r.integers({3 * t}, Dtype::i64, t), row_weights_of(r, 3 * t, row_weights), format);
      std::vector<int64_t> some(t);
      for (int64_t i = 0; i < t; ++i) some[i] = i % 3 == 0 ? -1 : i;
      k.wire.pack(r.stream, r.output({t, row}, Dtype::u8), r.normal({t, d}, layout), r.values<int64_t>(some, {t}),
                  row_weights_of(r, t, row_weights), format);
    }
}

void unpack(K k, Trial& r, WireFormat format) {
  const auto [t, d] = r.size;
  const Tensor index = r.values<int64_t>(every_second_row_backwards(t), {t});
  std::vector<int64_t> some = every_second_row_backwards(t);
  for (size_t i = 0; i < some.size(); i += 3) some[i] = -1;
  const Tensor part = r.values<int64_t>(some, {t});
  for (int64_t row_weights : {0, 1, 2, 3}) {
    const Tensor bytes = r.scratch({t, wire_row_bytes(format, r.dtype, d, row_weights)}, Dtype::u8);
    reference_table.wire.pack(r.host_stream, bytes, r.normal({t, d}), {}, row_weights_of(r, t, row_weights), format);
    for (bool wanted : {false, true})
      for (Layout layout : {Layout::contiguous, Layout::strided_rows}) {
        const auto target = [&] { return row_weights && wanted ? r.output({t, row_weights}, r.acc()) : Tensor(); };
        k.wire.unpack(r.stream, r.output({t, d}, 1, layout), target(), bytes, {}, format);
        k.wire.unpack(r.stream, r.output({2 * t + 1, d}, 1, layout), target(), bytes, index, format);
        k.wire.unpack(r.stream, r.update({2 * t + 1, d}, r.dtype), target(), bytes, part, format);
      }
  }
}

}  // namespace

std::vector<Case> wire_cases() {
  std::vector<Case> cases;
  for (const auto& [format, name] : enum_names(WireFormat{})) {
    cases.push_back({cat("wire_pack_", name), entry(&KernelTable::wire, &WireKernels::pack),
                     [format = format](K k, Trial& r) { pack(k, r, format); }});
    cases.push_back({cat("wire_unpack_", name), entry(&KernelTable::wire, &WireKernels::unpack),
                     [format = format](K k, Trial& r) { unpack(k, r, format); }});
  }
  return cases;
}

}  // namespace hexad::tests
