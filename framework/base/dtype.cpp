#include "framework/base/dtype.h"

#include <array>
#include <ostream>

#include "framework/base/ordinal.h"

namespace hexad::base {
namespace {

struct Entry {
  Dtype dtype;
  std::string_view name;
  int64_t size;
};
constexpr std::array<Entry, 6> entries{{{Dtype::f32, "f32", 4},
                                        {Dtype::bf16, "bf16", 2},
                                        {Dtype::f64, "f64", 8},
                                        {Dtype::i32, "i32", 4},
                                        {Dtype::i64, "i64", 8},
                                        {Dtype::u8, "u8", 1}}};

}  // namespace

int64_t size_of(Dtype dtype) { return entries[base::ordinal(dtype)].size; }
std::string_view name_of(Dtype dtype) { return entries[base::ordinal(dtype)].name; }

Dtype dtype_from_name(std::string_view name) {
  for (const Entry& e : entries)
    if (e.name == name) return e.dtype;
  fail(ExitCode::usage, "unknown dtype '", name, "'; expected f32, bf16, f64, i32, i64 or u8");
}

std::ostream& operator<<(std::ostream& out, Dtype dtype) { return out << name_of(dtype); }

}  // namespace hexad::base
